//! What indexes of fields cost writes, and what finding by them takes: by how many records match,
//! and how many there are.
//!
//! Records are made so that a value of field `m` stands in exactly `m` of them, by arithmetic:
//! which keys a find must give is known without asking any store, and every answer is compared with
//! that.

use crate::keys::Shuffled;
use crate::machine::Machine;
use crate::place::{Place, make_dir, write};
use crate::progress::Progress;
use crate::report::median;
use crate::result::Latency;
use esker::fields::Record;
use esker::{Db, FindOptions, Keyspace, Options};
use esker_draw::units::{duration, rate};
use esker_draw::{Axes, Line, Outcome, Palette, RATES};
use hdrhistogram::Histogram;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// What is to be measured.
#[derive(Clone, Debug, clap::Args)]
pub struct Choice {
    /// Records of the stores, in thousands
    #[arg(long, value_delimiter = ',', default_value = "100,300,1000", value_name = "THOUSANDS", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    sizes: Vec<u64>,
    /// Finds of each kind
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    finds: u64,
    /// Measured so often; tables show medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Where the stores go, one after the other. A temporary directory if not given
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Where the tables and the drawing go
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// In how many records the same value stands, of each indexed field.
const MATCHES: [u64; 4] = [1, 10, 100, 1_000];

/// Indexes that the stores have when they are written.
const INDEXES: [usize; 3] = [0, 1, 4];

/// What a record carries beside its indexed fields, so that it takes some 200 bytes.
const PADDING: &str = "whatever else is known of the thing, which nobody looks it up by, in a hundred bytes or so; and more";

/// Finds of the kinds with the most matches are fewer, so that they take no more time than the
/// others.
const FOUND_MAX: u64 = 4_000_000;

/// What was measured at one size.
#[derive(Clone, Debug, Default)]
struct Row {
    records: u64,
    /// Records a second with as many indexes as [`INDEXES`] says: put, put again with other values,
    /// and put again with the same values in indexed fields.
    writes: [[Vec<f64>; 3]; INDEXES.len()],
    /// Records a second that an index was made of.
    built: Vec<f64>,
    /// Nanoseconds of finds right after the store was opened, and after that, for each of
    /// [`MATCHES`].
    first: [Vec<f64>; MATCHES.len()],
    warm: [Vec<f64>; MATCHES.len()],
    warm_p99: [Vec<f64>; MATCHES.len()],
    /// Nanoseconds of a find with one match and a get of the record.
    with_record: Vec<f64>,
    /// Nanoseconds of finding without an index.
    scan: Vec<f64>,
}

/// Measures all of it. Ends early if `stop` is set; sizes that were measured before are kept.
///
/// # Errors
/// Of a store or of the file system, or an answer that is wrong.
pub fn run(choice: &Choice, stop: &AtomicBool, progress: &mut Progress) -> Outcome<()> {
    make_dir(&choice.out)?;
    let place = Place::new("fields", choice.db.as_deref());
    let mut rows: Vec<Row> = Vec::new();
    for &thousands in &choice.sizes {
        let mut row = Row { records: thousands * 1_000, ..Row::default() };
        for round in 0..choice.repeat {
            // Stores with and without indexes take turns.
            for nth in 0..INDEXES.len() {
                let nth = (nth + round as usize) % INDEXES.len();
                place.within(&format!("{thousands}-{}", INDEXES[nth]), |dir| {
                    Lab { choice, stop, progress, dir, row: &mut row, nth }.run()
                })?;
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
        }
        rows.push(row);
        write(&choice.out.join("fields.md"), page(choice, &rows))?;
        write(&choice.out.join("fields.svg"), drawing(&rows)?)?;
    }
    Ok(())
}

fn name(matches: u64) -> String {
    format!("in{matches}")
}

/// The key of a record.
fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// A record whose values of the indexed fields are `shift` beyond those that it had at first.
fn record(number: u64, records: u64, shift: u64) -> Record {
    let mut record = Record::new().with("number", number as i64).with("padding", PADDING);
    for matches in MATCHES {
        record.set(name(matches), ((number + shift) % (records / matches)) as i64);
    }
    record
}

struct Lab<'a> {
    choice: &'a Choice,
    stop: &'a AtomicBool,
    progress: &'a mut Progress,
    dir: &'a Path,
    row: &'a mut Row,
    /// Which of [`INDEXES`].
    nth: usize,
}

impl Lab<'_> {
    /// Fills a store that has some indexes; the one with the most is then searched, and one is
    /// built over the one that has none.
    fn run(mut self) -> Outcome<()> {
        let db = self.open()?;
        let indexes = INDEXES[self.nth];
        for &matches in &MATCHES[..indexes] {
            db.default_keyspace().create_index(&name(matches))?;
        }
        db.wait_indexes()?;
        let steps = [("put", 0), ("put with other values", 1), ("put with the same values", 1)];
        for (step, (what, shift)) in steps.into_iter().enumerate() {
            let what = format!("{what}, {indexes} indexes");
            let Some(rate) = self.puts(&db, &what, shift)? else { return Ok(()) };
            self.row.writes[self.nth][step].push(rate);
        }
        match indexes {
            0 => self.build(&db)?,
            indexes if indexes == MATCHES.len() => {
                db.close()?;
                return self.search();
            }
            _ => {}
        }
        Ok(db.close()?)
    }

    fn open(&self) -> Outcome<Db> {
        let mut options = Options::default();
        options.memory_budget_bytes = options.memory_budget_bytes.max(1 << 30);
        Ok(Db::open(self.dir, options)?)
    }

    /// Puts all records in an order that looks random, and waits until the store has no more work.
    /// Records a second, of the puts alone; `None` if it was interrupted.
    fn puts(&mut self, db: &Db, what: &str, shift: u64) -> Outcome<Option<f64>> {
        let (keyspace, records) = (db.default_keyspace(), self.row.records);
        let order = Shuffled::new(records);
        let start = Instant::now();
        for at in 0..records {
            if at % 4_096 == 0 {
                self.progress.at(what, at, records);
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(None);
                }
            }
            let number = order.at(at);
            keyspace.put_record(&key(number), &record(number, records, shift))?;
        }
        let rate = records as f64 / start.elapsed().as_secs_f64();
        db.wait_idle()?;
        Ok(Some(rate))
    }

    /// Makes an index of the records that are there.
    fn build(&mut self, db: &Db) -> Outcome<()> {
        let start = Instant::now();
        db.default_keyspace().create_index(&name(MATCHES[1]))?;
        db.wait_indexes()?;
        self.row.built.push(self.row.records as f64 / start.elapsed().as_secs_f64());
        Ok(())
    }

    /// Finds, in a store that was just opened.
    fn search(mut self) -> Outcome<()> {
        let db = self.open()?;
        let keyspace = db.default_keyspace();
        for is_first in [true, false] {
            for (nth, matches) in MATCHES.into_iter().enumerate() {
                let Some(taken) = self.finds(keyspace, matches, false)? else { return Ok(()) };
                match is_first {
                    true => self.row.first[nth].push(taken.mean),
                    false => {
                        self.row.warm[nth].push(taken.mean);
                        self.row.warm_p99[nth].push(taken.p99 as f64);
                    }
                }
            }
        }
        let Some(taken) = self.finds(keyspace, MATCHES[0], true)? else { return Ok(()) };
        self.row.with_record.push(taken.mean);
        self.scan(keyspace)?;
        Ok(db.close()?)
    }

    /// Finds by a field, and compares each answer with what it must be. `None` if it was
    /// interrupted.
    fn finds(&mut self, keyspace: &Keyspace, matches: u64, gets: bool) -> Outcome<Option<Latency>> {
        let field = name(matches);
        let values = self.row.records / matches;
        let finds = self.choice.finds.min(FOUND_MAX / matches).max(1);
        let order = Shuffled::new(values);
        let mut taken: Histogram<u64> = Histogram::new(3)?;
        let mut longest = 0;
        let mut keys: Vec<u8> = Vec::new();
        for at in 0..finds {
            if at % 256 == 0 {
                self.progress.at(&format!("find, {matches} matches"), at, finds);
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(None);
                }
            }
            let value = order.at(at % values);
            keys.clear();
            let start = Instant::now();
            let mut found = keyspace.find(&field, value as i64, &FindOptions::default())?;
            while found.advance()? {
                keys.extend_from_slice(found.key());
                if gets && keyspace.get_record(found.key())?.is_none() {
                    return Err(format!("{field} {value}: a key without a record").into());
                }
            }
            let ns = start.elapsed().as_nanos() as u64;
            taken.record(ns)?;
            longest = longest.max(ns);
            check(&keys, value, matches, self.row.records)
                .map_err(|wrong| format!("find of {value} in {field}: {wrong}"))?;
        }
        Ok(Some(Latency::of(&taken, longest)))
    }

    /// Finds without an index.
    fn scan(&mut self, keyspace: &Keyspace) -> Outcome<()> {
        let (matches, records) = (MATCHES[1], self.row.records);
        let value = records / matches / 2;
        let (stop, progress) = (self.stop, &mut *self.progress);
        let start = Instant::now();
        let found = keyspace.get_keys_by_field(&name(matches), value as i64, None, |read| {
            progress.at("finding without an index", read, records);
            !stop.load(Ordering::Relaxed)
        });
        let found = match found {
            Err(esker::base::Error::Cancelled) => return Ok(()),
            found => found?,
        };
        self.row.scan.push(start.elapsed().as_nanos() as f64);
        check(&found.concat(), value, matches, records)
            .map_err(|wrong| format!("finding {value} without an index: {wrong}").into())
    }
}

/// Compares keys that were found, after the last writes, with those that there are.
fn check(keys: &[u8], value: u64, matches: u64, records: u64) -> Result<(), String> {
    let values = records / matches;
    // Values stood at one number less before they were put again.
    let least = (value + values - 1) % values;
    let wanted = (0..matches).map(|nth| key(least + nth * values));
    match keys.chunks(8).eq(wanted.clone()) {
        true => Ok(()),
        false => Err(format!("{} keys instead of {matches}, or others", keys.len() / 8)),
    }
}

fn page(choice: &Choice, rows: &[Row]) -> String {
    let mut text = format!(
        "{}\n\nRecords of {} fields and some 200 bytes, keys of 8; default options with at least 1 GiB of memory; one thread; medians \
         of {} rounds. Every answer was compared with what it must be.\n\nRecords put a second, by the number of indexes\n\n\
         | records | what | {} |\n|---|---|{}\n",
        Machine::this(),
        MATCHES.len() + 2,
        choice.repeat,
        INDEXES.map(|n| n.to_string()).join(" | "),
        "---|".repeat(INDEXES.len()),
    );
    for row in rows {
        let whats = ["new", "again, all indexed values others", "again, indexed values the same"];
        for (step, what) in whats.into_iter().enumerate() {
            let cells = row.writes.each_ref().map(|steps| rate(median(steps[step].clone())));
            let _ = writeln!(text, "| {} | {what} | {} |", row.records, cells.join(" | "));
        }
    }
    text.push_str(
        "\nTime of a find, by how many records match: right after opening, later, and 99 in 100 then\n\n",
    );
    let _ = writeln!(
        text,
        "| records | {} | 1 and its record | 10 without an index | index made of a record |\n|{}",
        MATCHES.map(|n| n.to_string()).join(" | "),
        "---|".repeat(MATCHES.len() + 4)
    );
    let shown = |all: &Vec<f64>| duration(median(all.clone()));
    for row in rows {
        let cell = |nth: usize| {
            let all = [&row.first[nth], &row.warm[nth], &row.warm_p99[nth]];
            all.map(shown).join(", ")
        };
        let cells: Vec<String> = (0..MATCHES.len()).map(cell).collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            row.records,
            cells.join(" | "),
            shown(&row.with_record),
            shown(&row.scan),
            duration(1e9 / median(row.built.clone())),
        );
    }
    text
}

/// Time of finds against the number of records, drawn by its logarithm.
fn drawing(rows: &[Row]) -> Outcome<String> {
    let line = |nth: usize| -> Line {
        let points =
            rows.iter().map(|row| (row.records as f64, median(row.warm[nth].clone()).log10()));
        let what = if MATCHES[nth] == 1 { "match" } else { "matches" };
        (format!("{} {what}", MATCHES[nth]), points.collect())
    };
    let lines: Vec<Line> = (0..MATCHES.len()).map(line).collect();
    let axes = Axes { logarithmic_x: true, x_text: &|records: &f64| rate(*records), ..RATES };
    let palette = Palette::of(lines.iter().map(|(name, _)| name.clone()));
    crate::plot::logarithms(
        "Time of a find, against the number of records",
        &lines,
        &palette,
        &axes,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_wrong_answer_is_no_figure() {
        // After the last writes value 3 of 100 stands in the records 2, 102, 202 …
        let keys = |numbers: &[u64]| numbers.iter().flat_map(|&n| key(n)).collect::<Vec<u8>>();
        let right: Vec<u64> = (0..10).map(|n| 2 + 100 * n).collect();
        assert_eq!(check(&keys(&right), 3, 10, 1_000), Ok(()));
        assert_eq!(record(102, 1_000, 1).get("in10").and_then(|v| v.as_int()), Some(3));
        for wrong in [&right[1..], &[&right[..9], &[903]].concat(), &[&right[..], &[0]].concat()] {
            assert!(check(&keys(wrong), 3, 10, 1_000).is_err(), "{wrong:?}");
        }
        let last: Vec<u64> = (0..10).map(|n| 99 + 100 * n).collect();
        assert_eq!(check(&keys(&last), 0, 10, 1_000), Ok(()), "the first value came round");
    }

    #[test]
    fn everything_is_measured() {
        let out = std::env::temp_dir().join(format!("esker-fields-test-{}", std::process::id()));
        let choice = Choice {
            sizes: vec![1, 2],
            finds: 50,
            repeat: 1,
            db: Some(out.join("db")),
            out: out.clone(),
        };
        let (stop, mut progress) = (AtomicBool::new(false), Progress::start(true));
        run(&choice, &stop, &mut progress).expect("a run");
        let page = fs::read_to_string(out.join("fields.md")).expect("the page");
        let drawn = fs::read_to_string(out.join("fields.svg")).expect("the drawing");
        fs::remove_dir_all(&out).expect("removed");
        assert!(page.contains("\n| 1000 | ") && page.contains("\n| 2000 | "), "{page}");
        assert!(
            !page.contains("| 0 ns |") && !page.contains("NaN") && !page.contains("inf"),
            "{page}"
        );
        assert!(drawn.contains("1000 matches"), "{drawn}");
    }
}

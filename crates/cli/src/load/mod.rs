//! Loading: a source of records is poured into a keyspace, batch by batch or as tables.
//!
//! ```text
//! source -> batches ------------------------> store
//!      \--> tables, while keys ascend ------> store, then batches
//! ```

mod csv;
mod files;
mod jsonl;
mod leveldb;
mod rows;
mod source;
mod text;
mod values;

use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::output::note;
use crate::progress::Progress;
use clap::ValueEnum;
use esker::{Batch, Db, Error, Ingest, Keyspace, WriteOptions};
pub(crate) use files::{FileTree, describe};
pub(crate) use source::{Record, Source, Step};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
pub(crate) use values::{ColumnType, Values};

/// Records of a batch.
const BATCH_RECORDS: u32 = 1_000;
/// Bytes from which a batch is written although it has fewer records.
const BATCH_BYTES: usize = 1 << 20;
/// Records between two looks at the clock while tables are written.
const BULK_RECORDS: u64 = 1_000;
/// Entries left out that are told one by one.
const SKIPPED_TOLD: u64 = 10;

/// How a source is read.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct SourceArgs {
    /// What values are: records of fields, or the JSON text they were made of [default: fields]
    #[arg(long, value_enum, value_name = "KIND", hide_default_value = true)]
    values: Option<Values>,

    /// Type of a column of csv: text, integer, float or boolean; as often as wanted
    #[arg(long = "type", value_name = "COLUMN=TYPE", value_parser = ColumnType::parse)]
    types: Vec<ColumnType>,

    /// Column (csv) or field (jsonl) that is the key [default: first column; row number]
    #[arg(long, value_name = "NAME")]
    key: Option<String>,

    /// Use the row number as the key, in 12 digits, also for csv
    #[arg(long, conflicts_with = "key")]
    row_numbers: bool,

    /// Column separator of csv [default: ,]
    #[arg(long, value_name = "CHAR", hide_default_value = true)]
    delimiter: Option<String>,

    /// Leave out malformed rows instead of stopping
    #[arg(long)]
    skip_bad: bool,

    /// Keys of files: relative to DIR, or with DIR before it [default: relative]
    #[arg(long, value_enum, hide_default_value = true)]
    paths: Option<Paths>,

    /// Go into directories on other file systems too
    #[arg(long)]
    cross_devices: bool,
}

/// How the paths of files become keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Paths {
    /// Relative to the directory
    #[default]
    Relative,
    /// With the directory before it, as given
    Full,
}

/// Opens a source from its name on the command line.
pub(crate) fn open(
    name: &OsStr,
    args: &SourceArgs,
    interrupt: &Interrupt,
) -> Result<Box<dyn Source>> {
    let bytes = name.as_bytes();
    let wrong = || {
        Failure::usage(format!(
            "unknown source {}: use files:DIR, csv:FILE, jsonl:FILE or leveldb:DIR",
            crate::bytes::printable(bytes)
        ))
    };
    let at = bytes.iter().position(|&b| b == b':').ok_or_else(wrong)?;
    let path = OsString::from(OsStr::from_bytes(&bytes[at + 1..]));
    let path = Path::new(&path);
    if path.as_os_str().is_empty() {
        return Err(wrong());
    }
    let kind = &bytes[..at];
    if matches!(kind, b"files" | b"csv" | b"jsonl" | b"leveldb") {
        args.check_for(kind)?;
    }
    let opened = open_kind(kind, path, args, interrupt, wrong);
    // One that gave up because of Ctrl-C has no fault of its own.
    opened.map_err(|failure| match interrupt.asked() {
        true => Failure::interrupted("interrupted: nothing was loaded; run it again"),
        false => failure,
    })
}

fn open_kind(
    kind: &[u8],
    path: &Path,
    args: &SourceArgs,
    interrupt: &Interrupt,
    wrong: impl Fn() -> Failure,
) -> Result<Box<dyn Source>> {
    let values = args.values();
    if !args.types.is_empty() && (kind != b"csv" || values == Values::Json) {
        return Err(Failure::usage("--type: only fields of csv need types: leave it out"));
    }
    match kind {
        b"files" => Ok(Box::new(FileTree::open(
            path,
            args.paths.unwrap_or_default(),
            args.cross_devices,
            values,
        )?)),
        b"csv" => Ok(Box::new(csv::Csv::open(path, &args.csv()?, interrupt)?)),
        b"jsonl" => {
            let key = args.key.clone().filter(|_| !args.row_numbers);
            Ok(Box::new(jsonl::JsonLines::open(path, key, values, args.skip_bad, interrupt)?))
        }
        b"leveldb" if args.values.is_some() => {
            Err(Failure::usage("--values: those of leveldb stay as they are: leave it out"))
        }
        b"leveldb" => Ok(Box::new(leveldb::LevelDb::open(path)?)),
        _ => Err(wrong()),
    }
}

impl SourceArgs {
    /// What values are to be.
    pub(crate) fn values(&self) -> Values {
        self.values.unwrap_or_default()
    }

    /// Whether rows that are at fault are left out.
    pub(crate) fn skip_bad(&self) -> bool {
        self.skip_bad
    }

    /// Refuses what a kind of source has no use for.
    ///
    /// # Errors
    /// `Usage`, with the first such option.
    fn check_for(&self, kind: &[u8]) -> Result<()> {
        let (is_text, is_csv) = (matches!(kind, b"csv" | b"jsonl"), kind == b"csv");
        let options = [
            ("--key", self.key.is_some() && !is_text, "only csv and jsonl have columns and fields"),
            ("--row-numbers", self.row_numbers && !is_text, "only csv and jsonl have rows"),
            ("--delimiter", self.delimiter.is_some() && !is_csv, "only csv has one"),
            ("--skip-bad", self.skip_bad && !is_text, "only csv and jsonl have rows"),
            ("--paths", self.paths.is_some() && kind != b"files", "only files have paths"),
            (
                "--cross-devices",
                self.cross_devices && kind != b"files",
                "only files stand on file systems",
            ),
        ];
        match options.iter().find(|(_, is_wrong, _)| *is_wrong) {
            Some((name, _, why)) => Err(Failure::usage(format!("{name}: {why}: leave it out"))),
            None => Ok(()),
        }
    }

    fn csv(&self) -> Result<csv::Plan<'_>> {
        let &[delimiter] = unescaped(self.delimiter.as_deref().unwrap_or(","))?.as_slice() else {
            return Err(Failure::usage("--delimiter: give one ASCII character, such as ;"));
        };
        Ok(csv::Plan {
            delimiter,
            key: csv::Key::new(self.key.as_deref(), self.row_numbers),
            values: self.values(),
            types: &self.types,
            skip_bad: self.skip_bad,
        })
    }
}

fn unescaped(typed: &str) -> Result<Vec<u8>> {
    crate::bytes::unescape(typed.as_bytes())
}

/// Where records go.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) bulk: bool,
    /// Leave out what the store does not take.
    pub(crate) skip_bad: bool,
    pub(crate) keyspace: &'a Keyspace,
    pub(crate) db: &'a Db,
}

/// How far a load came.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// Records in the store.
    pub(crate) records: u64,
    /// Bytes of their keys and values.
    pub(crate) bytes: u64,
    /// Entries of the source that were left out.
    pub(crate) skipped: u64,
    pub(crate) seconds: f64,
}

/// Pours a source into a keyspace. Says how far it came in any case.
pub(crate) fn load(
    source: &mut dyn Source,
    plan: &Plan<'_>,
    progress: Progress,
    interrupt: &Interrupt,
) -> (Done, Result<()>) {
    let mut loader = Loader {
        plan,
        progress,
        interrupt,
        batch: Batch::with_capacity(BATCH_BYTES),
        // What indexes do not take no source knows of.
        places: plan.keyspace.indexes().is_ok_and(|list| !list.is_empty()).then(Vec::new),
        pending: Done::default(),
        done: Done::default(),
    };
    let mut record = Record::default();
    let mut left_over = false;
    let mut ended = Ok(());
    if plan.bulk {
        ended = loader.bulk(source, &mut record, &mut left_over);
    }
    if ended.is_ok() && (left_over || !plan.bulk) {
        ended = loader.batches(source, &mut record, left_over);
    }
    let mut done = loader.done;
    done.seconds = loader.progress.finish();
    (done, ended)
}

struct Loader<'a> {
    plan: &'a Plan<'a>,
    progress: Progress,
    interrupt: &'a Interrupt,
    batch: Batch,
    /// Where the records of the batch stand in the source, if some may be refused.
    places: Option<Vec<String>>,
    /// What is in the batch or in tables that are not in force yet.
    pending: Done,
    done: Done,
}

impl Loader<'_> {
    /// The next record; false at the end. Left-out entries are told and counted.
    fn next(&mut self, source: &mut dyn Source, record: &mut Record) -> Result<bool> {
        loop {
            let step = source.next(record).or_else(|failure| {
                // A source that gave up because of Ctrl-C has no fault of its own.
                self.check_interrupt()?;
                Err(failure)
            })?;
            match step {
                Step::Record => {
                    // Sources that can leave a record out have checked it before.
                    return record.check().map(|()| true).map_err(|why| {
                        Failure::other(format!("{why}: take it out of the source"))
                            .at(source.place())
                    });
                }
                Step::End => return Ok(false),
                Step::Note(what) => self.progress.suspend(|| note(&what)),
                Step::Skipped(why) => {
                    self.leave_out(&why);
                    // Nothing else may come for a long time.
                    self.progress.at(source.at(self.done.records + self.pending.records));
                    self.check_interrupt()?;
                }
            }
        }
    }

    fn leave_out(&mut self, why: &str) {
        self.done.skipped += 1;
        let told = self.done.skipped;
        self.progress.suspend(|| match told {
            ..=SKIPPED_TOLD => note(why),
            n if n == SKIPPED_TOLD + 1 => note("more are left out; they are counted"),
            _ => {}
        });
    }

    fn count(&mut self, record: &Record) {
        self.pending.records += 1;
        self.pending.bytes += (record.key.len() + record.value.len()) as u64;
    }

    /// What was pending is in the store.
    fn settle(&mut self, source: &dyn Source) {
        self.done.records += self.pending.records;
        self.done.bytes += self.pending.bytes;
        self.pending = Done::default();
        self.progress.at(source.at(self.done.records));
    }

    fn check_interrupt(&self) -> Result<()> {
        match self.interrupt.asked() {
            true => Err(Failure::interrupted("interrupted: run it again to load the rest")),
            false => Ok(()),
        }
    }

    fn write(&mut self, source: &dyn Source) -> Result<()> {
        let batch = std::mem::replace(&mut self.batch, Batch::with_capacity(BATCH_BYTES));
        let places = self.places.as_mut().map(std::mem::take);
        if batch.is_empty() {
            self.settle(source);
            return Ok(());
        }
        let kept = places.map(|places| (batch.clone(), places));
        match (self.plan.db.write(batch, WriteOptions::default()), kept) {
            (Ok(()), _) => self.settle(source),
            (Err(Error::InvalidArgument { .. }), Some((batch, places))) => {
                self.pending = Done::default();
                self.write_each(&batch, &places)?;
                self.settle(source);
            }
            // A record is at fault, and not the call.
            (Err(Error::InvalidArgument { what }), None) => return Err(Failure::other(what)),
            (Err(error), _) => return Err(error.into()),
        }
        Ok(())
    }

    /// Writes records one by one, of which one is at fault, such as by a value that is too long for
    /// an index.
    fn write_each(&mut self, batch: &Batch, places: &[String]) -> Result<()> {
        for (op, place) in batch.iter().zip(places) {
            let mut one = Batch::new();
            one.push_op(&op);
            match self.plan.db.write(one, WriteOptions::default()) {
                Ok(()) => {
                    self.done.records += 1;
                    self.done.bytes += (op.key.len() + op.value.len()) as u64;
                }
                Err(Error::InvalidArgument { what }) if self.plan.skip_bad => {
                    self.leave_out(&format!("{place}: {what}"));
                }
                Err(Error::InvalidArgument { what }) => {
                    return Err(Failure::other(what).at(place));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// `has_record`: `record` holds one already.
    fn batches(
        &mut self,
        source: &mut dyn Source,
        record: &mut Record,
        mut has_record: bool,
    ) -> Result<()> {
        let ended = loop {
            if !has_record {
                match self.next(source, record) {
                    Ok(true) => {}
                    Ok(false) => break Ok(()),
                    Err(failure) => break Err(failure),
                }
            }
            has_record = false;
            self.batch.put_in(self.plan.keyspace.id(), &record.key, &record.value);
            if let Some(places) = &mut self.places {
                places.push(source.place());
            }
            self.count(record);
            if self.batch.len() >= BATCH_RECORDS || self.batch.size_bytes() >= BATCH_BYTES {
                self.write(source)?;
            }
            // Some sources are slow; an interrupt must not wait for a full batch.
            if let Err(failure) = self.check_interrupt() {
                break Err(failure);
            }
        };
        self.write(source)?;
        ended
    }

    /// Writes tables. `left_over`: set if `record` holds one that is out of order.
    fn bulk(
        &mut self,
        source: &mut dyn Source,
        record: &mut Record,
        left_over: &mut bool,
    ) -> Result<()> {
        let mut ingest: Ingest = self.plan.keyspace.ingest()?;
        let mut last: Option<Vec<u8>> = None;
        let ended = loop {
            match self.next(source, record) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(failure) => break Err(failure),
            }
            if last.as_ref().is_some_and(|last| *last >= record.key) {
                let place = source.place();
                let what = "keys are not in ascending order; going on without --bulk";
                self.progress.suspend(|| note(&format!("{place}: {what}")));
                *left_over = true;
                break Ok(());
            }
            ingest.put(&record.key, &record.value)?;
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(&record.key);
            self.count(record);
            if self.pending.records.is_multiple_of(BULK_RECORDS) {
                self.progress.at(source.at(self.pending.records));
            }
            if let Err(failure) = self.check_interrupt() {
                break Err(failure);
            }
        };
        ingest.finish()?;
        self.settle(source);
        ended
    }
}

#[cfg(test)]
mod tests;

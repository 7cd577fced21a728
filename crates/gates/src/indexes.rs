//! Gate: indexes hold what the records hold, whatever happens.
//!
//! Two parts. In the first the power fails at calls that change the disk, while records are written and indexes are
//! made, built, dropped, and built anew after a bulk load. The store is reopened from what the disk kept, in several ways: once it is
//! idle every index is ready and agrees with the records in both directions, and the records with a prefix of what was
//! written. In the second sixteen threads write the same few keys; finds are compared with records under snapshots
//! meanwhile, and everything at the end.

use crate::crash;
use crate::gate::{Config, Outcome, Stopwatch, Watchdog, case_seed, for_cases, guarded, pause};
use crate::history::{
    marker_number, marker_value, random_compaction, random_values, small_options,
};
use crate::random::Random;
use esker::base::sync::Mutex;
use esker::base::vfs::strict::{StrictOptions, StrictVfs, Survival};
use esker::base::{Env, Error};
use esker::fields::{FieldValue, Record, RecordView};
use esker::{Batch, Db, FindOptions, IndexState, Options, Setup, Snapshot, WriteOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const DIR: &str = "/db";

/// The fields that are indexed: one from the beginning, one now and then.
const FIELDS: [&str; 2] = ["name", "price"];

/// Where each batch of the first part writes its number. The value is no record.
const MARKER: &[u8] = b"";

/// Keys of records.
const KEYS: u64 = 150;

/// What the default keyspace holds.
type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// What an index holds, in its order.
type Rows = Vec<(FieldValue, Vec<u8>)>;

type Checked = Result<(), String>;

/// Runs the gate.
pub fn gate(config: &Config) -> Outcome {
    let scripts = config.choose(2, 40);
    let totals: [AtomicU64; 2] = Default::default();
    for_cases(&config.share(0.5), scripts, |case| {
        cut_everywhere(case_seed(config.seed, case), config.choose(3, 1), &totals)
    })?;
    let [cuts, reopens] = totals.map(AtomicU64::into_inner);
    let seconds = config.share(0.5).seconds(6.0, 300.0);
    let [batches, finds] = threads(config.seed, seconds)?;
    Ok(format!("{cuts} cuts, {reopens} reopens; {batches} batches of threads, {finds} finds"))
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn text(error: Error) -> String {
    error.to_string()
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:03}").into_bytes()
}

/// A record of some of the fields and of any length; now and then no record.
fn value(random: &mut Random) -> Vec<u8> {
    let mut record = Record::new();
    for field in FIELDS {
        let value: FieldValue = match random.below(8) {
            0 => continue,
            1 => FieldValue::Null,
            2 => "\0".repeat(random.below(3) as usize).into(),
            _ => (random.below(5) as i64).into(),
        };
        record.set(field, value);
    }
    let len = [0, 20, 300, 3_000][random.below(4) as usize];
    record.set("padding", random.bytes(len));
    match random.one_in(15) {
        true => b"no record".to_vec(),
        false => record.encode().unwrap_or_default(),
    }
}

/// A batch of several operations, often on one key.
fn random_batch(random: &mut Random) -> Batch {
    let mut batch = Batch::new();
    let near = random.below(KEYS);
    for _ in 0..=random.below(4) {
        let number = if random.one_in(2) { near } else { random.below(KEYS) };
        match random.below(20) {
            0..=14 => batch.put(&key(number), &value(random)),
            15..=18 => batch.delete(&key(number)),
            _ => batch.delete_range(&key(number), &key(number + random.below(10))),
        };
    }
    batch
}

fn apply(records: &mut Records, batch: &Batch) {
    for op in batch.iter() {
        match op.kind {
            esker::base::Kind::Put => {
                records.insert(op.key.to_vec(), op.value.to_vec());
            }
            esker::base::Kind::Delete => {
                records.remove(op.key);
            }
            _ => records.retain(|key, _| &key[..] < op.key || &key[..] >= op.value),
        }
    }
}

/// What an index of this field should hold.
fn expected(records: &Records, field: &str) -> Rows {
    let row = |(key, value): (&Vec<u8>, &Vec<u8>)| {
        Some((RecordView::parse(value).ok()?.get(field)?.to_value(), key.clone()))
    };
    let mut rows: Rows = records.iter().filter_map(row).collect();
    rows.sort();
    rows
}

/// What is wrong with what an index of this field gave.
fn disagreement(rows: &Rows, records: &Records, field: &str) -> Option<String> {
    let wanted = expected(records, field);
    let shown = |row: &(FieldValue, Vec<u8>)| format!("{} of {}", row.0, row.1.escape_ascii());
    if let Some(missing) = wanted.iter().find(|row| !rows.contains(row)) {
        return Some(format!("index of {field:?}: {} is missing", shown(missing)));
    }
    if let Some(stray) = rows.iter().find(|row| !wanted.contains(row)) {
        return Some(format!("index of {field:?}: {} should not be there", shown(stray)));
    }
    (*rows != wanted).then(|| format!("index of {field:?}: entries come twice or out of order"))
}

fn records_of(db: &Db) -> Result<Records, String> {
    let pairs = db.iter().map_err(text)?;
    pairs
        .map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())).map_err(text))
        .collect()
}

fn rows_of(db: &Db, field: &str) -> Result<Rows, String> {
    let options = FindOptions::default();
    let mut found = db.default_keyspace().find_range(field, .., &options).map_err(text)?;
    let mut rows = Rows::new();
    while found.advance().map_err(text)? {
        rows.push((found.value().map_err(text)?.to_value(), found.key().to_vec()));
    }
    Ok(rows)
}

/// Waits for the indexes, and compares them with the records. Returns the fields and the records.
fn check(db: &Db) -> Result<(BTreeSet<String>, Records), String> {
    db.wait_idle().map_err(|e| format!("waiting: {e}"))?;
    let records = records_of(db)?;
    let mut fields = BTreeSet::new();
    for info in db.default_keyspace().indexes().map_err(text)? {
        if info.state != IndexState::Ready {
            return Err(format!("the index of {:?} is not ready", info.field));
        }
        if let Some(what) = disagreement(&rows_of(db, &info.field)?, &records, &info.field) {
            return Err(what);
        }
        fields.insert(info.field);
    }
    let report = db.verify(|_| true).map_err(text)?;
    match report.damage.first() {
        Some((path, error)) => {
            Err(format!("verify: {}: {error}; {:?}", path.display(), report.indexes))
        }
        None if report.indexes.len() != fields.len() => {
            Err(format!("verify: {} indexes of {}", report.indexes.len(), fields.len()))
        }
        None => Ok((fields, records)),
    }
}

/// A store under test, and what it should hold.
struct Run {
    vfs: StrictVfs,
    options: Options,
    random: Random,
    db: Option<Db>,
    batches: Vec<Batch>,
    acknowledged: usize,
    durable: usize,
    /// What a bulk load added behind so many batches, and whether it is there for certain.
    loaded: Option<(usize, Records, bool)>,
    fields: BTreeSet<String>,
    /// The field whose index is being made or dropped.
    pending: Option<String>,
}

impl Run {
    fn new(vfs: StrictVfs, options: Options, seed: u64) -> Run {
        Run {
            vfs,
            options,
            random: Random::new(seed),
            db: None,
            batches: Vec::new(),
            acknowledged: 0,
            durable: 0,
            loaded: None,
            fields: BTreeSet::new(),
            pending: None,
        }
    }

    fn db(&mut self) -> esker::Result<Db> {
        if let Some(db) = &self.db {
            return Ok(db.clone());
        }
        let db = crash::open(&self.vfs, DIR, &self.options)?;
        Ok(self.db.insert(db).clone())
    }

    fn close(&mut self) -> esker::Result<()> {
        match self.db.take() {
            Some(db) => db.close().map(|()| self.durable = self.acknowledged),
            None => Ok(()),
        }
    }

    fn write(&mut self, count: u64) -> esker::Result<()> {
        let db = self.db()?;
        for _ in 0..count {
            let mut batch = random_batch(&mut self.random);
            batch.put(MARKER, &marker_value(self.batches.len() + 1));
            self.batches.push(batch.clone());
            let sync = self.random.one_in(15);
            db.write(batch, WriteOptions { sync })?;
            self.acknowledged = self.batches.len();
            if sync {
                self.durable = self.acknowledged;
            }
        }
        Ok(())
    }

    fn create(&mut self, field: &str) -> esker::Result<()> {
        let db = self.db()?;
        self.pending = Some(field.to_owned());
        db.default_keyspace().create_index(field)?;
        self.fields.insert(field.to_owned());
        self.pending = None;
        Ok(())
    }

    fn drop_index(&mut self, field: &str) -> esker::Result<()> {
        let db = self.db()?;
        self.pending = Some(field.to_owned());
        db.default_keyspace().drop_index(field)?;
        self.fields.remove(field);
        self.pending = None;
        Ok(())
    }

    fn ingest(&mut self) -> esker::Result<()> {
        let db = self.db()?;
        let start = self.random.below(3);
        let random = &mut self.random;
        let load: Records = (0..20).map(|n| (key(start + 7 * n), value(random))).collect();
        let mut ingest = db.default_keyspace().ingest()?;
        for (key, value) in &load {
            ingest.put(key, value)?;
        }
        self.loaded = Some((self.batches.len(), load, false));
        ingest.finish()?;
        self.durable = self.acknowledged;
        if let Some(loaded) = &mut self.loaded {
            loaded.2 = true;
        }
        Ok(())
    }

    /// Everything that happens to indexes.
    fn script(&mut self) -> esker::Result<()> {
        self.create(FIELDS[0])?;
        self.write(40)?;
        self.create(FIELDS[1])?;
        self.write(5)?;
        self.db()?.wait_indexes()?;
        self.write(20)?;
        self.db()?.flush()?;
        self.durable = self.acknowledged;
        self.drop_index(FIELDS[0])?;
        self.write(5)?;
        self.close()?;
        self.create(FIELDS[0])?;
        self.write(3)?;
        // It is built after the reopening.
        self.close()?;
        self.db()?.wait_idle()?;
        self.write(10)?;
        self.ingest()?;
        self.write(5)?;
        self.db()?.wait_idle()?;
        self.write(5)?;
        self.drop_index(FIELDS[1])?;
        self.close()
    }

    /// The records after so many batches, without and with what was loaded.
    fn states(&self, count: usize) -> Vec<Records> {
        let state = |with: bool| {
            let mut records = Records::new();
            for (nth, batch) in self.batches[..count].iter().enumerate() {
                if let Some((at, load, _)) = &self.loaded
                    && with
                    && *at == nth
                {
                    records.extend(load.clone());
                }
                apply(&mut records, batch);
            }
            if let Some((at, load, _)) = &self.loaded
                && with
                && *at == count
            {
                records.extend(load.clone());
            }
            records
        };
        match &self.loaded {
            Some((at, ..)) if count > *at => vec![state(true)],
            Some((at, _, true)) if count == *at => vec![state(true)],
            Some((at, ..)) if count == *at => vec![state(false), state(true)],
            _ => vec![state(false)],
        }
    }

    /// Reopens a store and checks all of it.
    fn check_store(&self, kept: &StrictVfs, least: usize) -> Checked {
        let db = match crash::open(kept, DIR, &self.options) {
            Ok(db) => db,
            Err(Error::NotFound { .. }) if least == 0 => return Ok(()),
            Err(error) => return Err(format!("reopen fails: {error}")),
        };
        let (fields, records) = check(&db)?;
        let marker = records.get(MARKER).map_or(Some(0), |value| marker_number(value));
        let count = marker.ok_or("the marker is no number")?;
        if count < least || count > self.batches.len() {
            return Err(format!("{count} batches survived; {least} had to"));
        }
        if !self.states(count).contains(&records) {
            return Err(format!("the records are not those after {count} batches"));
        }
        let mut may_be = vec![self.fields.clone()];
        if let Some(field) = &self.pending {
            let mut other = self.fields.clone();
            if !other.remove(field) {
                other.insert(field.clone());
            }
            may_be.push(other);
        }
        if !may_be.contains(&fields) {
            return Err(format!("there are indexes of {fields:?}; there should be {may_be:?}"));
        }
        // The store goes on as one that nothing happened to.
        db.write(random_batch(&mut Random::new(count as u64)), WriteOptions::default())
            .map_err(text)?;
        check(&db)?;
        db.close().map_err(text)
    }

    /// Reopens what the disk kept, in several ways.
    fn survive(&self, k: u64, reopens: &AtomicU64) -> Checked {
        let ways = [Survival::None, Survival::Some { percent: 50 }, Survival::ProcessDeath];
        for (nth, &way) in ways.iter().enumerate() {
            let kept = self.vfs.crash(way, k * 31 + nth as u64);
            let again = kept.deep_copy();
            let least =
                if way == Survival::ProcessDeath { self.acknowledged } else { self.durable };
            reopens.fetch_add(2, Ordering::Relaxed);
            self.check_store(&kept, least).map_err(|e| format!("{way:?}: {e}"))?;
            // Recovery and building are cut off too, at a call chosen at random.
            let mut random = Random::new(k ^ (nth as u64) << 32);
            again.set_crash_at(again.mutating_calls() + 1 + random.below(60));
            let _ = crash::open(&again, DIR, &self.options).and_then(|db| db.wait_indexes());
            again.power_off();
            let kept = again.crash(ways[random.below(2) as usize], k);
            self.check_store(&kept, self.durable)
                .map_err(|e| format!("{way:?}, then cut off while it recovered: {e}"))?;
        }
        Ok(())
    }
}

/// Runs a script to each of its calls, or to one in `stride`.
fn cut_everywhere(seed: u64, stride: u64, totals: &[AtomicU64; 2]) -> Checked {
    let mut options = small_options();
    let random = &mut Random::new(seed);
    random_compaction(&mut options.default_keyspace, random);
    random_values(&mut options, random);
    let plain_logs = random.one_in(2);
    let disk = StrictOptions { preallocated_logs: !plain_logs, seed, ..StrictOptions::default() };
    let mut k = 1 + seed % stride;
    loop {
        let vfs = StrictVfs::with_options(disk.clone());
        vfs.set_trace(12);
        vfs.set_crash_at(k);
        let mut run = Run::new(vfs, options.clone(), seed);
        let outcome = run.script();
        drop(run.db.take());
        if !run.vfs.is_off() {
            return outcome.map_err(|e| format!("the script itself fails: {e}"));
        }
        totals[0].fetch_add(1, Ordering::Relaxed);
        run.survive(k, &totals[1]).map_err(|e| {
            let calls = run.vfs.trace().join("\n  ");
            format!("power cut at call {k}, seed {seed}: {e}\nlast calls:\n  {calls}")
        })?;
        k += stride;
    }
}

/// What a thread does.
type Job = fn(&Shared, Random) -> Checked;

const WRITERS: u64 = 16;
const FINDERS: u64 = 2;

struct Shared {
    db: Db,
    stop: AtomicBool,
    /// Batches and finds.
    done: [AtomicU64; 2],
    watchdog: Watchdog,
}

/// Sixteen threads write the same keys, one more makes and drops an index and loads in bulk, two find.
fn threads(seed: u64, seconds: f64) -> Result<[u64; 2], String> {
    let mut options = Options { compaction_threads: 2, ..small_options() };
    random_compaction(&mut options.default_keyspace, &mut Random::new(!seed));
    options.default_keyspace.value_log_bytes_min = Some(200);
    let env = Env::with_vfs(Arc::new(StrictVfs::new()), seed);
    let setup = Setup { env, listener: None, inline_background: false };
    let db = Db::open_with(DIR, options.clone(), setup.clone()).map_err(text)?;
    db.default_keyspace().create_index(FIELDS[0]).map_err(text)?;
    db.wait_indexes().map_err(text)?;
    let shared = Shared {
        db: db.clone(),
        stop: AtomicBool::new(false),
        done: Default::default(),
        watchdog: Watchdog::start(Duration::from_secs(60)),
    };
    let jobs: [(u64, Job); 3] = [(WRITERS, writer), (FINDERS, finder), (1, keeper)];
    let watch = Stopwatch::default();
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (kind, (count, job)) in jobs.into_iter().enumerate() {
            for number in 0..count {
                let random = Random::new(case_seed(seed, (kind as u64) << 8 | number));
                let (shared, failures) = (&shared, &failures);
                scope.spawn(move || {
                    if let Err(message) = guarded(|| job(shared, random)) {
                        failures.lock().push(format!("thread {kind}.{number}: {message}"));
                    }
                    shared.stop.store(true, Ordering::Relaxed);
                });
            }
        }
        while watch.seconds() < seconds && !shared.stop.load(Ordering::Relaxed) {
            pause(Duration::from_millis(20));
        }
        shared.stop.store(true, Ordering::Relaxed);
    });
    shared.watchdog.over();
    let failures = failures.into_inner();
    if !failures.is_empty() {
        return Err(failures.join("\n"));
    }
    check(&db).map_err(|e| format!("after the threads: {e}"))?;
    let done = shared.done.each_ref().map(|n| n.load(Ordering::Relaxed));
    drop(shared);
    db.close().map_err(text)?;
    let db = Db::open_with(DIR, options, setup).map_err(text)?;
    check(&db).map_err(|e| format!("reopened after the threads: {e}"))?;
    Ok(done)
}

impl Shared {
    /// Counts a piece of work. False if it was the last.
    fn go_on(&self, kind: usize) -> bool {
        if self.done[kind].fetch_add(1, Ordering::Relaxed).is_multiple_of(64) {
            self.watchdog.alive(format!("kind {kind}"));
        }
        !self.stop.load(Ordering::Relaxed)
    }
}

fn writer(shared: &Shared, mut random: Random) -> Checked {
    while shared.go_on(0) {
        let sync = random.one_in(500);
        let batch = random_batch(&mut random);
        shared.db.write(batch, WriteOptions { sync }).map_err(text)?;
    }
    Ok(())
}

/// Under a snapshot an index gives the keys that reading all records gives.
fn finder(shared: &Shared, mut random: Random) -> Checked {
    let keyspace = shared.db.default_keyspace();
    while shared.go_on(1) {
        let snapshot = shared.db.snapshot();
        for field in FIELDS {
            let number = random.below(5) as i64;
            let Some(found) = found_at(&shared.db, field, number, &snapshot)? else { continue };
            let read = keyspace.get_keys_by_field(field, number, Some(&snapshot), |_| true);
            let read = read.map_err(text)?;
            if found != read {
                let (found, read) = (found.len(), read.len());
                return Err(format!("{field:?} is {number} in {read} records, {found} were found"));
            }
        }
    }
    Ok(())
}

/// The keys that an index gives; `None` if there is none that is ready.
fn found_at(
    db: &Db,
    field: &str,
    number: i64,
    snapshot: &Snapshot,
) -> Result<Option<Vec<Vec<u8>>>, String> {
    let value = FieldValue::from(number);
    let mut found = match db.default_keyspace().find(field, &value, &FindOptions::at(snapshot)) {
        Ok(found) => found,
        Err(Error::InvalidArgument { .. }) => return Ok(None),
        Err(error) => return Err(text(error)),
    };
    let mut keys = Vec::new();
    while found.advance().map_err(text)? {
        keys.push(found.key().to_vec());
    }
    Ok(Some(keys))
}

/// Makes an index, has it built while all write, drops it; loads in bulk.
fn keeper(shared: &Shared, mut random: Random) -> Checked {
    let keyspace = shared.db.default_keyspace();
    while !shared.stop.load(Ordering::Relaxed) {
        keyspace.create_index(FIELDS[1]).map_err(text)?;
        pause(Duration::from_millis(random.below(20)));
        if random.one_in(3) {
            let mut ingest = keyspace.ingest().map_err(text)?;
            for number in (0..KEYS).step_by(9) {
                ingest.put(&key(number), &value(&mut random)).map_err(text)?;
            }
            ingest.finish().map_err(text)?;
        }
        if !random.one_in(3) {
            shared.db.wait_indexes().map_err(text)?;
            pause(Duration::from_millis(random.below(100)));
        }
        keyspace.drop_index(FIELDS[1]).map_err(text)?;
    }
    keyspace.create_index(FIELDS[1]).map_err(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that cannot find anything wrong is no check.
    #[test]
    fn each_kind_of_disagreement_is_found() {
        let mut random = Random::new(1);
        let records: Records = (0..50).map(|n| (key(n), value(&mut random))).collect();
        let rows = expected(&records, "price");
        assert!(rows.len() > 20);
        assert_eq!(disagreement(&rows, &records, "price"), None);
        let found = |change: fn(&mut Rows)| {
            let mut rows = rows.clone();
            change(&mut rows);
            disagreement(&rows, &records, "price").unwrap_or_default()
        };
        assert!(found(|rows| drop(rows.remove(7))).contains("is missing"));
        let old = |rows: &mut Rows| rows.push((FieldValue::Bool(true), rows[3].1.clone()));
        assert!(found(old).contains("should not be there"));
        assert!(found(|rows| rows[3].0 = FieldValue::Bool(true)).contains("is missing"));
        assert!(found(|rows| rows.swap(0, 1)).contains("out of order"));
        assert!(found(|rows| rows.push(rows[0].clone())).contains("twice"));
    }
}

//! Threads write, find, make indexes and load in bulk, all on the same few keys.

use super::records::{Checked, DIR, FIELDS, KEYS, WRITERS, check, key, random_batch, text, value};
use crate::gate::{Stopwatch, Watchdog, case_seed, guarded, pause};
use crate::history::{random_compaction, small_options};
use crate::random::Random;
use esker::base::sync::Mutex;
use esker::base::vfs::strict::StrictVfs;
use esker::base::{Env, Error};
use esker::fields::FieldValue;
use esker::{Db, FindOptions, Options, Setup, Snapshot, WriteOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What a thread does.
type Job = fn(&Shared, Random) -> Checked;

const FINDERS: u64 = 2;

struct Shared {
    db: Db,
    stop: AtomicBool,
    /// Batches and finds.
    done: [AtomicU64; 2],
    watchdog: Watchdog,
}

/// Sixteen threads write the same keys, one more makes and drops an index and loads in bulk, two
/// find.
pub(super) fn threads(seed: u64, seconds: f64) -> Result<[u64; 2], String> {
    let mut options = Options { compaction_threads: 2, ..small_options() };
    random_compaction(&mut options.default_keyspace, &mut Random::new(!seed));
    options.default_keyspace.value_log_bytes_min = Some(200);
    let env = Env::with_vfs(Arc::new(StrictVfs::new()), seed);
    let setup = Setup { env, listener: None, inline_background: false, ..Setup::default() };
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

//! Sixteen threads write until the power fails, and again on what the disk kept.

use super::records::{DIR, FIELDS, WRITERS, check, random_batch, records_of, text};
use crate::gate::{Stopwatch, Watchdog, guarded, pause};
use crate::history::{small_options, vary};
use crate::random::Random;
use esker::base::Env;
use esker::base::sync::Mutex;
use esker::base::vfs::strict::{StrictOptions, StrictVfs, Survival};
use esker::fields::Record;
use esker::{Batch, Db, Options, Setup, WriteOptions};
use std::sync::Arc;
use std::time::Duration;

/// The fewest rounds, however long they take.
const ROUNDS_MIN: u64 = 20;

/// What a thread wrote last, and what of it has to be there.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    tried: u64,
    acknowledged: u64,
    synced: u64,
}

/// Rounds until the time is over. Returns how many there were, and the batches that were
/// acknowledged.
pub(super) fn outages(seed: u64, seconds: f64) -> Result<[u64; 2], String> {
    let watchdog = Watchdog::start(Duration::from_secs(60));
    let watch = Stopwatch::default();
    let random = &mut Random::new(seed);
    let disk =
        StrictOptions { preallocated_logs: random.one_in(2), seed, ..StrictOptions::default() };
    let mut vfs = StrictVfs::with_options(disk);
    let mut marks = [Mark::default(); WRITERS as usize];
    let (mut rounds, mut batches) = (0, 0);
    while rounds < ROUNDS_MIN || watch.seconds() < seconds {
        watchdog.alive(format!("round {rounds}"));
        let mut options = Options { compaction_threads: 2, ..small_options() };
        vary(&mut options, random);
        if random.one_in(3) {
            // Perhaps before anybody writes: opening takes a call for each batch of the log.
            vfs.set_crash_at(1 + random.below(800));
        }
        let before: u64 = marks.iter().map(|mark| mark.acknowledged).sum();
        let failures = round(&vfs, &options, random.next_u64(), &mut marks);
        vfs.power_off();
        batches += marks.iter().map(|mark| mark.acknowledged).sum::<u64>() - before;
        let way = [Survival::None, Survival::Some { percent: 50 }, Survival::ProcessDeath];
        let way = way[random.below(3) as usize];
        vfs = vfs.crash(way, random.next_u64());
        failures
            .and_then(|()| survived(&vfs.deep_copy(), &options, way, &mut marks))
            .map_err(|e| format!("round {rounds}, seed {seed}, {way:?}: {e}"))?;
        rounds += 1;
    }
    Ok([rounds, batches])
}

fn open(vfs: &StrictVfs, options: &Options) -> esker::Result<Db> {
    let env = Env::with_vfs(Arc::new(vfs.clone()), vfs.mutating_calls());
    Db::open_with(
        DIR,
        options.clone(),
        Setup { env, listener: None, inline_background: false, ..Setup::default() },
    )
}

/// All threads write until there is no power. What fails before is a violation.
fn round(
    vfs: &StrictVfs,
    options: &Options,
    seed: u64,
    marks: &mut [Mark; WRITERS as usize],
) -> Result<(), String> {
    let db = match open(vfs, options) {
        Ok(db) => db,
        Err(_) if vfs.is_off() => return Ok(()),
        Err(error) => return Err(format!("opening: {error}")),
    };
    if !vfs.is_off() {
        vfs.set_crash_at(vfs.mutating_calls() + 1 + Random::new(!seed).below(1_000));
    }
    let failures = Mutex::new(Vec::new());
    let run = |name: String, job: &mut dyn FnMut() -> esker::Result<()>| {
        let ended = guarded(|| match job() {
            Err(error) if !vfs.is_off() => Err(error.to_string()),
            _ => Ok(()),
        });
        if let Err(what) = ended {
            failures.lock().push(format!("{name}: {what}"));
            vfs.power_off();
        }
    };
    std::thread::scope(|scope| {
        for (number, mark) in marks.iter_mut().enumerate() {
            let (db, run) = (&db, &run);
            let mut random = Random::new(seed ^ (number as u64 + 1));
            scope.spawn(move || {
                run(format!("writer {number}"), &mut || write(db, number, mark, &mut random));
            });
        }
        let mut random = Random::new(seed);
        run("keeper".to_owned(), &mut || keep(&db, &mut random));
    });
    let failures = failures.into_inner();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

fn mark_key(number: usize) -> Vec<u8> {
    format!("mark{number:02}").into_bytes()
}

/// Batches on the keys of all threads, each with the mark of this one.
fn write(db: &Db, number: usize, mark: &mut Mark, random: &mut Random) -> esker::Result<()> {
    loop {
        mark.tried += 1;
        let mut batch: Batch = random_batch(random);
        let record = Record::from_iter([(FIELDS[0], mark.tried as i64)]);
        batch.put(&mark_key(number), &record.encode()?);
        let sync = random.one_in(40);
        db.write(batch, WriteOptions { sync })?;
        mark.acknowledged = mark.tried;
        if sync {
            mark.synced = mark.tried;
        }
    }
}

/// Indexes come, are built, and go meanwhile.
fn keep(db: &Db, random: &mut Random) -> esker::Result<()> {
    let keyspace = db.default_keyspace();
    loop {
        for field in FIELDS {
            let is_there = keyspace.indexes()?.iter().any(|info| info.field == field);
            match is_there {
                true if random.one_in(4) => keyspace.drop_index(field)?,
                true => {}
                false => keyspace.create_index(field)?,
            }
        }
        if random.one_in(2) {
            db.wait_indexes()?;
        }
        pause(Duration::from_micros(random.below(3_000)));
    }
}

/// Reopens a copy of what the disk kept: indexes agree with records, and of each thread nothing is
/// missing that was promised.
fn survived(
    kept: &StrictVfs,
    options: &Options,
    way: Survival,
    marks: &mut [Mark; WRITERS as usize],
) -> Result<(), String> {
    let db = open(kept, options).map_err(|e| format!("reopening: {e}"))?;
    check(&db)?;
    let records = records_of(&db)?;
    for (number, mark) in marks.iter_mut().enumerate() {
        let found = match records.get(&mark_key(number)) {
            None => 0,
            Some(value) => Record::decode(value)
                .ok()
                .and_then(|record| record.get(FIELDS[0])?.as_int())
                .ok_or_else(|| format!("the mark of writer {number} is no number"))?
                .cast_unsigned(),
        };
        let least = if way == Survival::ProcessDeath { mark.acknowledged } else { mark.synced };
        if found < least || found > mark.tried {
            return Err(format!(
                "batch {found} of writer {number} is its last: {least} to {}",
                mark.tried
            ));
        }
        // What the death of a process leaves may still be in no file.
        let synced = if way == Survival::ProcessDeath { mark.synced } else { found };
        *mark = Mark { tried: mark.tried, acknowledged: found, synced };
    }
    db.close().map_err(text)
}

//! Gate: a sync fails while threads write, flush, compact, copy, ingest and close.
//!
//! A system says once that what it had to write is lost; whoever syncs the same file again is told
//! that all is well. So every thread must learn of it that waits for the one it was told to, or
//! that got past the check for a poisoned store before. The call that fails takes a moment and
//! keeps others from the disk meanwhile, so that there are some.
//!
//! Each writer writes batches with numbers of its own, each to both keyspaces, where there are two.
//! Afterwards the power is cut: of each writer the store must hold what some number of its batches
//! left, and no fewer than were there when a call began that returned as one that makes them
//! durable: a synced write, `sync`, `flush`, `checkpoint`, `finish` of an ingestion, `close`. The
//! same holds for each checkpoint.

use crate::gate::{Config, Outcome, Watchdog, case_seed, for_cases, pause};
use crate::history::{small_options, vary};
use crate::random::Random;
use esker::base::Env;
use esker::base::sync::Mutex;
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::{Batch, Db, Keyspace, Options, Result, Setup, WriteOptions};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const DIR: &str = "/db";
const OTHER: &str = "other";

const WRITERS: usize = 3;
/// Batches of a writer, if nobody stops it before.
const BATCHES: u64 = 400;
/// Keys of a writer, which its batches go round.
const KEYS: u64 = 40;

/// Runs the gate: 400 failing syncs, or 20 thousand.
pub fn gate(config: &Config) -> Outcome {
    let watchdog = Watchdog::start(Duration::from_secs(30));
    let (failed, promises, copies) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    for_cases(config, config.choose(400, 20_000), |case| {
        watchdog.alive(format!("case {case}"));
        let trial = Trial::new(case_seed(config.seed, case));
        let ended = trial.run()?;
        failed.fetch_add(ended.faults, Ordering::Relaxed);
        promises.fetch_add(ended.promises, Ordering::Relaxed);
        copies.fetch_add(ended.copies.len() as u64, Ordering::Relaxed);
        ended.check()
    })?;
    let [failed, promises, copies] = [failed, promises, copies].map(AtomicU64::into_inner);
    let ran_all = config.case.is_none() && config.minutes.is_none();
    if ran_all && [failed, promises, copies].contains(&0) {
        return Err(format!(
            "nothing was shown by {failed} failed syncs, {promises} promises, {copies} checkpoints"
        ));
    }
    Ok(format!("{failed} failed syncs, {promises} promises kept, {copies} checkpoints"))
}

/// How many batches each writer was told were written.
type Counts = [u64; WRITERS];

struct Trial {
    disk: StrictVfs,
    faulty: FaultyVfs,
    options: Options,
    seed: u64,
    /// There is one keyspace: a flush then syncs no log.
    is_single: bool,
    /// Batches that each writer began, and that were acknowledged.
    begun: [AtomicU64; WRITERS],
    written: [AtomicU64; WRITERS],
    /// Batches that must outlive a power cut.
    durable: Mutex<Counts>,
    promises: AtomicU64,
    /// Where checkpoints lie, and what must be in them.
    copies: Mutex<Vec<(String, Counts)>>,
    /// Something was refused, or the writers are done.
    over: AtomicBool,
    /// What was refused before a sync had failed.
    too_early: Mutex<Option<String>>,
}

/// What a trial left on the disk.
struct Ended {
    disk: StrictVfs,
    options: Options,
    seed: u64,
    keyspaces: usize,
    begun: Counts,
    written: Counts,
    durable: Counts,
    promises: u64,
    copies: Vec<(String, Counts)>,
    faults: u64,
}

impl Trial {
    fn new(seed: u64) -> Trial {
        let mut random = Random::new(seed);
        let mut options = Options { compaction_threads: 2, ..small_options() };
        vary(&mut options, &mut random);
        let disk = StrictVfs::new();
        Trial {
            faulty: FaultyVfs::with_lasting_lies(Arc::new(disk.clone())),
            disk,
            options,
            seed,
            is_single: random.one_in(3),
            begun: Default::default(),
            written: Default::default(),
            durable: Mutex::default(),
            promises: AtomicU64::new(0),
            copies: Mutex::default(),
            over: AtomicBool::new(false),
            too_early: Mutex::default(),
        }
    }

    fn run(self) -> std::result::Result<Ended, String> {
        let mut random = Random::new(!self.seed);
        let db = open(Arc::new(self.faulty.clone()), DIR, &self.options, self.seed)?;
        let mut keyspaces = vec![db.default_keyspace().clone()];
        if !self.is_single {
            let made = db.create_keyspace(OTHER, self.options.default_keyspace.clone());
            keyspaces.push(made.map_err(|e| format!("creating a keyspace: {e}"))?);
        }
        self.faulty.inject(failing_sync(&mut random, &["", ".wal", ".wal", "MANIFEST"]));
        // Nobody, one, or two at once.
        let closers = random.below(5).saturating_sub(2);
        let panicked = std::thread::scope(|scope| {
            let (trial, db, keyspaces) = (&self, &db, &keyspaces);
            let writers: Vec<_> = (0..WRITERS)
                .map(|number| {
                    let random = Random::new(case_seed(trial.seed, number as u64));
                    scope.spawn(move || trial.write(db, keyspaces, number, random))
                })
                .collect();
            for number in 0..2 {
                let random = Random::new(case_seed(trial.seed, 100 + number));
                scope.spawn(move || trial.keep_up(db, number, random));
            }
            for _ in 0..closers {
                let after = Duration::from_micros(random.below(20_000));
                scope.spawn(move || {
                    pause(after);
                    trial.promise(|| db.clone().close())
                });
            }
            let panicked = writers.into_iter().filter_map(|writer| writer.join().err()).count();
            self.over.store(true, Ordering::Relaxed);
            panicked
        });
        if panicked > 0 {
            return Err(format!("{panicked} writers panicked"));
        }
        if let Some(refused) = self.too_early.lock().take().filter(|_| closers == 0) {
            return Err(format!("refused before anything had failed: {refused}"));
        }
        let faults = self.faulty.faults_fired();
        self.faulty.heal();
        drop(keyspaces);
        let closed = self.promise(|| db.close());
        if faults == 0 && closed.is_err() {
            return Err(format!("closing without a failure: {closed:?}"));
        }
        let counts = |all: &[AtomicU64; WRITERS]| all.each_ref().map(|n| n.load(Ordering::Relaxed));
        Ok(Ended {
            begun: counts(&self.begun),
            written: counts(&self.written),
            durable: self.durable.into_inner(),
            promises: self.promises.into_inner(),
            copies: self.copies.into_inner(),
            disk: self.disk,
            options: self.options,
            seed: self.seed,
            keyspaces: if self.is_single { 1 } else { 2 },
            faults,
        })
    }

    /// Does something after which all that was written before it must be durable, if it says so.
    fn promise(&self, does: impl FnOnce() -> Result<()>) -> Result<()> {
        let before = self.written.each_ref().map(|n| n.load(Ordering::SeqCst));
        does()?;
        self.promises.fetch_add(1, Ordering::Relaxed);
        let mut durable = self.durable.lock();
        durable.iter_mut().zip(before).for_each(|(most, n)| *most = n.max(*most));
        Ok(())
    }

    fn write(&self, db: &Db, keyspaces: &[Keyspace], number: usize, mut random: Random) {
        for n in 1..=BATCHES {
            let mut batch = Batch::new();
            for (key, value) in rows(number, n) {
                for keyspace in keyspaces {
                    batch.put_in(keyspace, &key, &value);
                }
            }
            self.begun[number].store(n, Ordering::SeqCst);
            let sync = random.one_in(6);
            let done = db.write(batch, WriteOptions { sync });
            if self.is_refused("writing", &done) || self.over.load(Ordering::Relaxed) {
                return;
            }
            self.written[number].store(n, Ordering::SeqCst);
            if sync {
                let mut durable = self.durable.lock();
                durable[number] = durable[number].max(n);
                self.promises.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn keep_up(&self, db: &Db, number: u64, mut random: Random) {
        for round in 0.. {
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            let what = random.below(8);
            let done = match what {
                0 | 1 => self.promise(|| db.sync()),
                2 => self.promise(|| db.flush()),
                3 => db.default_keyspace().compact_range(None, None),
                4 | 5 => self.copy(db, format!("/copy{number}-{round}")),
                6 => self.promise(|| {
                    let mut ingest = db.default_keyspace().ingest()?;
                    ingest.put(format!("i{number}").as_bytes(), round.to_string().as_bytes())?;
                    ingest.finish().map(drop)
                }),
                _ => {
                    pause(Duration::from_micros(random.below(2_000)));
                    Ok(())
                }
            };
            if self.is_refused(&format!("way {what} of keeping up"), &done) {
                self.over.store(true, Ordering::Relaxed);
            }
        }
    }

    /// True if something was refused; it is noted if nothing has failed yet.
    fn is_refused(&self, what: &str, done: &Result<()>) -> bool {
        if let Err(error) = done
            && self.faulty.faults_fired() == 0
        {
            self.too_early.lock().get_or_insert_with(|| format!("{what}: {error}"));
        }
        done.is_err()
    }

    fn copy(&self, db: &Db, dir: String) -> Result<()> {
        let before = self.written.each_ref().map(|n| n.load(Ordering::SeqCst));
        self.promise(|| db.checkpoint(&dir))?;
        self.copies.lock().push((dir, before));
        Ok(())
    }
}

impl Ended {
    fn check(&self) -> std::result::Result<(), String> {
        for (way, least) in [
            (Survival::ProcessDeath, &self.written),
            (Survival::None, &self.durable),
            (Survival::Some { percent: 50 }, &self.durable),
        ] {
            let disk = self.disk.crash(way, self.seed);
            let copies = self.copies.iter().map(|(dir, least)| (dir.as_str(), least));
            for (dir, least) in [(DIR, least)].into_iter().chain(copies) {
                let env = Arc::new(disk.clone());
                let checked = open(env, dir, &self.options, self.seed)
                    .and_then(|db| check(&db, self.keyspaces, least, &self.begun));
                checked.map_err(|e| format!("{dir} after {way:?}: {e}"))?;
            }
        }
        Ok(())
    }
}

/// One of the next syncs, of files with any of these in their path, or of directories, takes a
/// while and fails.
pub(crate) fn failing_sync(random: &mut Random, kinds: &[&'static str]) -> FaultRule {
    let of_directory = random.one_in(4);
    // Of the store's own: what lies in the others is not of it.
    let of = if of_directory { DIR } else { kinds[random.below(kinds.len() as u64) as usize] };
    let most = [3, 30, 100][random.below(3) as usize];
    let nth = 1 + random.below(most);
    let left = AtomicU64::new(nth);
    let looks = move |path: &Path| {
        let looked_at = path.to_string_lossy().contains(of);
        if looked_at && left.fetch_sub(1, Ordering::Relaxed) == 1 {
            pause(Duration::from_millis(2));
        }
        looked_at
    };
    // Who truncates a file syncs it too.
    let ops: &[Op] = if of_directory { &[Op::SyncDir] } else { &[Op::Sync, Op::TruncateSync] };
    FaultRule::nth(nth, ops, Fault::Eio).on(looks)
}

fn open(
    vfs: Arc<dyn esker::base::Vfs>,
    dir: &str,
    options: &Options,
    seed: u64,
) -> std::result::Result<Db, String> {
    let env = Env::with_vfs(vfs, seed);
    let setup = Setup { env, listener: None, inline_background: false, ..Setup::default() };
    Db::open_with(dir, options.clone(), setup).map_err(|e| format!("opening: {e}"))
}

fn marker(number: usize) -> Vec<u8> {
    format!("w{number}").into_bytes()
}

fn key(number: usize, n: u64) -> Vec<u8> {
    format!("w{number}/{:02}", n % KEYS).into_bytes()
}

fn value(number: usize, n: u64) -> Vec<u8> {
    let mut random = Random::new(case_seed(number as u64, n));
    let len = [10, 100, 1_000][random.below(3) as usize];
    [format!("{n} ").into_bytes(), random.bytes(len)].concat()
}

/// What the `n`-th batch of a writer puts into each keyspace.
fn rows(number: usize, n: u64) -> [(Vec<u8>, Vec<u8>); 2] {
    [(marker(number), n.to_string().into_bytes()), (key(number, n), value(number, n))]
}

/// Checks that of each writer there is what the first batches left, no fewer than `least` and none
/// that was not begun.
fn check(
    db: &Db,
    keyspaces: usize,
    least: &Counts,
    begun: &Counts,
) -> std::result::Result<(), String> {
    let names = db.keyspace_names();
    if names.len() != keyspaces {
        return Err(format!("there are {names:?} of {keyspaces} keyspaces"));
    }
    for name in names {
        let keyspace = db.keyspace(&name).map_err(|e| e.to_string())?;
        for number in 0..WRITERS {
            let get = |key: &[u8]| keyspace.get(key).map_err(|e| e.to_string());
            let found = get(&marker(number))?;
            let text = found.map_or("0".to_owned(), |v| String::from_utf8_lossy(&v).into_owned());
            let last = text.parse::<u64>().map_err(|_| format!("marker {text}"))?;
            if !(least[number]..=begun[number]).contains(&last) {
                let (least, begun) = (least[number], begun[number]);
                return Err(format!(
                    "{name}: writer {number} has {last} batches of {least} at the least, {begun} at the most"
                ));
            }
            for nth in last.saturating_sub(KEYS) + 1..=last {
                if get(&key(number, nth))?.as_deref() != Some(&value(number, nth)) {
                    return Err(format!("{name}: writer {number} lacks batch {nth} of {last}"));
                }
            }
        }
    }
    Ok(())
}

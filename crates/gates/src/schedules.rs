//! The schedules gate: whole databases under random schedules of the model checker shuttle.
//!
//! Compiled with `--cfg esker_shuttle` only (`cargo xtask shuttle`). Every lock, condition
//! variable, atomic and thread of the engine and of the strict file system is then shuttle's, which
//! runs one thread at a time and picks the next one at random at each of their calls, from a seed.
//! Half of the schedules are random walks, half have random priorities that change at three places
//! (PCT).
//!
//! A violation is printed with its case; `esker-gates schedules --seed SEED --case CASE` repeats
//! it.
//!
//! | thread | checks |
//! |---|---|
//! | writers | read their own writes in both keyspaces |
//! | reader | never goes back; snapshots are equal in both keyspaces, by get, by get of several keys and by scan, and do not change |
//! | upkeep | flushes, compacts, collects values, makes keyspaces; makes copies, cuts the power: all that was there or synced before is, and no half batch |
//! | the store's own | flush, compaction, collection of values, which one of the two keyspaces keeps apart |
//!
//! At the end nothing is lost, and the directory holds the tables and values of the manifest and no
//! others.
//!
//! Not covered: weak memory (each schedule is sequentially consistent; see the loom models), the
//! real file system, waits that are not over at once, ingests, repair, and what happens between two
//! calls that shuttle does not see: reference counts, `stats`, the block cache's own map (replaced
//! by a simple one under a lock), `arc_swap` (likewise).

use crate::gate::{Config, Outcome, Stopwatch, case_seed, guarded, threads};
use crate::history::{SHAPES, set_shape, small_options};
use crate::random::Random;
use esker::base::Env;
use esker::base::sync::checker::scheduler::{PctScheduler, RandomScheduler};
use esker::base::sync::checker::{Config as ShuttleConfig, FailurePersistence, Runner};
use esker::base::sync::thread::{JoinHandle, spawn};
use esker::base::vfs::Vfs;
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::report::LevelStats;
use esker::{
    Batch, Db, Keyspace, KeyspaceOptions, Options, ScanOptions, Setup, Snapshot, WriteOptions,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Schedules that share a seed: a case.
const CASE_SCHEDULES: u64 = 50;
const WRITERS: u64 = 2;
/// Keys that each writer owns.
const OWN_KEYS: u64 = 3;
const WRITES: u64 = 6;
const READS: u64 = 4;
const UPKEEPS: u64 = 3;
const DIR: &str = "/schedules";
/// Stack of a thread under shuttle.
const STACK_BYTES: usize = 1 << 18;
/// Places where priorities change.
const CHANGES: usize = 3;

/// What all schedules together did.
#[derive(Debug, Default)]
struct Totals {
    schedules: AtomicU64,
    flushes: AtomicU64,
    compactions: AtomicU64,
    collected: AtomicU64,
    power_cuts: AtomicU64,
    copies: AtomicU64,
}

/// Runs the gate: ten thousand schedules, or a million.
pub fn gate(config: &Config) -> Outcome {
    let cases = config.cases(config.choose(10_000, 1_000_000) / CASE_SCHEDULES);
    let totals = Arc::new(Totals::default());
    let next = AtomicU64::new(cases.start);
    let stop = AtomicBool::new(false);
    let (watch, seconds_max) = (Stopwatch::default(), config.seconds_max());
    let work = || {
        while !stop.load(Ordering::Relaxed) && watch.seconds() < seconds_max {
            let case = next.fetch_add(1, Ordering::Relaxed);
            if case >= cases.end {
                break;
            }
            let totals = totals.clone();
            if let Err(message) = guarded(|| run_case(case_seed(config.seed, case), totals)) {
                stop.store(true, Ordering::Relaxed);
                return Err(format!("case {case}: {message}"));
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads()).map(|_| scope.spawn(work)).collect();
        handles.into_iter().try_for_each(|handle| {
            handle.join().unwrap_or_else(|_| Err("a thread of the gate panicked".to_owned()))
        })
    })?;
    let Totals { schedules, flushes, compactions, collected, power_cuts, copies } = &*totals;
    let [schedules, flushes, compactions, collected, power_cuts, copies] =
        [schedules, flushes, compactions, collected, power_cuts, copies]
            .map(|n| n.load(Ordering::Relaxed));
    Ok(format!(
        "{schedules} schedules, {flushes} flushes, {compactions} compactions, {collected} files of values \
         collected, {power_cuts} power cuts, {copies} checkpoints"
    ))
}

fn run_case(seed: u64, totals: Arc<Totals>) -> Result<(), String> {
    let mut config = ShuttleConfig::new();
    config.stack_size = STACK_BYTES;
    // That it knows no weak memory is in the head.
    config.silence_warnings = true;
    // The numbers of seed and case say more, and a schedule has thousands of steps.
    config.failure_persistence = FailurePersistence::None;
    let number = AtomicU64::new(0);
    let schedule = move || {
        let number = number.fetch_add(1, Ordering::Relaxed);
        run(case_seed(seed, number), &totals);
        totals.schedules.fetch_add(1, Ordering::Relaxed);
    };
    let count = CASE_SCHEDULES as usize;
    if seed % 2 == 0 {
        Runner::new(RandomScheduler::new_from_seed(seed, count), config).run(schedule);
    } else {
        Runner::new(PctScheduler::new_from_seed(seed, CHANGES, count), config).run(schedule);
    }
    Ok(())
}

/// A database, and what its keys should be.
struct World {
    vfs: StrictVfs,
    db: Db,
    pair: [Keyspace; 2],
    shape: u64,
    keys: Vec<Count>,
    power_cuts: AtomicU64,
    copies: AtomicU64,
}

/// A key's counter: what was tried, acknowledged, and made durable.
#[derive(Debug, Default)]
struct Count {
    tried: AtomicU64,
    written: AtomicU64,
    durable: AtomicU64,
}

/// With a tree of one of all shapes.
fn options(shape: u64) -> Options {
    let mut options = small_options();
    options.compaction_threads = 1;
    let keyspace = &mut options.default_keyspace;
    set_shape(keyspace, shape);
    keyspace.level0_runs_compact = 2;
    keyspace.tiered_runs = 2;
    keyspace.run_index_runs_min = 2;
    // A few values fill a file, and hardly any of them may be dead.
    options.value_log_file_bytes = 4 << 10;
    options.value_log_space_amp_max = 1.1;
    options
}

/// Of a keyspace whose larger values are kept apart.
fn separated(shape: u64) -> KeyspaceOptions {
    KeyspaceOptions { value_log_bytes_min: Some(100), ..options(shape).default_keyspace }
}

fn open(vfs: &StrictVfs, dir: &str, seed: u64, options: Options, inline_background: bool) -> Db {
    let env = Env::with_vfs(Arc::new(vfs.clone()), seed);
    let setup = Setup { env, listener: None, inline_background, ..Setup::default() };
    Db::open_with(dir, options, setup).expect("open")
}

/// One schedule. Panics on a violation, which is how shuttle wants to know.
fn run(seed: u64, totals: &Totals) {
    let vfs = StrictVfs::new();
    let shape = seed % SHAPES;
    let db = open(&vfs, DIR, seed, options(shape), false);
    let create = |name, options| db.create_keyspace(name, options).expect("create");
    let world = Arc::new(World {
        pair: [create("one", options(shape).default_keyspace), create("two", separated(shape))],
        shape,
        db: db.clone(),
        vfs: vfs.clone(),
        keys: (0..WRITERS * OWN_KEYS).map(|_| Count::default()).collect(),
        power_cuts: AtomicU64::new(0),
        copies: AtomicU64::new(0),
    });
    let start = |number: u64, job: fn(&World, u64, Random)| {
        let (world, random) = (world.clone(), Random::new(case_seed(seed, number)));
        spawn(move || job(&world, number, random))
    };
    let mut jobs: Vec<JoinHandle<()>> = (0..WRITERS).map(|n| start(n, writer)).collect();
    jobs.extend([start(WRITERS, reader), start(WRITERS + 1, upkeep)]);
    jobs.into_iter().for_each(|job| job.join().expect("a thread ends"));
    world.db.wait_idle().expect("idle");
    let snapshot = world.db.snapshot();
    world.check(&world.pair, Some(&snapshot), |count| {
        let written = count.written.load(Ordering::Relaxed);
        (written, written)
    });
    drop(snapshot);
    world.db.flush().expect("flush");
    assert_eq!(world.db.stats().memory.memtables, 0, "memory that nobody holds");
    for levels in world.db.stats().keyspaces.iter().map(|keyspace| &keyspace.levels) {
        let jobs = |levels: &[LevelStats]| levels.iter().map(|level| level.jobs).sum();
        totals.flushes.fetch_add(jobs(&levels[..1]), Ordering::Relaxed);
        totals.compactions.fetch_add(jobs(&levels[1..]), Ordering::Relaxed);
    }
    totals.collected.fetch_add(world.db.stats().values.collected_files, Ordering::Relaxed);
    totals.power_cuts.fetch_add(world.power_cuts.load(Ordering::Relaxed), Ordering::Relaxed);
    totals.copies.fetch_add(world.copies.load(Ordering::Relaxed), Ordering::Relaxed);
    world.db.clone().close().expect("close");
    world.check_files();
}

fn key_name(writer: u64, key: u64) -> Vec<u8> {
    format!("w{writer}k{key}").into_bytes()
}

fn number_of(value: &[u8]) -> u64 {
    let digits = value.split(|&b| b == b' ').next().unwrap_or_default();
    std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).expect("a number")
}

fn read(keyspace: &Keyspace, name: &[u8], snapshot: Option<&Snapshot>) -> u64 {
    let found = match snapshot {
        Some(snapshot) => keyspace.get_at(name, snapshot),
        None => keyspace.get(name),
    };
    found.expect("get").map_or(0, |value| number_of(&value))
}

/// Keys and counters as a scan sees them.
fn rows(keyspace: &Keyspace, snapshot: &Snapshot) -> Vec<(Vec<u8>, u64)> {
    let options = ScanOptions::prefix(b"w").at(snapshot);
    let mut cursor = keyspace.scan(&options).expect("scan");
    let mut rows = Vec::new();
    cursor.seek_to_first().expect("seek");
    while cursor.valid() {
        rows.push((cursor.key().to_vec(), number_of(cursor.value())));
        cursor.next().expect("next");
    }
    assert!(rows.windows(2).all(|pair| pair[0].0 < pair[1].0), "the scan is in order: {rows:?}");
    rows
}

impl World {
    /// Each key of both keyspaces is the same, and within the bounds that `bounds` says.
    fn check(
        &self,
        pair: &[Keyspace; 2],
        snapshot: Option<&Snapshot>,
        bounds: impl Fn(&Count) -> (u64, u64),
    ) {
        for (at, count) in self.keys.iter().enumerate() {
            let name = key_name(at as u64 / OWN_KEYS, at as u64 % OWN_KEYS);
            let [one, two] = pair.each_ref().map(|keyspace| read(keyspace, &name, snapshot));
            let (least, most) = bounds(count);
            let name = name.escape_ascii();
            assert_eq!(one, two, "{name} differs between the keyspaces");
            assert!((least..=most).contains(&one), "{name} is {one}, not {least} to {most}");
        }
    }

    /// The closed database has exactly the tables and values that its manifest names, and one log.
    fn check_files(&self) {
        let env = Env::with_vfs(Arc::new(self.vfs.clone()), 0);
        let setup = Setup { env, listener: None, inline_background: true, ..Setup::default() };
        let db =
            Db::open_read_only_with(DIR, options(self.shape), setup).expect("open for reading");
        let stats = db.stats();
        let levels = stats.keyspaces.iter().flat_map(|k| &k.levels);
        let live: u64 = levels.map(|level| level.tables).sum();
        let files = self.vfs.list(Path::new(DIR)).expect("list");
        let count = |ending| files.iter().filter(|entry| entry.name.ends_with(ending)).count();
        assert_eq!(count(".tbl") as u64, live, "table files and live tables");
        let moved = stats.values.files.iter().filter(|file| file.moved).count();
        assert_eq!(count(".val"), moved, "files of moved values");
        for file in &stats.values.files {
            assert!(file.live_bytes <= file.bytes, "{file:?}");
        }
        let report = db.verify(|_| true).expect("verify");
        assert!(report.damage.is_empty(), "{:?}", report.damage);
    }

    /// Cuts the power of a copy of the disk, and reopens that.
    fn cut_power(&self, random: &mut Random) {
        let percent = [0, 50, 100][random.below(3) as usize];
        let seed = random.next_u64();
        let image = || {
            let disk = self.vfs.crash(Survival::Some { percent }, seed);
            open(&disk, DIR, seed, options(self.shape), true)
        };
        self.check_image(|count| &count.durable, image);
        self.power_cuts.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes a checkpoint, and opens it.
    fn copy(&self, number: u64) {
        let dir = format!("/copy{number}");
        let image = || {
            self.db.checkpoint(&dir).expect("checkpoint");
            open(&self.vfs, &dir, number, options(self.shape), true)
        };
        self.check_image(|count| &count.written, image);
        self.copies.fetch_add(1, Ordering::Relaxed);
    }

    /// Another database holds at least what `least` said before it was made, and no half batch.
    fn check_image(&self, least: fn(&Count) -> &AtomicU64, make: impl FnOnce() -> Db) {
        let floor: Vec<u64> =
            self.keys.iter().map(|count| least(count).load(Ordering::Relaxed)).collect();
        let db = make();
        let tried: Vec<u64> =
            self.keys.iter().map(|count| count.tried.load(Ordering::Relaxed)).collect();
        let pair = ["one", "two"].map(|name| db.keyspace(name).expect("it was created"));
        let at = AtomicU64::new(0);
        self.check(&pair, None, |_| {
            let at = at.fetch_add(1, Ordering::Relaxed) as usize;
            (floor[at], tried[at])
        });
    }
}

fn writer(world: &World, number: u64, mut random: Random) {
    let own = &world.keys[(number * OWN_KEYS) as usize..][..OWN_KEYS as usize];
    for _ in 0..WRITES {
        let key = random.below(OWN_KEYS);
        let (name, count) = (key_name(number, key), &own[key as usize]);
        let next = count.tried.load(Ordering::Relaxed) + 1;
        count.tried.store(next, Ordering::Relaxed);
        let mut value = format!("{next} ").into_bytes();
        // A few of the last size fill a memtable.
        let len = [5, 40, 300, 16 << 10][random.below(4) as usize];
        value.extend(random.bytes(len));
        let mut batch = Batch::new();
        batch.put_in(&world.pair[0], &name, &value).put_in(&world.pair[1], &name, &value);
        let sync = random.one_in(3);
        world.db.write(batch, WriteOptions { sync }).expect("write");
        count.written.store(next, Ordering::Relaxed);
        if sync {
            // With it, everything this writer wrote before.
            own.iter().for_each(|count| {
                count.durable.store(count.written.load(Ordering::Relaxed), Ordering::Relaxed);
            });
        }
        let keyspace = &world.pair[random.below(2) as usize];
        assert_eq!(read(keyspace, &name, None), next, "its own write is not there");
    }
}

fn reader(world: &World, _: u64, mut random: Random) {
    let mut seen = vec![0; world.keys.len()];
    for _ in 0..READS {
        let at = random.below(WRITERS * OWN_KEYS);
        let name = key_name(at / OWN_KEYS, at % OWN_KEYS);
        let least = world.keys[at as usize].written.load(Ordering::Relaxed);
        let now = read(&world.pair[random.below(2) as usize], &name, None);
        let least = least.max(seen[at as usize]);
        assert!(now >= least, "{} went back from {least} to {now}", name.escape_ascii());
        seen[at as usize] = now;
        let snapshot = world.db.snapshot();
        let [first, second] =
            world.pair.each_ref().map(|keyspace| read(keyspace, &name, Some(&snapshot)));
        assert!(first == second && first >= now, "{first} and {second} at once, after {now}");
        if random.one_in(2) {
            let [one, two] = world.pair.each_ref().map(|keyspace| rows(keyspace, &snapshot));
            assert_eq!(one, two, "the keyspaces differ under a snapshot");
            let found = one.iter().find(|row| row.0 == name).map_or(0, |row| row.1);
            assert_eq!(found, first, "get and scan of a snapshot differ");
            let names: Vec<&[u8]> = one.iter().map(|row| &row.0[..]).collect();
            for keyspace in &world.pair {
                let found = keyspace.multi_get(&names, Some(&snapshot)).expect("found");
                let found = found.iter().map(|value| value.as_deref().map_or(0, number_of));
                assert!(found.eq(one.iter().map(|row| row.1)), "several gets and a scan differ");
            }
        }
    }
}

fn upkeep(world: &World, _: u64, mut random: Random) {
    for _ in 0..UPKEEPS {
        let keyspace = &world.pair[random.below(2) as usize];
        match random.below(8) {
            0 | 1 => world.db.flush().expect("flush"),
            2 => keyspace.flush().expect("flush"),
            3 => keyspace.compact_range(None, None).expect("compact"),
            4 => world.cut_power(&mut random),
            5 => world.copy(random.next_u64()),
            6 => {
                world.db.collect_values(0.0, |_| true).expect("collect");
            }
            _ => {
                let options = options(world.shape).default_keyspace;
                let guest = world.db.create_keyspace("guest", options).expect("create");
                guest.put(b"key", b"value").expect("put");
                guest.delete_range(b"a", b"z").expect("delete");
                assert_eq!(guest.get(b"key").expect("get").as_deref(), None);
                if random.one_in(2) {
                    // As much as fills a memtable, so that it is dropped while it is flushed.
                    for i in 0..5u8 {
                        guest.put(&[i], &random.bytes(16 << 10)).expect("put");
                    }
                }
                world.db.drop_keyspace("guest").expect("drop");
            }
        }
    }
}

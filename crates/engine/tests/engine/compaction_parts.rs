//! Large compactions are cut into parts that several threads merge, and nobody can tell from what
//! is read.

use super::support::{DIR, assert_sound};
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::StrictVfs;
use esker::base::{Env, Vfs};
use esker::inspect::{DumpOptions, TableEvent, dump_table};
use esker::report::LevelStats;
use esker::{
    Comparator, Compression, Db, Error, KeyOrder, Keyspace, KeyspaceOptions, Options, ScanOptions,
    Setup, Snapshot,
};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u64 = 800;
const RUNS_COMPACT: u32 = 4;

/// Small tables, so that little data makes large compactions.
fn options(threads: u32) -> Options {
    let default_keyspace = KeyspaceOptions {
        memtable_bytes: 1 << 20,
        block_bytes: 1 << 10,
        index_partition_bytes: 1 << 10,
        compression: vec![Compression::None],
        table_bytes_max: 64 << 10,
        level_base_bytes: 8 << 20,
        level0_runs_compact: RUNS_COMPACT,
        // So that level 0 is behind as soon as it is compacted.
        level0_runs_slow: 2 * RUNS_COMPACT,
        tombstone_ratio_compact: 1.0,
        compact_for_scans: false,
        ..KeyspaceOptions::default()
    };
    Options { compaction_threads: threads, default_keyspace, ..Options::default() }
}

fn open(vfs: Arc<dyn Vfs>, options: Options, inline_background: bool) -> Db {
    let setup =
        Setup { env: Env::with_vfs(vfs, 7), listener: None, inline_background, ..Setup::default() };
    Db::open_with(DIR, options, setup).expect("open")
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

fn tables(disk: &StrictVfs) -> Vec<PathBuf> {
    let names = disk.file_names(Path::new(DIR)).into_iter();
    names.filter(|name| name.ends_with(".tbl")).map(|name| Path::new(DIR).join(name)).collect()
}

fn live_tables(db: &Db) -> usize {
    let stats = db.stats();
    stats.keyspaces.iter().flat_map(|k| &k.levels).map(|level| level.tables as usize).sum()
}

fn level(db: &Db, level: usize) -> LevelStats {
    db.stats().keyspaces[0].levels.get(level).cloned().unwrap_or_default()
}

/// First key, last key, and whether the last one is only where a range tombstone ends.
type Bounds = (String, String, bool);

/// Of each table, and where its partitions end.
fn bounds(disk: &StrictVfs, separators: &mut Vec<Vec<u8>>) -> Vec<Bounds> {
    let dump = |path: &PathBuf| {
        let options = DumpOptions { records: true, ..DumpOptions::default() };
        let mut ends: Vec<(String, bool)> = Vec::new();
        dump_table(disk, path, &KeyOrder::Bytewise, &options, |event| match event {
            TableEvent::Record(op) => ends.push((op.key.clone(), false)),
            TableEvent::RangeTombstone { start, end, .. } => {
                assert!(start < end, "{start} to {end}");
                ends.extend([(start.clone(), false), (end.clone(), true)]);
            }
            TableEvent::Partition { separator, .. } => separators.push(separator.clone().into()),
            _ => {}
        })
        .expect("dump");
        // Of two that are the same, the one that belongs to the table.
        let (first, _) = ends.iter().min().cloned().expect("not empty");
        let (last, open) =
            ends.iter().max_by_key(|(key, open)| (key.clone(), !open)).cloned().expect("not empty");
        (first, last, open)
    };
    let mut all: Vec<Bounds> = tables(disk).iter().map(dump).collect();
    all.sort();
    all
}

/// A store, what it should hold, and what it held when snapshots were made.
struct World {
    disk: StrictVfs,
    db: Db,
    state: u64,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
}

impl World {
    /// With data in level 2.
    fn new(threads: u32, inline: bool) -> World {
        let disk = StrictVfs::new();
        let mut few = options(threads);
        few.default_keyspace.level_base_bytes = 64 << 10;
        let db = open(Arc::new(disk.clone()), few, inline);
        let mut world = World { disk, db, state: 1, model: Model::new(), snapshots: Vec::new() };
        for number in 0..KEYS {
            world.put(number);
        }
        world.db.flush().expect("flush");
        world.db.default_keyspace().compact_range(None, None).expect("compact");
        world.db.wait_idle().expect("idle");
        assert!(level(&world.db, 1).bytes < level(&world.db, 2).bytes);
        let old =
            std::mem::replace(&mut world.db, open(Arc::new(StrictVfs::new()), options(1), true));
        old.close().expect("close");
        world.db = open(Arc::new(world.disk.clone()), options(threads), inline);
        world
    }

    fn random(&mut self, n: u64) -> u64 {
        self.state = esker::base::checksum::mix64(self.state.wrapping_add(0x9e37_79b9_7f4a_7c15));
        self.state % n
    }

    fn put(&mut self, number: u64) {
        let value = format!("{} {}", self.random(1 << 40), "v".repeat(300)).into_bytes();
        self.db.put(&key(number), &value).expect("put");
        self.model.insert(key(number), value);
    }

    fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        self.db.delete_range(start, end).expect("delete a range");
        self.model.retain(|key, _| &key[..] < start || &key[..] >= end);
    }

    fn snapshot(&mut self) {
        self.snapshots.push((self.db.snapshot(), self.model.clone()));
    }

    /// Makes a run of level 0. Some of its tombstones begin or end at `places`.
    fn round(&mut self, places: &[Vec<u8>]) {
        for step in 0..400 {
            let number = self.random(KEYS);
            match step {
                // Long ones, before and after some records of the run.
                50 | 300 => {
                    let long = 150 + self.random(150);
                    self.delete_range(&key(number), &key(number + long));
                }
                100 | 250 => self.snapshot(),
                _ if step % 9 == 0 => {
                    self.db.delete(&key(number)).expect("delete");
                    self.model.remove(&key(number));
                }
                _ if step % 25 == 1 => {
                    let short = 1 + self.random(4);
                    self.delete_range(&key(number), &key(number + short));
                }
                _ if step % 25 == 2 && !places.is_empty() => {
                    let place = places[self.random(places.len() as u64) as usize].clone();
                    let other = key(number);
                    let (start, end) = if other < place { (other, place) } else { (place, other) };
                    // Not all of the store.
                    let end = end.min(key(number + 20).max(start.clone()));
                    if start < end {
                        self.delete_range(&start, &end);
                    }
                }
                _ => self.put(number),
            }
        }
        self.db.flush().expect("flush");
        self.db.wait_idle().expect("idle");
    }

    fn check(&self) {
        let now = self.db.snapshot();
        let last = [(&now, &self.model)];
        let all = self.snapshots.iter().map(|(snapshot, model)| (snapshot, model)).chain(last);
        for (number, (snapshot, model)) in all.enumerate() {
            let keyspace = self.db.default_keyspace();
            let mut cursor = keyspace.scan(&ScanOptions::default().at(snapshot)).expect("scan");
            cursor.seek_to_first().expect("seek");
            for (key, value) in model {
                assert!(cursor.valid(), "snapshot {number}: {}", key.escape_ascii());
                assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]), "{number}");
                cursor.next().expect("next");
            }
            assert!(!cursor.valid(), "snapshot {number}: {}", cursor.key().escape_ascii());
            for key in (0..KEYS).map(key) {
                let found = keyspace.get_at(&key, snapshot).expect("get");
                let expected = model.get(&key).map(Vec::as_slice);
                assert_eq!(found.as_deref(), expected, "snapshot {number}: {}", key.escape_ascii());
            }
        }
    }

    /// The only level that holds anything has tables that do not overlap, range tombstones
    /// included.
    fn check_bounds(&self) {
        let levels = &self.db.stats().keyspaces[0].levels;
        assert_eq!(levels.iter().filter(|level| level.tables > 0).count(), 1);
        let bounds = bounds(&self.disk, &mut Vec::new());
        assert_eq!(bounds.len(), live_tables(&self.db));
        for pair in bounds.windows(2) {
            let ((_, last, open), (first, _, _)) = (&pair[0], &pair[1]);
            assert!(last < first || last == first && *open, "{pair:?}");
        }
    }
}

/// Compacts level 0 into level 1 twice, then all, each time in parts.
fn compact_and_compare(threads: u32, inline: bool) {
    let mut world = World::new(threads, inline);
    for _ in 0..2 {
        let mut places = Vec::new();
        bounds(&world.disk, &mut places);
        let before = level(&world.db, 1);
        while level(&world.db, 1).jobs == before.jobs {
            world.round(&places);
        }
        let level1 = level(&world.db, 1);
        assert_eq!((level(&world.db, 0).runs, level1.jobs), (0, before.jobs + 1));
        assert!(level1.parts > before.parts + 1, "it was cut: {level1:?}");
        assert!(level1.range_tombstones > 0, "they hide what is in level 2");
        world.check();
        // The next compaction finds fewer.
        world.snapshots.drain(..world.snapshots.len() / 2);
    }
    for _ in 0..2 {
        world.round(&[]);
    }
    let before = level(&world.db, 1);
    world.db.default_keyspace().compact_range(None, None).expect("compact");
    let level1 = level(&world.db, 1);
    assert!(level1.parts - before.parts > level1.jobs - before.jobs, "by hand too");
    assert!(level(&world.db, 2).range_tombstones > 0, "snapshots need them");
    world.check();
    world.check_bounds();
    world.snapshots.clear();
    world.db.default_keyspace().compact_range(None, None).expect("compact");
    world.check();
    world.check_bounds();
    assert_eq!(level(&world.db, 2).range_tombstones, 0, "nobody needs them");
    assert_sound(&world.db);
    world.db.close().expect("close");
}

#[test]
fn one_thread_does_all_parts() {
    compact_and_compare(1, true);
}

#[test]
fn several_threads_do_a_part_each() {
    compact_and_compare(4, false);
}

/// Bytewise order. Once it is armed, threads that make tables wait for each other.
#[derive(Default)]
struct Meeting {
    state: Mutex<Met>,
    changed: Condvar,
}

#[derive(Default)]
struct Met {
    /// Threads that must come before any goes on; 0 lets all pass.
    wanted: usize,
    came: BTreeSet<String>,
    threads: Vec<ThreadId>,
    /// They do not go on before they are let go; then they go slowly, so that none is far ahead.
    held: bool,
    slow: bool,
}

impl Meeting {
    fn arm(&self, wanted: usize, held: bool) {
        let met = Met { wanted, held, ..Met::default() };
        *self.state.lock().expect("lock") = met;
    }

    /// Waits until `ready`. If that takes too long, false, and nobody waits any more.
    fn wait(&self, ready: impl Fn(&Met) -> bool) -> bool {
        let limit = Duration::from_secs(20);
        let state = self.state.lock().expect("lock");
        let waited = self.changed.wait_timeout_while(state, limit, |met| !ready(met));
        let (mut met, waited) = waited.expect("lock");
        if waited.timed_out() {
            met.wanted = 0;
        }
        !waited.timed_out()
    }

    fn let_go(&self) {
        let mut met = self.state.lock().expect("lock");
        (met.held, met.slow) = (false, true);
        self.changed.notify_all();
    }

    fn names(&self) -> BTreeSet<String> {
        self.state.lock().expect("lock").came.clone()
    }
}

impl Comparator for Meeting {
    fn name(&self) -> &'static str {
        "test.meeting"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    fn separator(&self, a: &[u8], _: &[u8]) -> Vec<u8> {
        let mut met = self.state.lock().expect("lock");
        if met.wanted > 0 {
            let this = thread::current();
            if !met.threads.contains(&this.id()) {
                met.threads.push(this.id());
                met.came.insert(this.name().unwrap_or_default().to_owned());
                self.changed.notify_all();
            }
            drop(met);
            self.wait(|met| met.threads.len() >= met.wanted && !met.held);
            let met = self.state.lock().expect("lock");
            if met.slow {
                drop(self.changed.wait_timeout(met, Duration::from_millis(2)).expect("lock"));
            }
        }
        a.to_vec()
    }
}

const SMALL_KEYS: u64 = 20_000;

/// Two runs of many small records in level 0, over a small table in level 1.
fn fill(keyspace: &Keyspace) {
    for number in [0, SMALL_KEYS - 1] {
        keyspace.put(&key(number), b"old").expect("put");
    }
    // Otherwise the first run would be compacted alone.
    keyspace.compact_range(None, None).expect("compact");
    for first in [0, 1] {
        for number in (first..SMALL_KEYS).step_by(2) {
            keyspace.put(&key(number), &[number as u8; 60]).expect("put");
        }
        keyspace.flush().expect("flush");
    }
}

/// A store that is filled so, on a disk that can fail.
struct Pair {
    disk: StrictVfs,
    faulty: FaultyVfs,
    db: Db,
    meeting: Arc<Meeting>,
}

impl Pair {
    fn new(options: Options, inline: bool) -> Pair {
        let meeting = Arc::new(Meeting::default());
        let order = KeyOrder::Custom(meeting.clone());
        let default_keyspace = KeyspaceOptions {
            order,
            memtable_bytes: 8 << 20,
            level0_runs_compact: 100,
            level0_runs_slow: 200,
            level0_runs_max: 300,
            ..options.default_keyspace
        };
        let options = Options { default_keyspace, ..options };
        let disk = StrictVfs::new();
        let faulty = FaultyVfs::new(Arc::new(disk.clone()));
        let db = open(Arc::new(faulty.clone()), options, inline);
        fill(db.default_keyspace());
        Pair { disk, faulty, db, meeting }
    }

    fn compact(&self) -> esker::Result<()> {
        self.db.default_keyspace().compact_range(None, None)
    }

    /// All is there, and no table file that does not belong to the store.
    fn check(&self) {
        assert_eq!(tables(&self.disk).len(), live_tables(&self.db));
        let pairs = self.db.iter().expect("scan").map(|pair| pair.expect("a record"));
        let expected = (0..SMALL_KEYS).map(|number| (key(number), [number as u8; 60]));
        assert!(
            pairs.map(|(k, v)| (k.to_vec(), v.to_vec())).eq(expected.map(|(k, v)| (k, v.to_vec())))
        );
    }

    /// Compactions into level 1, and their parts.
    fn level1(&self) -> (u64, u64) {
        let LevelStats { jobs, parts, .. } = level(&self.db, 1);
        (jobs, parts)
    }
}

#[test]
fn threads_that_have_nothing_to_do_help() {
    let pair = Pair::new(options(3), false);
    pair.meeting.arm(3, false);
    thread::scope(|scope| {
        let caller = thread::Builder::new().name("caller".to_owned());
        let caller = caller.spawn_scoped(scope, || pair.compact()).expect("a thread");
        caller.join().expect("no panic").expect("compact");
    });
    let names = pair.meeting.names();
    assert_eq!(names.len(), 3, "no more threads than are to compact: {names:?}");
    assert!(names.contains("caller"), "{names:?}");
    let helps = |name: &&String| name.starts_with("esker-compact-");
    assert_eq!(names.iter().filter(helps).count(), 2, "{names:?}");
    assert_eq!(pair.level1(), (2, 1 + 3));
    pair.check();
}

#[test]
fn without_threads_nobody_helps() {
    let pair = Pair::new(options(2), true);
    pair.meeting.arm(1, true);
    thread::scope(|scope| {
        let compaction = scope.spawn(|| pair.compact());
        assert!(pair.meeting.wait(|met| met.threads.len() == 1), "it is at work");
        // Whoever flushes looks for compactions too.
        let other = options(2).default_keyspace;
        let other = pair.db.create_keyspace("other", other).expect("create");
        other.put(b"key", b"value").expect("put");
        other.flush().expect("flush");
        pair.meeting.let_go();
        compaction.join().expect("no panic").expect("compact");
    });
    assert_eq!(pair.meeting.names().len(), 1);
    assert_eq!(pair.level1(), (2, 1 + 2));
    pair.check();
}

#[test]
fn one_thread_is_not_helped() {
    let pair = Pair::new(options(1), false);
    pair.meeting.arm(1, false);
    pair.compact().expect("compact");
    assert_eq!(pair.meeting.names().len(), 1);
    assert_eq!(pair.level1(), (2, 2));
    pair.check();
}

#[test]
fn a_small_compaction_is_not_cut() {
    let db = open(Arc::new(StrictVfs::new()), options(1), true);
    for (number, parts) in [(700, 1), (1_000, 2)] {
        let before = level(&db, 1).parts;
        for number in 0..number {
            db.put(&key(number), &[1; 300]).expect("put");
        }
        // Into an empty level 1: tables of 64 KiB, of which a part has two.
        db.default_keyspace().compact_range(None, None).expect("compact");
        assert_eq!(level(&db, 1).parts - before, parts, "{number} records");
        db.delete_range(b"", b"l").expect("delete");
        db.default_keyspace().compact_range(None, None).expect("compact");
    }
}

#[test]
fn nobody_helps_where_nobody_waits() {
    let mut relaxed = options(4);
    relaxed.default_keyspace.level0_runs_slow = 2 * RUNS_COMPACT + 1;
    let disk = StrictVfs::new();
    let db = open(Arc::new(disk), relaxed, false);
    // The first run only moves.
    for _ in 0..=RUNS_COMPACT {
        for number in 0..KEYS {
            db.put(&key(number), &[1; 300]).expect("put");
        }
        db.flush().expect("flush");
    }
    db.wait_idle().expect("idle");
    let LevelStats { jobs, parts, .. } = level(&db, 1);
    assert_eq!((jobs, parts), (1, 1));
}

#[test]
fn a_disk_error_in_one_part_ends_all_and_leaves_nothing() {
    let pair = Pair::new(options(2), false);
    pair.meeting.arm(2, true);
    let created = thread::scope(|scope| {
        let compaction = scope.spawn(|| pair.compact());
        assert!(pair.meeting.wait(|met| met.threads.len() == 2), "both are at work");
        let is_table = |path: &Path| path.extension().is_some_and(|e| e == "tbl");
        pair.faulty.inject(FaultRule::nth(1, &[Op::Append], Fault::Eio).on(is_table));
        let before = pair.faulty.calls(Op::Create);
        pair.meeting.let_go();
        let result = compaction.join().expect("no panic");
        assert!(matches!(result, Err(Error::Io { .. })), "{result:?}");
        pair.faulty.calls(Op::Create) - before
    });
    assert!(created <= 6, "the other part went on for {created} tables");
    pair.check();
    pair.faulty.heal();
    pair.compact().expect("it is tried again");
    assert_eq!(pair.level1(), (2, 1 + 2));
    pair.check();
}

#[test]
fn a_disk_error_at_any_call_leaves_nothing() {
    for ops in [[Op::Create], [Op::Append], [Op::Open], [Op::Read]] {
        let mut fired = 0;
        for nth in [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987] {
            let pair = Pair::new(options(2), true);
            let is_table = |path: &Path| path.extension().is_some_and(|e| e == "tbl");
            pair.faulty.inject(FaultRule::nth(nth, &ops, Fault::Eio).on(is_table));
            let result = pair.compact();
            pair.faulty.heal();
            if pair.faulty.faults_fired() == 0 {
                result.expect("nothing failed");
                break;
            }
            fired += 1;
            match result {
                // Where it reads ahead, what cannot be read then is read once more.
                Ok(()) => assert_eq!(ops, [Op::Read], "{nth}"),
                Err(Error::Io { .. }) => pair.check(),
                Err(error) => panic!("{ops:?} {nth}: {error}"),
            }
            pair.compact().expect("it is tried again");
            assert_eq!(pair.level1(), (2, 1 + 2));
            pair.check();
        }
        assert!(fired > 0, "{ops:?}");
    }
}

#[test]
fn all_parts_end_when_nobody_wants_the_result() {
    let pair = Pair::new(options(2), false);
    let order = KeyOrder::Custom(pair.meeting.clone());
    let guest = KeyspaceOptions { order, memtable_bytes: 8 << 20, ..options(2).default_keyspace };
    let guest = pair.db.create_keyspace("guest", guest).expect("create");
    fill(&guest);
    pair.meeting.arm(2, true);
    let created = thread::scope(|scope| {
        let compaction = scope.spawn(|| guest.compact_range(None, None));
        assert!(pair.meeting.wait(|met| met.threads.len() == 2), "both are at work");
        pair.db.drop_keyspace("guest").expect("drop");
        let before = pair.faulty.calls(Op::Create);
        pair.meeting.let_go();
        let result = compaction.join().expect("no panic");
        assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
        pair.faulty.calls(Op::Create) - before
    });
    assert!(created <= 6, "the parts went on for {created} tables");
    // Its tables are gone when the call returns.
    pair.check();
}

//! Leveled or tiered, in whatever order levels are compacted, and from one to the other: the data
//! are the same.

use super::support::{DIR, Model, Random, assert_sound, put_or_delete, setup};
use esker::base::checksum::mix64;
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::event::Event;
use esker::{
    Compaction, Compression, Db, Filter, KeyspaceOptions, Options, ScanOptions, Scheduler, Setup,
    Snapshot, TimeSlice,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Small tables and narrow levels: little data makes a deep tree.
fn options(compaction: Compaction, scheduler: Scheduler) -> Options {
    let default_keyspace = KeyspaceOptions {
        compaction,
        scheduler,
        tiered_runs: 3,
        memtable_bytes: 64 << 10,
        block_bytes: 512,
        index_partition_bytes: 1 << 10,
        compression: vec![Compression::None],
        table_bytes_max: 16 << 10,
        level_base_bytes: 64 << 10,
        level_fanout: 2,
        level0_runs_compact: 3,
        compact_for_scans: false,
        ..KeyspaceOptions::default()
    };
    Options { default_keyspace, ..Options::default() }
}

fn schedulers() -> [Scheduler; 4] {
    let fixed = TimeSlice { slice_ms: Some(1), release_share: 0.5 };
    [
        Scheduler::Ratio,
        Scheduler::Priority,
        Scheduler::TimeSlice(TimeSlice::default()),
        Scheduler::TimeSlice(fixed),
    ]
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

fn contents(db: &Db, at: Option<&Snapshot>) -> Model {
    let mut options = ScanOptions::default();
    if let Some(snapshot) = at {
        options = options.at(snapshot);
    }
    let mut cursor = db.default_keyspace().scan(&options).expect("cursor");
    let mut found = Model::new();
    cursor.seek_to_first().expect("seek");
    while cursor.valid() {
        found.insert(cursor.key().to_vec(), cursor.value().to_vec());
        cursor.next().expect("next");
    }
    found
}

fn assert_holds(db: &Db, model: &Model, at: Option<&Snapshot>, random: &mut Random) {
    assert!(contents(db, at) == *model, "a scan");
    for _ in 0..200 {
        let key = key(random.below(KEYS));
        let found = match at {
            Some(snapshot) => db.default_keyspace().get_at(&key, snapshot),
            None => db.get(&key),
        };
        let found = found.expect("get").map(|value| value.to_vec());
        assert_eq!(found.as_ref(), model.get(&key), "{}", String::from_utf8_lossy(&key));
    }
}

const KEYS: u64 = 3_000;

/// A change of the store and its model. Most of the keys are new values of old ones.
fn change(db: &Db, model: &mut Model, random: &mut Random) {
    let at = random.below(KEYS);
    if random.below(400) > 0 {
        return put_or_delete(db, model, random, key(at));
    }
    let (start, end) = (key(at), key(at + 1 + random.below(KEYS / 4)));
    db.delete_range(&start, &end).expect("delete a range");
    model.retain(|key, _| *key < start || *key >= end);
}

#[test]
fn a_tree_may_change_its_shape_and_schedule_whenever_it_is_opened() {
    let disk = StrictVfs::new();
    let (mut model, mut random) = (Model::new(), Random(1));
    let mut deepest = 0;
    for round in 0..24 {
        let compaction = [Compaction::Tiered, Compaction::Leveled][round / 4 % 2];
        let scheduler = schedulers()[round % 4].clone();
        let options = options(compaction, scheduler.clone());
        let db = Db::open_with(DIR, options, setup(&disk)).expect("open");
        assert_holds(&db, &model, None, &mut random);
        let mut old = None;
        for step in 0..2_000 {
            if step == 700 {
                old = Some((db.snapshot(), model.clone()));
            }
            change(&db, &mut model, &mut random);
        }
        let (snapshot, then) = old.expect("taken");
        assert_holds(&db, &then, Some(&snapshot), &mut random);
        drop(snapshot);
        db.flush().expect("flush");
        db.wait_idle().expect("idle");
        assert_holds(&db, &model, None, &mut random);
        if round % 8 == 6 {
            db.default_keyspace().compact_range(None, None).expect("compact");
            assert_holds(&db, &model, None, &mut random);
        }
        let levels = &db.stats().keyspaces[0].levels;
        deepest = deepest.max(levels.len());
        for (number, level) in levels.iter().enumerate() {
            let max = if number > 0 && compaction == Compaction::Leveled { 1 } else { 2 };
            assert!(level.runs <= max, "{scheduler:?}, level {number} of {levels:?}");
        }
        assert_sound(&db);
        db.close().expect("close");
    }
    assert!(deepest >= 3, "{deepest} levels");
}

#[test]
fn a_tree_may_change_its_shape_while_it_is_open() {
    let disk = StrictVfs::new();
    let db = Db::open_with(DIR, options(Compaction::Leveled, Scheduler::Ratio), setup(&disk));
    let db = db.expect("open");
    let (mut model, mut random) = (Model::new(), Random(3));
    for round in 0..10 {
        let compaction = [Compaction::Tiered, Compaction::Leveled][round % 2];
        db.default_keyspace().set_compaction(compaction).expect("changed");
        for _ in 0..2_000 {
            change(&db, &mut model, &mut random);
        }
        db.flush().expect("flush");
        db.wait_idle().expect("idle");
        assert_holds(&db, &model, None, &mut random);
        let levels = &db.stats().keyspaces[0].levels;
        let deep = &levels[1..];
        match compaction {
            Compaction::Tiered => {
                assert!(deep.iter().all(|level| level.limit_runs > 0), "{levels:?}");
            }
            Compaction::Leveled => assert!(deep.iter().all(|level| level.runs <= 1), "{levels:?}"),
        }
    }
    assert_sound(&db);
    db.close().expect("close");
}

/// With threads that write, compact, and change the policy again and again.
#[test]
fn a_tree_may_change_its_shape_under_those_who_write() {
    let disk = StrictVfs::new();
    let setup = Setup { inline_background: false, ..setup(&disk) };
    let options =
        Options { compaction_threads: 2, ..options(Compaction::Leveled, Scheduler::Ratio) };
    let db = Db::open_with(DIR, options, setup).expect("open");
    let keyspace = db.default_keyspace();
    let written = AtomicBool::new(false);
    let model = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (mut model, mut random) = (Model::new(), Random(4));
            for _ in 0..40_000 {
                change(&db, &mut model, &mut random);
            }
            written.store(true, Ordering::SeqCst);
            model
        });
        scope.spawn(|| {
            while !written.load(Ordering::SeqCst) {
                keyspace.compact_range(None, None).expect("compacted");
            }
        });
        let mut changes = 0;
        while !written.load(Ordering::SeqCst) || changes < 2 {
            let compaction = [Compaction::Tiered, Compaction::Leveled][changes % 2];
            keyspace.set_compaction(compaction).expect("changed");
            changes += 1;
        }
        writer.join().expect("written")
    });
    db.wait_idle().expect("idle");
    assert_holds(&db, &model, None, &mut Random(5));
    assert_sound(&db);
    db.close().expect("close");
}

/// Nothing else happens in the store: the snapshot's end is what a compaction waits for.
#[test]
#[expect(clippy::disallowed_methods, reason = "threads in the background compact")]
fn tombstones_go_when_the_snapshot_that_needs_them_does() {
    let disk = StrictVfs::new();
    let default_keyspace =
        KeyspaceOptions { compaction: Compaction::Tiered, ..KeyspaceOptions::default() };
    let setup = Setup { inline_background: false, ..setup(&disk) };
    let options = Options { default_keyspace, ..Options::default() };
    let db = Db::open_with(DIR, options, setup).expect("open");
    (0..1_000_u64).for_each(|key| db.put(&key.to_be_bytes(), &[7; 100]).expect("put"));
    let (older, snapshot) = (db.snapshot(), db.snapshot());
    (0..1_000_u64).for_each(|key| db.delete(&key.to_be_bytes()).expect("delete"));
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    let entries = || -> u64 {
        let tables = db.default_keyspace().tables().expect("tables");
        tables.iter().map(|table| table.entries).sum()
    };
    drop(older);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(entries(), 2_000);
    drop(snapshot);
    let start = std::time::Instant::now();
    while entries() > 0 && start.elapsed().as_secs() < 30 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(entries(), 0);
    db.close().expect("close");
}

/// What is flushed while it runs is not waited for.
#[test]
fn a_compaction_by_hand_ends_though_somebody_goes_on_writing() {
    const FLUSHES: u64 = 800;
    for compaction in [Compaction::Tiered, Compaction::Leveled] {
        let disk = StrictVfs::new();
        // Nothing else compacts.
        let default_keyspace = KeyspaceOptions {
            compaction,
            level0_runs_compact: 900,
            level0_runs_slow: 950,
            level0_runs_max: 1_000,
            tiered_runs: 32,
            ..KeyspaceOptions::default()
        };
        let setup = Setup { inline_background: false, ..setup(&disk) };
        let options = Options { default_keyspace, ..Options::default() };
        let db = Db::open_with(DIR, options, setup).expect("open");
        let mut random = Random(7);
        for round in 0..2 {
            for key in 0..40_000_u64 {
                let value: Vec<u8> = (0..100).map(|_| random.below(256) as u8).collect();
                db.put(&(2 * key + round).to_be_bytes(), &value).expect("put");
            }
            db.flush().expect("flush");
        }
        let (begun, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut flushes = 0;
                while flushes < FLUSHES && !ended.load(Ordering::SeqCst) {
                    db.put(&random.below(80_000).to_be_bytes(), b"newer").expect("put");
                    db.flush().expect("flush");
                    flushes += 1;
                    begun.store(true, Ordering::SeqCst);
                }
                flushes
            });
            while !begun.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            db.default_keyspace().compact_range(None, None).expect("compact");
            ended.store(true, Ordering::SeqCst);
            let flushes = writer.join().expect("it writes");
            assert!(flushes < FLUSHES, "{compaction:?} ended with the writer");
        });
        let deep: u64 = db.stats().keyspaces[0].levels[1..].iter().map(|level| level.runs).sum();
        assert_eq!(deep, 1, "what was there when it began");
        db.close().expect("close");
    }
}

/// A change waits for a compaction under way, whose policy puts its result in place.
#[test]
#[expect(clippy::disallowed_methods, reason = "time in which a change could come too early")]
fn a_change_of_shape_waits_for_compactions() {
    let disk = StrictVfs::new();
    let (started, has_started) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let (released, seen) = (Mutex::new(released), Arc::new(Mutex::new(Vec::new())));
    let told = seen.clone();
    let listener = move |event: &Event| match event {
        Event::CompactionStarted { .. } => {
            let _ = started.send(());
            // Later ones do not wait.
            let _ = released.lock().expect("whole").recv();
        }
        Event::CompactionFinished { .. } => told.lock().expect("whole").push("compacted"),
        _ => {}
    };
    let setup =
        Setup { inline_background: false, listener: Some(Arc::new(listener)), ..setup(&disk) };
    let db = Db::open_with(DIR, options(Compaction::Leveled, Scheduler::Ratio), setup);
    let db = db.expect("open");
    for run in 0..3 {
        db.put(&key(run), b"1").expect("put");
        db.put(&key(10), b"1").expect("put");
        db.flush().expect("flush");
    }
    has_started.recv().expect("three runs are to be compacted");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            db.default_keyspace().set_compaction(Compaction::Tiered).expect("changed");
            seen.lock().expect("whole").push("changed");
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!(seen.lock().expect("whole").is_empty(), "a compaction is under way");
        drop(release);
    });
    assert_eq!(seen.lock().expect("whole")[..2], ["compacted", "changed"]);
    db.close().expect("close");
}

#[test]
fn a_shape_that_another_option_forbids_is_refused() {
    let disk = StrictVfs::new();
    let mut options = options(Compaction::Tiered, Scheduler::Ratio);
    options.default_keyspace.run_index = true;
    let db = Db::open_with(DIR, options, setup(&disk)).expect("open");
    let refused = db.default_keyspace().set_compaction(Compaction::Leveled);
    let why = refused.expect_err("an index of one run for each level").to_string();
    assert!(why.contains("run_index") && why.contains("compaction = tiered"), "{why}");
    db.default_keyspace().set_compaction(Compaction::Tiered).expect("as it is");
    db.clone().close().expect("close");
    let gone = db.default_keyspace().set_compaction(Compaction::Tiered);
    assert!(gone.is_err(), "the store is closed");
}

#[test]
fn tiers_write_a_byte_once_for_each_level() {
    let disk = StrictVfs::new();
    let options = options(Compaction::Tiered, Scheduler::Ratio);
    let db = Db::open_with(DIR, options, setup(&disk)).expect("open");
    for number in 0..20_000 {
        db.put(&mix64(number).to_be_bytes(), &[1; 100]).expect("put");
    }
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    let levels = &db.stats().keyspaces[0].levels;
    assert!(levels.len() >= 4, "{levels:?}");
    for level in &levels[1..] {
        // What left the level above came in once, and nothing that lay here was written again.
        assert!(level.bytes_written > 0 && level.runs < 3, "{level:?}");
        assert!(level.bytes_written <= levels[0].bytes_written * 101 / 100, "{level:?}");
    }
    db.close().expect("close");
}

#[test]
fn tiers_in_ascending_order_are_written_once() {
    let disk = StrictVfs::new();
    let options = options(Compaction::Tiered, Scheduler::Ratio);
    let db = Db::open_with(DIR, options, setup(&disk)).expect("open");
    for number in 0u64..20_000 {
        db.put(&number.to_be_bytes(), &[1; 100]).expect("put");
    }
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    let levels = &db.stats().keyspaces[0].levels;
    assert!(levels.len() >= 4, "{levels:?}");
    for level in &levels[1..] {
        assert_eq!(level.bytes_written, 0, "tables move: {levels:?}");
    }
    assert_eq!(contents(&db, None).len(), 20_000);
    db.close().expect("close");
}

#[test]
fn tombstones_free_space_in_tiers_too() {
    let disk = StrictVfs::new();
    let options = options(Compaction::Tiered, Scheduler::Ratio);
    let db = Db::open_with(DIR, options, setup(&disk)).expect("open");
    for number in 0..KEYS {
        db.put(&key(number), &[1; 100]).expect("put");
    }
    db.flush().expect("flush");
    for number in 0..KEYS {
        db.delete(&key(number)).expect("delete");
    }
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    let stats = db.stats();
    assert_eq!(stats.keyspaces[0].table_bytes(), 0, "{:?}", stats.keyspaces[0].levels);
    assert!(contents(&db, None).is_empty());
    db.close().expect("close");
}

/// Memtables take many of them.
fn for_long_keys(compaction: Compaction) -> Options {
    let mut options = options(compaction, Scheduler::Ratio);
    options.default_keyspace.memtable_bytes = 16 << 20;
    options.default_keyspace.filter = Filter::None;
    options
}

fn long_keys(count: usize, bytes: usize) -> Vec<Vec<u8>> {
    let mut random = Random(5);
    let mut key = || (0..bytes).map(|_| random.below(256) as u8).collect();
    (0..count).map(|_| key()).collect()
}

/// The first and last keys of all tables that a flush writes stand in one edit of the manifest.
#[test]
fn tables_of_long_keys_are_no_more_than_their_bounds_allow() {
    for compaction in [Compaction::Leveled, Compaction::Tiered] {
        let disk = StrictVfs::new();
        let options = for_long_keys(compaction);
        let open = || Db::open_with(DIR, options.clone(), setup(&disk)).expect("open");
        let db = open();
        let keys = long_keys(200, 30_000);
        keys.iter().for_each(|key| db.put(key, b"v").expect("put"));
        db.flush().expect("flush");
        let tables = |db: &Db| db.default_keyspace().tables().expect("tables").len();
        assert!((1..=4).contains(&tables(&db)), "{} tables", tables(&db));
        db.default_keyspace().compact_range(None, None).expect("compact");
        assert!((1..=4).contains(&tables(&db)), "{} tables", tables(&db));
        db.close().expect("close");
        let db = open();
        assert!(keys.iter().all(|key| db.get(key).expect("get").is_some()));
        // Short ones are cut as ever.
        (0..2_000).for_each(|number| db.put(&key(number), &[7; 100]).expect("put"));
        db.flush().expect("flush");
        assert!(tables(&db) > 10, "{} tables", tables(&db));
    }
}

/// So do those of all memtables that an open makes of a log, however small memtables are.
#[test]
fn an_open_makes_few_tables_of_long_keys() {
    let disk = StrictVfs::new();
    let mut options = for_long_keys(Compaction::Leveled);
    let open = |options: &Options, disk: &StrictVfs| {
        Db::open_with(DIR, options.clone(), setup(disk)).expect("open")
    };
    let db = open(&options, &disk);
    let keys = long_keys(100, 100_000);
    keys.iter().for_each(|key| db.put(key, b"v").expect("put"));
    let disk = disk.crash(Survival::ProcessDeath, 1);
    std::mem::forget(db);
    // Nothing is compacted.
    let keyspace = &mut options.default_keyspace;
    keyspace.memtable_bytes = 64 << 10;
    (keyspace.level0_runs_compact, keyspace.level0_runs_slow) = (200, 300);
    keyspace.level0_runs_max = 400;
    let db = open(&options, &disk);
    let tables = db.default_keyspace().tables().expect("tables").len();
    assert!((1..=6).contains(&tables), "{tables} tables");
    assert!(keys.iter().all(|key| db.get(key).expect("get").is_some()));
}

/// Deleted ranges with long ends, which stand in tables of their own.
#[test]
fn tables_of_long_deleted_ranges_are_no_more_than_their_bounds_allow() {
    for compaction in [Compaction::Leveled, Compaction::Tiered] {
        let disk = StrictVfs::new();
        let options = for_long_keys(compaction);
        let open = || Db::open_with(DIR, options.clone(), setup(&disk)).expect("open");
        let db = open();
        let keys = long_keys(100, 30_000);
        keys.iter().for_each(|key| db.put(key, b"v").expect("put"));
        db.flush().expect("flush");
        let snapshot = db.snapshot();
        for key in &keys {
            let end = [&key[..], &[0]].concat();
            db.default_keyspace().delete_range(key, &end).expect("delete");
        }
        db.flush().expect("flush");
        let tables = |db: &Db| db.default_keyspace().tables().expect("tables").len();
        assert!((2..=10).contains(&tables(&db)), "{} tables", tables(&db));
        db.default_keyspace().compact_range(None, None).expect("compact");
        assert!((1..=12).contains(&tables(&db)), "{} tables", tables(&db));
        let get_at = |key: &[u8]| db.default_keyspace().get_at(key, &snapshot).expect("get");
        assert!(keys.iter().all(|key| get_at(key).is_some()));
        drop(snapshot);
        db.close().expect("close");
        let db = open();
        assert!(keys.iter().all(|key| db.get(key).expect("get").is_none()));
    }
}

/// As where a store takes over groups, or loads in bulk, one behind the other.
#[test]
fn tiers_do_not_rewrite_what_came_before_for_what_is_apart_from_it() {
    for run_index in [false, true] {
        let disk = StrictVfs::new();
        let default_keyspace = KeyspaceOptions {
            compaction: Compaction::Tiered,
            run_index,
            table_bytes_max: 16 << 10,
            compression: vec![Compression::None],
            ..KeyspaceOptions::default()
        };
        let options = Options { default_keyspace, ..Options::default() };
        let open = || Db::open_with(DIR, options.clone(), setup(&disk)).expect("open");
        let db = open();
        for load in 0..40u64 {
            let mut ingest = db.default_keyspace().ingest().expect("ingest");
            for nth in 0..100u64 {
                ingest.put(&(load * 100 + nth).to_be_bytes(), &[load as u8; 100]).expect("put");
            }
            ingest.finish().expect("finish");
            db.wait_idle().expect("idle");
        }
        let levels = &db.stats().keyspaces[0].levels;
        let written: u64 = levels.iter().map(|level| level.bytes_written).sum();
        let moves: u64 = levels.iter().map(|level| level.moves).sum();
        assert!(written == 0 && moves > 0, "{written} bytes, {moves} moves, index: {run_index}");
        assert!(levels.iter().map(|level| level.runs).sum::<u64>() < 20);
        let check = |db: &Db| {
            let mut next = 0u64;
            for pair in db.iter().expect("iter") {
                let (key, value) = pair.expect("read");
                assert_eq!(
                    (&*key, &*value),
                    (&next.to_be_bytes()[..], &[(next / 100) as u8; 100][..])
                );
                assert!(db.get(&key).expect("get").is_some());
                next += 1;
            }
            assert_eq!(next, 4_000);
            assert_sound(db);
        };
        check(&db);
        db.close().expect("close");
        let db = open();
        check(&db);
        db.close().expect("close");
    }
}

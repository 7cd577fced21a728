//! What stays of a deleted group where tables are shared is never seen again, also after a repair;
//! and what comes later stays.

use super::support::{DIR, Random, below_log, grouped, setup, setup_on};
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::StrictVfs;
use esker::event::{CompactionReason, Event, EventListener};
use esker::repair::repair;
use esker::{
    Applied, Batch, Compaction, Db, Error, GroupPrefix, KeyspaceOptions, Options, Setup,
    WriteOptions,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

const GROUPS: u64 = 8;
const KEYS: u64 = 200;

fn options() -> Options {
    Options {
        memory_budget_bytes: 8 << 20,
        memtables_bytes_max: 1 << 20,
        default_keyspace: KeyspaceOptions {
            memtable_bytes: 64 << 10,
            block_bytes: 1 << 10,
            table_bytes_max: 64 << 10,
            groups: Some(GroupPrefix::Delimiter { byte: b'/' }),
            group_table_bytes_min: 64 << 10,
            ..KeyspaceOptions::default()
        },
        ..Options::default()
    }
}

fn open(disk: &StrictVfs) -> Db {
    Db::open_with(DIR, options(), setup(disk)).expect("open")
}

/// With threads in the background, which tell what they do.
fn open_listened(
    disk: &StrictVfs,
    default_keyspace: KeyspaceOptions,
    listener: impl EventListener + 'static,
) -> Db {
    let groups = Some(GroupPrefix::Delimiter { byte: b'/' });
    let default_keyspace = KeyspaceOptions { groups, ..default_keyspace };
    let options = Options { default_keyspace, ..Options::default() };
    let setup =
        Setup { inline_background: false, listener: Some(Arc::new(listener)), ..setup(disk) };
    Db::open_with(DIR, options, setup).expect("open")
}

fn group(number: u64) -> Vec<u8> {
    format!("g{number}/").into_bytes()
}

fn fill(db: &Db, number: u64, random: &mut Random) {
    for key in 0..KEYS {
        let key = [&group(number)[..], format!("{key:03}").as_bytes()].concat();
        let value: Vec<u8> = (0..100).map(|_| random.below(256) as u8).collect();
        db.put(&key, &value).expect("put");
    }
}

fn count(db: &Db, number: u64) -> u64 {
    let pairs = db.default_keyspace().prefix(&group(number)).expect("scan");
    pairs.collect::<Result<Vec<_>, _>>().expect("pairs").len() as u64
}

fn settle(db: &Db) {
    db.flush().expect("flush");
    db.default_keyspace().compact_range(None, None).expect("compact");
}

/// A store of whose groups one was deleted that shared its tables. If it was `forgotten`, nothing
/// of it stands anywhere any more, it is there anew, and its records have no numbers.
fn store_without_a_group(forgotten: bool) -> StrictVfs {
    let disk = StrictVfs::new();
    let db = open(&disk);
    let mut random = Random(3);
    (0..GROUPS).for_each(|number| fill(&db, number, &mut random));
    settle(&db);
    let deleted = db.delete_group(&group(3)).expect("delete");
    assert!(deleted.shared_tables > 0, "{deleted:?}");
    if forgotten {
        db.wait_idle().expect("idle");
        fill(&db, 3, &mut random);
        settle(&db);
        assert_eq!(count(&db, 3), KEYS);
    }
    db.close().expect("close");
    disk
}

fn files(disk: &StrictVfs, part: &str) -> Vec<PathBuf> {
    let names = disk.file_names(Path::new(DIR)).into_iter().filter(|name| name.contains(part));
    names.map(|name| Path::new(DIR).join(name)).collect()
}

fn repaired(disk: &StrictVfs) -> Db {
    repair(Path::new(DIR), &options(), setup(disk), |_| true).expect("repair");
    open(disk)
}

#[test]
fn a_repair_of_tables_knows_what_was_deleted_and_what_came_after() {
    for forgotten in [false, true] {
        let disk = store_without_a_group(forgotten);
        for table in files(&disk, ".tbl") {
            // In the first block of records.
            disk.flip_bit(&table, 8 * 200).expect("flip");
        }
        let db = repaired(&disk);
        let others: u64 = (0..GROUPS).filter(|&number| number != 3).map(|n| count(&db, n)).sum();
        assert!(others > 6 * KEYS && others < 7 * KEYS, "some blocks are lost: {others}");
        match forgotten {
            false => assert_eq!(count(&db, 3), 0),
            true => assert!(count(&db, 3) > KEYS - 20, "{}", count(&db, 3)),
        }
    }
}

#[test]
fn a_repair_with_half_a_manifest_knows_it_too() {
    for forgotten in [false, true] {
        let disk = store_without_a_group(forgotten);
        for manifest in files(&disk, "MANIFEST") {
            // In its header: the state cannot be relied on, but edits can be read.
            disk.flip_bit(&manifest, 8 * 12).expect("flip");
        }
        let db = repaired(&disk);
        for number in 0..GROUPS {
            let expected = if number == 3 && !forgotten { 0 } else { KEYS };
            assert_eq!(count(&db, number), expected, "group {number}, forgotten: {forgotten}");
        }
        // And the next opening agrees.
        drop(db);
        assert_eq!(count(&open(&disk), 3), if forgotten { KEYS } else { 0 });
    }
}

/// What a deleted group left is rewritten a little at a time, as long as nobody waits.
#[test]
#[expect(clippy::disallowed_methods, reason = "how long it rests is what is measured")]
fn what_it_left_in_a_shared_table_is_rewritten_at_leisure() {
    let disk = StrictVfs::new();
    let (finished, has_finished) = mpsc::channel();
    let since = Mutex::new(None);
    let listener = move |event: &Event| match event {
        Event::CompactionStarted { reason: CompactionReason::Erased, .. } => {
            *since.lock().expect("whole") = Some(Instant::now());
        }
        Event::CompactionFinished { duration_us, bytes_read, .. } => {
            if let Some(since) = since.lock().expect("whole").take() {
                let took = (Duration::from_micros(*duration_us), since.elapsed(), *bytes_read);
                let _ = finished.send(took);
            }
        }
        _ => {}
    };
    let keyspace = KeyspaceOptions { group_table_bytes_min: 64 << 20, ..Default::default() };
    let db = open_listened(&disk, keyspace, listener);
    let mut random = Random(3);
    for key in 0..20_000 {
        let value: Vec<u8> = (0..200).map(|_| random.below(256) as u8).collect();
        let key = [&group(key % 2)[..], format!("{key:06}").as_bytes()].concat();
        db.put(&key, &value).expect("put");
    }
    settle(&db);
    db.wait_idle().expect("idle");
    let deleted = db.delete_group(&group(1)).expect("delete");
    assert_eq!((deleted.tables, deleted.shared_tables), (0, 1), "{deleted:?}");
    let (worked, took, bytes) = has_finished.recv().expect("it is rewritten");
    assert!(bytes > 4_000_000, "{bytes}");
    // Rests are four times as long as the work, but where somebody else had the processor
    // meanwhile.
    assert!(took > worked * 2, "{worked:?} of work in {took:?}");
    db.close().expect("close");
}

/// Work at leisure takes long: what another deletion removes meanwhile does not wait for it. Where
/// a run index is kept, a whole run is the work, which then ends in vain.
#[test]
#[expect(clippy::disallowed_methods, reason = "threads in the background remove files")]
fn the_files_of_others_go_while_what_one_left_is_rewritten() {
    for (compaction, run_index) in
        [(Compaction::Leveled, false), (Compaction::Tiered, false), (Compaction::Tiered, true)]
    {
        let disk = StrictVfs::new();
        let ((begun, has_begun), (ended, has_ended)) = (mpsc::channel(), mpsc::channel());
        let listener = move |event: &Event| match event {
            Event::CompactionStarted { reason: CompactionReason::Erased, input_bytes, .. } => {
                let _ = begun.send(*input_bytes);
            }
            Event::CompactionFinished { .. } => drop(ended.send(())),
            _ => {}
        };
        let keyspace = KeyspaceOptions {
            compaction,
            run_index,
            table_bytes_max: 4 << 20,
            group_table_bytes_min: 2 << 20,
            ..KeyspaceOptions::default()
        };
        let db = open_listened(&disk, keyspace, listener);
        let mut random = Random(3);
        let mut put = |number: u64, pairs: u64| {
            for key in 0..pairs {
                let value: Vec<u8> = (0..1_000).map(|_| random.below(256) as u8).collect();
                let key = [&group(number)[..], format!("{key:06}").as_bytes()].concat();
                db.put(&key, &value).expect("put");
            }
        };
        // Two share a table, the third one has tables of its own, so many that there is no hurry.
        put(1, 1_100);
        put(2, 1_100);
        put(3, 30_000);
        settle(&db);
        db.wait_idle().expect("idle");
        has_ended.try_iter().for_each(drop);
        // Names ascend: how many have been made is seen by the last one.
        let newest = || {
            let name = files(&disk, ".tbl").pop().expect("a table");
            let stem = name.file_stem().expect("a number").to_string_lossy().into_owned();
            stem.parse::<u64>().expect("a number")
        };
        let newest_before = newest();
        let shared = db.delete_group(&group(1)).expect("delete");
        assert_eq!((shared.tables, shared.shared_tables), (0, 1), "{compaction:?}: {shared:?}");
        let to_be_read = has_begun.recv().expect("it is rewritten");
        assert_eq!(to_be_read > 30_000_000, run_index, "{compaction:?}: {to_be_read}");
        let before = files(&disk, ".tbl").len() as u64;
        let own = db.delete_group(&group(3)).expect("delete");
        assert!(own.tables > 5 && own.shared_tables == 0, "{compaction:?}: {own:?}");
        let left = || files(&disk, ".tbl").len() as u64;
        let most = before + 1 - own.tables; // One is being written.
        let start = Instant::now();
        while run_index && left() > most && start.elapsed().as_secs() < 60 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(left() <= most, "{} of {before} are left, {own:?}", left());
        assert!(run_index || has_ended.try_recv().is_err(), "too quick");
        db.wait_idle().expect("idle");
        assert_eq!(has_ended.try_iter().count(), 1, "{compaction:?}");
        let made = newest() - newest_before;
        assert!((1..5).contains(&made), "{compaction:?}: {made} tables were made, some in vain");
        db.close().expect("close");
    }
}

/// Writers have filled memory, which cannot become tables on a full disk. To delete a group is to
/// make room there.
#[test]
fn a_full_disk_does_not_stop_a_deletion() {
    let strict = StrictVfs::new();
    let vfs = FaultyVfs::new(Arc::new(strict.clone()));
    let options = grouped(below_log());
    let db = Db::open_with(DIR, options, setup_on(Arc::new(vfs.clone()), 7)).expect("open");
    let apply = |number: u64, index: u64| {
        let mut batch = Batch::new();
        for key in 0..2_000 {
            batch.put(&[&group(number)[..], format!("{index}/{key}").as_bytes()].concat(), b"");
        }
        db.apply(Applied { group: &group(number), index, note: b"" }, batch)
    };
    for number in 0..3 {
        apply(number, 1).expect("apply");
    }
    db.flush().expect("flush");
    let is_table = |path: &Path| path.extension().is_some_and(|e| e == "tbl");
    vfs.inject(FaultRule::nth(1, &[Op::Create], Fault::NoSpace).from_then_on().on(is_table));
    let full = (2..10_000).find_map(|index| apply(0, index).err()).expect("memory has an end");
    assert!(matches!(full, Error::NoSpace { .. }), "{full}");
    let before = files(&strict, ".tbl").len();
    for number in [1, 0] {
        db.delete_group(&group(number)).expect("delete");
        assert_eq!(count(&db, number), 0);
    }
    assert!(files(&strict, ".tbl").len() < before);
    vfs.heal();
    apply(2, 2).expect("apply");
    db.flush().expect("flush");
    assert_eq!([0, 1, 2].map(|number| count(&db, number)), [0, 0, 4_000]);
}

/// A manifest that is merely long is not written anew while there is no room for it, and takes on.
#[test]
fn a_long_manifest_on_a_full_disk_does_not_stop_deletions() {
    let strict = StrictVfs::new();
    let vfs = FaultyVfs::new(Arc::new(strict.clone()));
    let options = Options { manifest_bytes_max: 4 << 10, ..grouped(below_log()) };
    let open = |seed| Db::open_with(DIR, options.clone(), setup_on(Arc::new(vfs.clone()), seed));
    let db = open(7).expect("open");
    let manifests = || files(&strict, "MANIFEST");
    let first = manifests();
    let is_manifest = |path: &Path| path.to_string_lossy().contains("MANIFEST");
    let create = [Op::Create, Op::CreateLog];
    vfs.inject(FaultRule::nth(1, &create, Fault::NoSpace).from_then_on().on(is_manifest));
    for _ in 0..300 {
        db.delete_group(&group(1)).expect("delete");
    }
    assert!(vfs.faults_fired() > 10, "it is long");
    assert_eq!(manifests(), first);
    vfs.heal();
    db.delete_group(&group(1)).expect("delete");
    assert!(manifests().len() == 1 && manifests() != first, "it is written anew");
    drop(db);
    open(1 << 32).expect("open");
}

#[test]
fn a_name_that_is_not_quite_that_of_a_group_deletes_nothing() {
    let disk = StrictVfs::new();
    let db = Db::open_with(DIR, grouped(below_log()), setup(&disk)).expect("open");
    for number in [1, 2] {
        let mut batch = Batch::new();
        batch.put(&[&group(number)[..], b"key"].concat(), b"value");
        db.apply(Applied { group: &group(number), index: 7, note: b"" }, batch).expect("apply");
    }
    for flushed in [false, true] {
        for name in ["g", "g1", "g1/k"] {
            let error = db.delete_group(name.as_bytes()).expect_err("no group").to_string();
            assert!(error.contains("begin alike"), "{flushed}: {error}");
        }
        assert_eq!([count(&db, 1), count(&db, 2)], [1, 1]);
        db.flush().expect("flush");
    }
    db.delete_group(b"g3/").expect("it has nothing");
    db.delete_group(&group(1)).expect("delete");
    assert_eq!([count(&db, 1), count(&db, 2)], [0, 1]);
}

/// Nothing else happens in the store that would have somebody look for them.
#[test]
#[expect(clippy::disallowed_methods, reason = "threads in the background remove files")]
fn files_that_a_cursor_held_go_soon_after_it() {
    for separated in [false, true] {
        let disk = StrictVfs::new();
        let keyspace = KeyspaceOptions {
            value_log_bytes_min: separated.then_some(64),
            ..KeyspaceOptions::default()
        };
        let db = open_listened(&disk, keyspace, |_: &Event| {});
        fill(&db, 1, &mut Random(3));
        settle(&db);
        db.wait_idle().expect("idle");
        let tables = || files(&disk, ".tbl").len();
        assert_eq!(tables(), 1);
        let mut pairs = db.default_keyspace().prefix(&group(1)).expect("scan");
        pairs.next().expect("a pair").expect("read");
        let deleted = db.delete_group(&group(1)).expect("delete");
        assert_eq!((deleted.tables, tables()), (1, 1), "the cursor has it");
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(pairs.count(), KEYS as usize - 1, "what was there when it was made");
        let start = Instant::now();
        while tables() > 0 && start.elapsed().as_secs() < 60 {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(tables(), 0);
        db.close().expect("close");
    }
}

/// All who compact are at what another deletion left, which takes long.
#[test]
#[expect(clippy::disallowed_methods, reason = "threads in the background remove files")]
fn files_that_a_cursor_held_do_not_wait_for_work_at_leisure() {
    let disk = StrictVfs::new();
    let (told, events) = mpsc::channel();
    let listener = move |event: &Event| match event {
        Event::CompactionStarted { reason: CompactionReason::Erased, .. } => drop(told.send(true)),
        Event::CompactionFinished { .. } => drop(told.send(false)),
        _ => {}
    };
    let default_keyspace = KeyspaceOptions {
        groups: Some(GroupPrefix::Delimiter { byte: b'/' }),
        table_bytes_max: 4 << 20,
        group_table_bytes_min: 2 << 20,
        ..KeyspaceOptions::default()
    };
    let options = Options { default_keyspace, compaction_threads: 1, ..Options::default() };
    let setup =
        Setup { inline_background: false, listener: Some(Arc::new(listener)), ..setup(&disk) };
    let db = Db::open_with(DIR, options, setup).expect("open");
    let mut random = Random(3);
    for (number, pairs) in [(1, 1_950), (2, 1_950), (3, 56_000)] {
        for key in 0..pairs {
            let value: Vec<u8> = (0..1_000).map(|_| random.below(256) as u8).collect();
            let key = [&group(number)[..], format!("{key:06}").as_bytes()].concat();
            db.put(&key, &value).expect("put");
        }
    }
    settle(&db);
    db.wait_idle().expect("idle");
    events.try_iter().for_each(drop);
    let mut pairs = db.default_keyspace().prefix(&group(3)).expect("scan");
    pairs.next().expect("a pair").expect("read");
    assert_eq!(db.delete_group(&group(1)).expect("delete").shared_tables, 1);
    assert!(events.recv().expect("an event"), "it is rewritten");
    let tables = || files(&disk, ".tbl").len();
    let own = db.delete_group(&group(3)).expect("delete").tables as usize;
    assert!(own > 5 && tables() > own, "the cursor has them");
    drop(pairs);
    let start = Instant::now();
    while tables() > 2 && start.elapsed().as_secs() < 60 {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(tables() <= 2, "what is rewritten, and as what");
    assert!(events.try_recv().is_err(), "that takes longer");
    db.close().expect("close");
}

#[test]
fn deletions_do_not_pile_up_where_nothing_is_written() {
    let disk = StrictVfs::new();
    let db = open(&disk);
    let other = db.create_keyspace("idle", options().default_keyspace).expect("create");
    let mut batch = Batch::new();
    batch.put_in(&other, b"g1/a", b"1");
    db.write(batch, WriteOptions::default()).expect("write");
    settle(&db);
    other.compact_range(None, None).expect("compact");
    for round in 0..200 {
        db.delete_group(format!("round {round}/").as_bytes()).expect("delete");
        db.delete_group(&group(2)).expect("delete");
    }
    drop(other);
    let length = || {
        let manifest = files(&disk, "MANIFEST").pop().expect("there is one");
        disk.read_file(&manifest).expect("read").len()
    };
    db.close().expect("close");
    let with_all = length();
    // The next one begins with what still counts.
    open(&disk).close().expect("close");
    assert!(length() < with_all / 20, "{} of {with_all}", length());
    let db = open(&disk);
    assert_eq!(count(&db, 1), 0);
    assert!(other_has(&db), "the other group is there");
}

fn other_has(db: &Db) -> bool {
    let keyspace = db.keyspace("idle").expect("there");
    keyspace.get(b"g1/a").expect("get").is_some()
}

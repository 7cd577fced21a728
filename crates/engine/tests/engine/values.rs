//! Large values are kept apart from the tree, and everything else is as it would be without.

use super::support::{DIR, Model, Random, assert_sound, setup, setup_on};
use esker::base::Vfs;
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::{Compaction, Compression, Db, KeyspaceOptions, Options, ScanOptions, Snapshot};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Values of 100 bytes and more stand apart, in files of a few of them.
pub(crate) fn options() -> Options {
    let default_keyspace = KeyspaceOptions {
        memtable_bytes: 64 << 10,
        block_bytes: 1 << 10,
        table_bytes_max: 16 << 10,
        level_base_bytes: 64 << 10,
        level_fanout: 3,
        value_log_bytes_min: Some(100),
        value_log_compression: Compression::None,
        ..KeyspaceOptions::default()
    };
    Options {
        memory_budget_bytes: 8 << 20,
        memtables_bytes_max: 1 << 20,
        wal_bytes_max: 1 << 20,
        value_log_file_bytes: 16 << 10,
        default_keyspace,
        ..Options::default()
    }
}

fn open(disk: &StrictVfs, options: Options) -> Db {
    Db::open_with(DIR, options, setup(disk)).expect("open")
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// Text of a length from a few bytes to a few thousand, most of it without a pattern.
fn value(random: &mut Random) -> Vec<u8> {
    let len = [3, 99, 100, 300, 1_000, 5_000][random.below(6) as usize] + random.below(9);
    let mut bytes = vec![b'a' + random.below(26) as u8; len as usize];
    bytes.iter_mut().step_by(3).for_each(|byte| *byte = random.below(256) as u8);
    bytes
}

fn change(db: &Db, model: &mut Model, random: &mut Random, keys: u64) {
    let key = key(random.below(keys));
    if random.below(6) == 0 {
        db.delete(&key).expect("delete");
        model.remove(&key);
    } else {
        let value = value(random);
        db.put(&key, &value).expect("put");
        model.insert(key, value);
    }
}

fn assert_holds(db: &Db, model: &Model, at: Option<&Snapshot>) {
    let mut scan = ScanOptions::default();
    if let Some(snapshot) = at {
        scan = scan.at(snapshot);
    }
    let keyspace = db.default_keyspace();
    let mut cursor = keyspace.scan(&scan).expect("cursor");
    cursor.seek_to_first().expect("seek");
    for (key, value) in model {
        assert!(cursor.valid(), "the scan ends before {}", key.escape_ascii());
        assert_eq!(cursor.key(), key);
        assert!(cursor.value() == value, "value of {}", key.escape_ascii());
        cursor.next().expect("next");
    }
    assert!(!cursor.valid());
    cursor.seek_to_last().expect("seek");
    for (key, value) in model.iter().rev() {
        assert!(cursor.key() == key && cursor.value() == value, "{} backward", key.escape_ascii());
        cursor.prev().expect("prev");
    }
    for memory_bytes in [0, 2 << 10, 1 << 20] {
        let mut unordered = keyspace.scan_unordered(&scan, memory_bytes).expect("cursor");
        let mut found = Model::new();
        while unordered.advance().expect("advance") {
            let before = found.insert(unordered.key().to_vec(), unordered.value().to_vec());
            assert!(before.is_none(), "{} twice", unordered.key().escape_ascii());
        }
        assert!(!unordered.valid() && !unordered.advance().expect("advance"));
        assert!(found == *model, "{} of {} without order", found.len(), model.len());
    }
    let only_keys = ScanOptions { keys_only: true, ..scan };
    let mut unordered = keyspace.scan_unordered(&only_keys, 1 << 20).expect("cursor");
    for key in model.keys() {
        assert!(unordered.advance().expect("advance"));
        assert!(unordered.key() == key && unordered.value().is_empty());
    }
    assert!(!unordered.advance().expect("advance"));
    let mut keys = keyspace.scan(&only_keys).expect("cursor");
    keys.seek_to_first().expect("seek");
    for key in model.keys() {
        assert!(keys.key() == key && keys.value().is_empty());
        keys.next().expect("next");
    }
    for (key, value) in model.iter().step_by(3) {
        let found = match at {
            Some(snapshot) => keyspace.get_at(key, snapshot),
            None => keyspace.get(key),
        };
        assert!(found.expect("get").as_deref() == Some(&value[..]), "{}", key.escape_ascii());
    }
}

/// Bytes of files with this ending.
fn bytes_of(disk: &StrictVfs, ending: &str) -> u64 {
    let names = disk.file_names(Path::new(DIR)).into_iter().filter(|name| name.ends_with(ending));
    let read = names.map(|name| disk.read_file(&Path::new(DIR).join(name)).expect("read"));
    read.map(|bytes| bytes.len() as u64).sum()
}

#[test]
fn a_store_is_what_it_would_be_with_its_values_in_the_tree() {
    for (nth, compaction) in [Compaction::Leveled, Compaction::Tiered].into_iter().enumerate() {
        let mut disk = StrictVfs::new();
        let (mut model, mut random) = (Model::new(), Random(nth as u64));
        let mut moved = 0;
        for round in 0..12u64 {
            let mut options = options();
            options.default_keyspace.compaction = compaction;
            options.default_keyspace.value_log_compression =
                [Compression::None, Compression::Lz4, Compression::Zstd { level: 1 }]
                    [(round % 3) as usize];
            if round % 5 == 4 {
                options.default_keyspace.value_log_bytes_min = None;
            }
            let db = open(&disk, options);
            assert_holds(&db, &model, None);
            let mut old = None;
            for step in 0..500 {
                if step == 200 {
                    old = Some((db.snapshot(), model.clone()));
                }
                change(&db, &mut model, &mut random, 300);
            }
            let (snapshot, then) = old.expect("taken");
            let kept = db.default_keyspace().scan(&ScanOptions::default()).expect("cursor");
            moved += db.collect_values(0.0, |_| true).expect("collect").files;
            assert_holds(&db, &then, Some(&snapshot));
            assert_holds(&db, &model, None);
            drop((snapshot, kept));
            db.flush().expect("flush");
            db.wait_idle().expect("idle");
            moved += db.collect_values(0.0, |_| true).expect("collect").files;
            assert_holds(&db, &model, None);
            assert_sound(&db);
            if round % 2 == 0 {
                db.close().expect("close");
            } else {
                // As if the process were killed; what is written afterwards goes nowhere.
                disk = disk.crash(Survival::ProcessDeath, round);
            }
        }
        assert!(moved > 20, "{moved} files were collected");
    }
}

/// Small values as the keys come, then those that stand apart in the order in which they were
/// written.
#[test]
fn a_scan_without_order_reads_values_as_they_stand() {
    let disk = StrictVfs::new();
    let db = open(&disk, options());
    for number in (0..200).rev() {
        let len = if number % 2 == 0 { 10 } else { 400 };
        db.put(&key(number), &vec![b'v'; len]).expect("put");
    }
    db.flush().expect("flush");
    let small = (0..200).filter(|number| number % 2 == 0);
    let large = (0..200).rev().filter(|number| number % 2 == 1);
    let expected: Vec<Vec<u8>> = small.chain(large).map(key).collect();
    let mut cursor =
        db.default_keyspace().scan_unordered(&ScanOptions::default(), 1 << 20).expect("cursor");
    for key in &expected {
        assert!(cursor.advance().expect("advance"));
        assert_eq!(cursor.key().escape_ascii().to_string(), key.escape_ascii().to_string());
    }
    assert!(!cursor.advance().expect("advance"));
}

#[test]
fn what_a_cursor_or_a_snapshot_sees_stays_while_values_are_collected() {
    let disk = StrictVfs::new();
    let db = open(&disk, options());
    let (mut model, mut random) = (Model::new(), Random(5));
    for _ in 0..600 {
        change(&db, &mut model, &mut random, 200);
    }
    let (snapshot, then) = (db.snapshot(), model.clone());
    let mut cursor = db.default_keyspace().scan(&ScanOptions::default()).expect("cursor");
    for _ in 0..5 {
        for _ in 0..300 {
            change(&db, &mut model, &mut random, 200);
        }
        db.flush().expect("flush");
        db.default_keyspace().compact_range(None, None).expect("compact");
        db.collect_values(0.0, |_| true).expect("collect");
        assert_holds(&db, &then, Some(&snapshot));
        assert_holds(&db, &model, None);
    }
    cursor.seek_to_first().expect("seek");
    for (key, value) in &then {
        assert!(cursor.key() == key && cursor.value() == value, "{}", key.escape_ascii());
        cursor.next().expect("next");
    }
    drop(cursor);
    let before = bytes_of(&disk, ".val") + bytes_of(&disk, ".wal");
    drop(snapshot);
    db.default_keyspace().compact_range(None, None).expect("compact");
    db.collect_values(0.0, |_| true).expect("collect");
    db.wait_idle().expect("idle");
    let after = bytes_of(&disk, ".val") + bytes_of(&disk, ".wal");
    assert!(after < before, "{before} bytes with a snapshot, {after} without");
    assert_holds(&db, &model, None);
}

#[test]
fn overwriting_keeps_within_the_space_that_is_allowed() {
    let disk = StrictVfs::new();
    let mut options = options();
    options.value_log_file_bytes = 64 << 10;
    options.value_log_space_amp_max = 1.3;
    let (file_bytes, amp) = (options.value_log_file_bytes, options.value_log_space_amp_max);
    let db = open(&disk, options);
    let mut random = Random(11);
    let mut put = |number: u64| {
        let mut value = vec![0; 1_000];
        value.iter_mut().for_each(|byte| *byte = random.below(256) as u8);
        db.put(&key(number), &value).expect("put");
    };
    const KEYS: u64 = 6_000;
    (0..KEYS).for_each(&mut put);
    let live = KEYS * 1_009;
    let mut most = 0;
    let mut order = Random(3);
    for step in 0..5 * KEYS {
        put(order.below(KEYS));
        if step % 50 == 0 {
            most = most.max(bytes_of(&disk, ".val") + bytes_of(&disk, ".wal"));
        }
    }
    let allowed = (live as f64 * amp) as u64 + file_bytes;
    assert!(most <= allowed, "{most} bytes at the most, {allowed} allowed, {live} alive");
    assert!(most > live, "all values stand apart");
    assert_sound(&db);
}

/// Reads of files with values that a scan of 2 000 values of 1 000 bytes takes, which were written
/// in this order.
fn reads_of_a_scan(order: impl Fn(u64) -> u64, rule: Option<FaultRule>) -> u64 {
    let faults = Arc::new(FaultyVfs::new(Arc::new(StrictVfs::new())));
    let mut options = options();
    options.memory_budget_bytes = 64 << 20;
    options.value_log_file_bytes = 8 << 20;
    let db = Db::open_with(DIR, options, setup_on(faults.clone(), 7)).expect("open");
    let value = |number: u64| vec![number as u8; 1_000];
    for number in (0..2_000).map(order) {
        db.put(&key(number), &value(number)).expect("put");
    }
    db.flush().expect("flush");
    let keyspace = db.default_keyspace();
    let walk = |keys_only: bool| {
        let mut cursor = keyspace.scan(&ScanOptions { keys_only, ..ScanOptions::default() });
        let cursor = cursor.as_mut().expect("cursor");
        cursor.seek_to_first().expect("seek");
        for number in 0..2_000 {
            assert_eq!(cursor.key(), key(number));
            assert!(keys_only || cursor.value() == value(number), "value {number}");
            cursor.next().expect("next");
        }
        assert!(!cursor.valid());
    };
    walk(true);
    let (before, has_rule) = (faults.calls(Op::Read), rule.is_some());
    rule.into_iter().for_each(|rule| faults.inject(rule));
    walk(false);
    assert_eq!(faults.faults_fired() > 0, has_rule);
    faults.calls(Op::Read) - before
}

#[test]
fn values_that_stand_in_the_order_of_their_keys_are_read_ahead() {
    let in_order = reads_of_a_scan(|number| number, None);
    // 2 MB in pieces of 64 KiB, after a few shorter ones.
    assert!((31..=60).contains(&in_order), "{in_order} reads");
    // 617 has no factor in common with 2 000.
    let scattered = reads_of_a_scan(|number| number * 617 % 2_000, None);
    assert_eq!(scattered, 2_000, "one read for each");
}

#[test]
fn a_piece_that_cannot_be_read_ahead_costs_nobody_a_value() {
    let rule = FaultRule::nth(9, &[Op::Read], Fault::Eio);
    let reads = reads_of_a_scan(|number| number, Some(rule));
    assert!((32..=70).contains(&reads), "{reads} reads");
}

#[test]
fn a_large_value_is_written_once() {
    let disk = StrictVfs::new();
    let db = open(&disk, options());
    let before = disk.total_bytes();
    for number in 0..500 {
        db.put(&key(number), &[number as u8; 5_000]).expect("put");
    }
    db.flush().expect("flush");
    db.default_keyspace().compact_range(None, None).expect("compact");
    let (stats, user) = (db.stats(), 500 * 5_008);
    assert_eq!(stats.keyspaces[0].user_bytes_written, user);
    let levels = &stats.keyspaces[0].levels;
    let tables: u64 = levels.iter().map(|level| level.bytes_written).sum();
    let written = stats.writes.wal_bytes + tables;
    assert!(written < user + user / 20, "{written} bytes written for {user}");
    let grown = disk.total_bytes() - before;
    assert!(grown < user + user / 10, "the disk grew by {grown} bytes for {user}");
}

#[test]
fn values_that_are_loaded_in_bulk_stand_apart_too() {
    let disk = StrictVfs::new();
    let db = open(&disk, options());
    let (mut model, mut random) = (Model::new(), Random(21));
    let mut ingest = db.default_keyspace().ingest().expect("ingest");
    for number in 0..200 {
        let value = value(&mut random);
        ingest.put(&key(number), &value).expect("put");
        model.insert(key(number), value);
    }
    assert_eq!(ingest.finish().expect("finish"), 200);
    assert_holds(&db, &model, None);
    assert!(bytes_of(&disk, ".val") > 100_000);
    let mut ingest = db.default_keyspace().ingest().expect("ingest");
    ingest.put(&key(900), &[7; 9_000]).expect("put");
    drop(ingest);
    for _ in 0..300 {
        change(&db, &mut model, &mut random, 200);
    }
    db.flush().expect("flush");
    db.default_keyspace().compact_range(None, None).expect("compact");
    db.collect_values(0.0, |_| true).expect("collect");
    assert_holds(&db, &model, None);
    assert_sound(&db);
    db.checkpoint("/copy").expect("checkpoint");
    db.close().expect("close");
    let copy = Db::open_with("/copy", options(), setup(&disk)).expect("open");
    assert_holds(&copy, &model, None);
    assert_sound(&copy);
}

/// A store whose values stand in a file of moved ones and in logs, closed.
fn closed_store(disk: &StrictVfs) -> Model {
    let db = open(disk, options());
    let (mut model, mut random) = (Model::new(), Random(31));
    for _ in 0..400 {
        change(&db, &mut model, &mut random, 150);
    }
    db.flush().expect("flush");
    db.default_keyspace().compact_range(None, None).expect("compact");
    db.collect_values(0.0, |_| true).expect("collect");
    for _ in 0..100 {
        change(&db, &mut model, &mut random, 150);
    }
    db.flush().expect("flush");
    db.close().expect("close");
    model
}

fn repaired(disk: &StrictVfs) -> esker::repair::RepairReport {
    esker::repair::repair(Path::new(DIR), &options(), setup(disk), |_| true).expect("repair")
}

#[test]
fn a_damaged_value_is_told_of_and_repair_leaves_its_record_out() {
    let disk = StrictVfs::new();
    let mut model = closed_store(&disk);
    let name = disk.file_names(Path::new(DIR)).into_iter().find(|name| name.ends_with(".val"));
    let path = Path::new(DIR).join(name.expect("a file of moved values"));
    let mut bytes = disk.read_file(&path).expect("read");
    bytes[2_000] ^= 1;
    disk.write_file(&path, &bytes).expect("write");
    let db = open(&disk, options());
    let damage = db.verify(|_| true).expect("verify").damage;
    assert!(damage.iter().any(|(file, _)| *file == path), "{damage:?}");
    let unreadable = |key: &Vec<u8>| db.get(key).is_err();
    let lost: Vec<Vec<u8>> = model.keys().filter(|key| unreadable(key)).cloned().collect();
    assert_eq!(lost.len(), 1, "a value fails, and no other");
    let refused = db.get(&lost[0]).expect_err("damaged");
    assert!(matches!(refused, esker::Error::Corruption { .. }), "{refused}");
    assert!(refused.to_string().contains(".val"), "{refused}");
    db.close().expect("close");
    let report = repaired(&disk);
    assert!(!report.is_complete(), "{report}");
    assert!(report.to_string().contains("values cannot be read"), "{report}");
    model.remove(&lost[0]);
    let db = open(&disk, options());
    assert_holds(&db, &model, None);
    assert_sound(&db);
}

/// A log whose sync failed is read again by the next open, from memory: what tables then point to
/// in it has to be written anew, or the next power cut takes it.
#[test]
fn values_of_a_log_that_could_not_be_synced_become_durable_when_it_is_taken_over() {
    let disk = StrictVfs::new();
    let vfs = FaultyVfs::with_lasting_lies(Arc::new(disk.clone()));
    let open = |memtable_bytes| {
        let mut options = Options { value_log_file_bytes: 8 << 20, ..options() };
        options.default_keyspace.memtable_bytes = memtable_bytes;
        Db::open_with(DIR, options, setup_on(Arc::new(vfs.clone()), 3)).expect("open")
    };
    let value = |nth: u64| vec![nth as u8; 200];
    let db = open(1 << 20);
    for nth in 0..1_500 {
        db.put(&key(nth), &value(nth)).expect("put");
    }
    let log = |path: &Path| path.extension().is_some_and(|ending| ending == "wal");
    vfs.inject(FaultRule::nth(1, &[Op::Sync], Fault::Eio).on(log));
    assert!(db.sync().is_err() && vfs.faults_fired() == 1);
    assert!(db.close().is_err());
    vfs.heal();
    // More than a memtable holds, so that it becomes tables.
    let db = open(64 << 10);
    db.flush().expect("flush");
    db.close().expect("close");
    let disk = disk.crash(Survival::None, 1);
    let db = Db::open_with(DIR, options(), setup(&disk)).expect("open");
    for nth in 0..1_500 {
        assert!(db.get(&key(nth)).expect("get").is_some_and(|found| *found == *value(nth)));
    }
    assert_sound(&db);
}

/// The header says nothing that the manifest does not know.
#[test]
fn a_damaged_header_of_a_file_with_values_costs_no_value() {
    let whole = StrictVfs::new();
    let model = closed_store(&whole);
    let names = whole.file_names(Path::new(DIR)).into_iter();
    let holders = names.filter(|name| name.ends_with(".val") || name.ends_with(".wal"));
    let mut moved = 0;
    for name in holders {
        for byte in (0..40).step_by(3) {
            let disk = whole.deep_copy();
            let path = Path::new(DIR).join(&name);
            disk.flip_bit(&path, 8 * byte + 2).expect("flip");
            let report = repaired(&disk);
            moved += u64::from(report.to_string().contains("its values that can be read stand in"));
            let db = open(&disk, options());
            assert_holds(&db, &model, None);
            assert_sound(&db);
        }
    }
    assert!(moved > 20, "{moved} files were moved");
}

/// Only a rebuild helps then.
fn lose_manifests(disk: &StrictVfs) {
    for name in disk.file_names(Path::new(DIR)) {
        if name == "CURRENT" || name.starts_with("MANIFEST") {
            disk.remove(&Path::new(DIR).join(name)).expect("remove");
        }
    }
}

/// Tables have forgotten how old their records are, and what was deleted; logs that are kept for
/// their values have not.
#[test]
fn without_a_manifest_logs_that_are_kept_for_their_values_say_nothing_of_what_was_in_tables() {
    let disk = StrictVfs::new();
    let db = open(&disk, options());
    for nth in 0..40 {
        db.put(&key(nth), &[nth as u8; 9_000]).expect("put");
    }
    for nth in 0..10 {
        db.delete(&key(nth)).expect("delete");
    }
    // Two runs, so that they are merged and not moved.
    db.flush().expect("flush");
    for nth in 0..5 {
        db.put(&key(nth), b"again").expect("put");
    }
    db.flush().expect("flush");
    db.default_keyspace().compact_range(None, None).expect("compact");
    db.close().expect("close");
    let is_kept = |name: &String| name.ends_with(".wal");
    let logs = disk.file_names(Path::new(DIR)).into_iter().filter(is_kept).count();
    assert!(logs > 1, "one is kept, another is in use");
    // What a rebuild makes says it too.
    for _ in 0..2 {
        lose_manifests(&disk);
        repaired(&disk);
        let db = open(&disk, options());
        for nth in 0..40 {
            let found = db.get(&key(nth)).expect("get");
            let wanted = match nth {
                0..5 => Some(b"again".to_vec()),
                5..10 => None,
                _ => Some(vec![nth as u8; 9_000]),
            };
            assert!(found.as_deref() == wanted.as_deref(), "{nth}: {:?}", found.map(|v| v.len()));
        }
        db.close().expect("close");
    }
}

/// What was deleted and is gone from all tables may stand in a log that is kept for other values.
#[test]
fn a_rebuild_brings_back_nothing_from_a_log_that_is_kept_for_its_values() {
    let disk = StrictVfs::new();
    let db = open(&disk, options());
    for nth in 0..40 {
        db.put(&key(nth), &[nth as u8; 9_000]).expect("put");
    }
    db.flush().expect("flush");
    for nth in 0..10 {
        db.delete(&key(nth)).expect("delete");
    }
    db.flush().expect("flush");
    db.default_keyspace().compact_range(None, None).expect("compact");
    db.close().expect("close");
    let of = |name: &String, start: &str| name.starts_with(start);
    let names = disk.file_names(Path::new(DIR));
    assert!(names.iter().any(|name| name.ends_with(".wal")), "{names:?}");
    let manifest = names.iter().find(|name| of(name, "MANIFEST")).expect("a manifest");
    // One edit cannot be read, so that the others make no whole.
    let path = Path::new(DIR).join(manifest);
    let bytes = disk.read_file(&path).expect("read");
    // What a crash left of a collection is no loss.
    disk.write_file(&Path::new(DIR).join("000999.val"), &[7; 5_000]).expect("write");
    let (mut total, mut none_back) = (0, 0);
    for at in (40..bytes.len()).step_by(7) {
        let disk = disk.deep_copy();
        disk.flip_bit(&path, 8 * at as u64).expect("flip");
        let report = repaired(&disk);
        if report.structure != esker::repair::Structure::Rebuilt {
            continue;
        }
        let db = open(&disk, options());
        assert_sound(&db);
        let back = (0..10).filter(|&nth| db.get(&key(nth)).expect("get").is_some()).count();
        none_back += u64::from(back == 0);
        let kept = (10..40).filter(|&nth| db.get(&key(nth)).expect("get").is_some()).count();
        assert_eq!(kept, 30, "byte {at}: {report}");
        total += 1;
    }
    // The edit that is damaged may be the one that says which tables were replaced.
    assert!(total > 100 && none_back * 2 > total, "{none_back} of {total}");
}

/// Logs that a repair has read and could not remove are in nobody's way.
#[test]
fn logs_that_stay_after_a_repair_hold_nothing() {
    let disk = StrictVfs::new();
    let mut model = closed_store(&disk);
    let db = open(&disk, options());
    db.put(b"last", b"in a log").expect("put");
    model.insert(b"last".to_vec(), b"in a log".to_vec());
    db.close().expect("close");
    lose_manifests(&disk);
    let faulty = FaultyVfs::new(Arc::new(disk.clone()));
    let is_log = |path: &Path| path.extension().is_some_and(|ending| ending == "wal");
    faulty.inject(FaultRule::nth(1, &[Op::Remove], Fault::Eio).from_then_on().on(is_log));
    let setup = setup_on(Arc::new(faulty.clone()), 9);
    esker::repair::repair(Path::new(DIR), &options(), setup, |_| true).expect("repair");
    assert!(faulty.faults_fired() > 0);
    let db = open(&disk, options());
    for (key, value) in &model {
        assert!(db.get(key).expect("get").as_deref() == Some(&value[..]));
    }
    assert_sound(&db);
}

#[test]
fn a_store_without_its_manifest_gets_its_values_back() {
    let disk = StrictVfs::new();
    let model = closed_store(&disk);
    lose_manifests(&disk);
    let report = repaired(&disk);
    let db = open(&disk, options());
    for (key, value) in &model {
        let found = db.get(key).expect("get");
        assert!(found.as_deref() == Some(&value[..]), "{}: {report}", key.escape_ascii());
    }
    assert_sound(&db);
}

/// A file with a damaged value that is needed keeps its space. It keeps nobody from writing, nor
/// from collecting the others.
#[test]
fn a_damaged_value_stops_neither_writers_nor_the_collection_of_other_files() {
    let disk = StrictVfs::new();
    let options = || Options { value_log_file_bytes: 64 << 10, ..options() };
    let db = open(&disk, options());
    let put = |db: &Db, nth: u64| db.put(&key(nth), &[nth as u8; 1_000]).expect("put");
    (0..1_000).for_each(|nth| put(&db, nth));
    db.flush().expect("flush");
    db.default_keyspace().compact_range(None, None).expect("compact");
    db.close().expect("close");
    let is_holder = |name: &String| name.ends_with(".val") || name.ends_with(".wal");
    let oldest = disk.file_names(Path::new(DIR)).into_iter().find(is_holder).expect("a file");
    let path = Path::new(DIR).join(oldest);
    let mut bytes = disk.read_file(&path).expect("read");
    bytes[2_000] ^= 1;
    disk.write_file(&path, &bytes).expect("write");
    let db = open(&disk, options());
    let unreadable: Vec<u64> = (0..1_000).filter(|&nth| db.get(&key(nth)).is_err()).collect();
    assert_eq!(unreadable.len(), 1);
    // Collected in the background, again and again; every seventh key is never written anew.
    for _ in 0..6 {
        for nth in (0..1_000).filter(|nth| nth % 7 != unreadable[0] % 7) {
            put(&db, nth);
        }
    }
    db.flush().expect("it takes writes");
    db.default_keyspace().compact_range(None, None).expect("compact");
    let refused = db.collect_values(0.0, |_| true).expect_err("a value cannot be read");
    assert!(refused.is_corruption() && refused.to_string().contains(&*path.to_string_lossy()));
    let live = 1_000 * 1_009;
    let bytes = bytes_of(&disk, ".val") + bytes_of(&disk, ".wal");
    assert!(bytes < live * 3 / 2, "all but one were collected: {bytes} bytes, {live} alive");
    for nth in (0..1_000).filter(|nth| *nth != unreadable[0]) {
        assert!(db.get(&key(nth)).expect("get").is_some());
    }
    db.delete(&key(unreadable[0])).expect("delete");
    db.flush().expect("flush");
    db.default_keyspace().compact_range(None, None).expect("compact");
    db.collect_values(0.0, |_| true).expect("nobody needs it any more");
    assert_sound(&db);
    db.close().expect("close");
}

/// What stands apart takes no memory, and is no reason to flush.
#[test]
fn values_larger_than_memtables_may_be_do_not_flush_them() {
    let disk = StrictVfs::new();
    let flushes = Arc::new(AtomicU64::new(0));
    let counted = flushes.clone();
    let listener = move |event: &esker::event::Event| {
        let is_flush = matches!(event, esker::event::Event::Flushed { .. });
        counted.fetch_add(u64::from(is_flush), Ordering::Relaxed);
    };
    let options = Options {
        memory_budget_bytes: 8 << 20,
        memtables_bytes_max: 1 << 20,
        value_log_file_bytes: 1 << 30,
        ..options()
    };
    let setup = esker::Setup { listener: Some(Arc::new(listener)), ..setup(&disk) };
    let db = Db::open_with(DIR, options, setup).expect("open");
    for nth in 0..20 {
        db.put(&key(nth), &vec![nth as u8; 2 << 20]).expect("put");
    }
    assert!(flushes.load(Ordering::Relaxed) < 8, "{flushes:?} for 20 records");
    db.close().expect("close");
}

/// However values died: the space comes back though nobody writes any more.
#[test]
fn the_space_of_dead_values_comes_back_in_an_idle_store() {
    for compaction in [Compaction::Leveled, Compaction::Tiered] {
        for way in ["delete", "delete a range", "overwrite by small ones", "nothing"] {
            let disk = StrictVfs::new();
            let mut options = Options { value_log_file_bytes: 64 << 10, ..options() };
            options.default_keyspace.compaction = compaction;
            let db = open(&disk, options);
            (0..3_000).for_each(|nth| db.put(&key(nth), &[nth as u8; 1_000]).expect("put"));
            db.flush().expect("flush");
            db.wait_idle().expect("idle");
            let taken = || bytes_of(&disk, ".val") + bytes_of(&disk, ".wal");
            let before = taken();
            assert!(before > 3_000_000, "{before}");
            match way {
                "delete" => (0..3_000).for_each(|nth| db.delete(&key(nth)).expect("delete")),
                "delete a range" => db.delete_range(&key(0), &key(3_000)).expect("delete"),
                "nothing" => {}
                _ => (0..3_000).for_each(|nth| db.put(&key(nth), b"small").expect("put")),
            }
            db.flush().expect("flush");
            db.wait_idle().expect("idle");
            let (after, was_dead) = (taken(), way != "nothing");
            assert_eq!(after < before / 3, was_dead, "{compaction:?}, {way}: {before}, {after}");
            assert_sound(&db);
            db.close().expect("close");
        }
    }
}

/// Files that are made meanwhile are for the next call.
#[test]
fn a_collection_by_hand_ends_though_somebody_goes_on_overwriting() {
    let disk = StrictVfs::new();
    let options =
        Options { value_log_space_amp_max: 50.0, value_log_file_bytes: 64 << 10, ..options() };
    let db = open(&disk, options);
    let put = |nth: u64| db.put(&key(nth), &[nth as u8; 1_000]).expect("put");
    let settle = || {
        db.flush().expect("flush");
        db.default_keyspace().compact_range(None, None).expect("compact");
    };
    (0..500).for_each(put);
    (0..500).filter(|nth| nth % 2 == 0).for_each(put);
    settle();
    let mut calls = 0;
    let report = db.collect_values(0.0, |_| {
        calls += 1;
        (0..500).filter(|nth| nth % 5 == calls % 5).for_each(put);
        settle();
        calls < 100
    });
    assert!(calls > 3, "{calls}");
    report.expect("it ends");
}

/// What a collection had made when the power failed: parts of it are on the disk, and nobody names
/// it yet.
#[test]
fn a_repair_does_not_take_a_torn_file_for_the_sound_one() {
    use esker::base::Vfs;
    let disk = StrictVfs::new();
    let db = open(&disk, options());
    let mut model = Model::new();
    for nth in 0..400 {
        let value = vec![nth as u8; 1_000];
        db.put(&key(nth), &value).expect("put");
        model.insert(key(nth), value);
    }
    db.flush().expect("flush");
    for nth in (0..400).filter(|nth| nth % 3 == 0) {
        db.delete(&key(nth)).expect("delete");
        model.remove(&key(nth));
    }
    db.flush().expect("flush");
    db.default_keyspace().compact_range(None, None).expect("compact");
    let before = disk.deep_copy();
    db.collect_values(0.0, |_| true).expect("collect");
    db.close().expect("close");
    let known = before.file_names(Path::new(DIR));
    let is_made = |name: &String| name.ends_with(".val") && !known.contains(name);
    let made: Vec<String> = disk.file_names(Path::new(DIR)).into_iter().filter(is_made).collect();
    assert!(!made.is_empty());
    for name in &made {
        let path = Path::new(DIR).join(name);
        let mut bytes = disk.read_file(&path).expect("read");
        let middle = bytes.len() / 2;
        bytes[middle..middle + 3_000].fill(0);
        let mut file = before.create(&path).expect("create");
        file.append(&bytes).expect("append");
        file.finish().expect("finish");
    }
    let report = repaired(&before);
    assert!(report.is_complete(), "{report}");
    let db = open(&before, options());
    assert_holds(&db, &model, None);
    assert_sound(&db);
}

#[test]
fn a_missing_file_of_values_is_told_of_at_open_and_repair_goes_on_without() {
    let disk = StrictVfs::new();
    let model = closed_store(&disk);
    let names = disk.file_names(Path::new(DIR)).into_iter();
    let path = names.filter(|name| name.ends_with(".val")).map(|n| Path::new(DIR).join(n)).next();
    esker::base::Vfs::remove(&disk, &path.expect("one")).expect("remove");
    let refused = Db::open_with(DIR, options(), setup(&disk)).expect_err("a file is missing");
    assert!(refused.to_string().contains("file with values is missing"), "{refused}");
    assert!(!repaired(&disk).is_complete());
    let db = open(&disk, options());
    assert_sound(&db);
    let small = model.iter().filter(|(_, value)| value.len() < 100);
    for (key, value) in small {
        assert!(db.get(key).expect("get").as_deref() == Some(&value[..]));
    }
}

#[test]
fn a_batch_of_a_user_holds_no_pointers() {
    use esker::base::Kind;
    use esker::base::batch::BatchOp;
    let disk = StrictVfs::new();
    let db = open(&disk, options());
    let mut batch = esker::Batch::new();
    let op = BatchOp {
        keyspace: esker::KeyspaceId::DEFAULT,
        kind: Kind::PutPointer,
        key: b"key",
        value: b"\x01\x28\x05",
    };
    batch.push_op(&op);
    let refused = db.write(batch, esker::WriteOptions::default()).expect_err("a pointer");
    assert!(matches!(refused, esker::Error::InvalidArgument { .. }), "{refused}");
}

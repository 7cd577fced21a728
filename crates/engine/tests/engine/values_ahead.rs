//! Values that stand apart are read ahead of a cursor, by threads too, and nobody notices.

use super::support::{DIR, Model, Random};
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::StrictVfs;
use esker::base::{Env, Vfs};
use esker::{Cursor, Db, Error, KeyspaceOptions, Options, ScanOptions, Setup};
use std::path::Path;
use std::sync::Arc;

/// With threads, and values of 100 bytes and more apart.
fn open(disk: &Arc<dyn Vfs>) -> Db {
    let options = Options {
        memory_budget_bytes: 64 << 20,
        default_keyspace: KeyspaceOptions {
            value_log_bytes_min: Some(100),
            memtable_bytes: 256 << 10,
            block_bytes: 1 << 10,
            ..KeyspaceOptions::default()
        },
        ..Options::default()
    };
    let env = Env::with_vfs(disk.clone(), 7);
    let setup = Setup { env, listener: None, inline_background: false, ..Setup::default() };
    Db::open_with(DIR, options, setup).expect("open")
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// Values of all kinds: beside the key, short and long, some longer than a window, some that expand
/// to much more than they take.
fn value(random: &mut Random) -> Vec<u8> {
    let (len, noise) = match random.below(40) {
        0 => (300_000 + random.below(400_000), true),
        1 => (300_000, false),
        2..5 => (30_000 + random.below(30_000), false),
        5..10 => (random.below(100), true),
        _ => (100 + random.below(3_000), true),
    };
    let mut bytes = vec![b'a' + random.below(26) as u8; len as usize];
    if noise {
        bytes.iter_mut().for_each(|byte| *byte = random.below(256) as u8);
    }
    bytes
}

/// A store of many values written in no order, some again, and some deleted.
fn filled(db: &Db, random: &mut Random) -> Model {
    let mut model = Model::new();
    for _ in 0..2_500 {
        let key = key(random.below(2_000));
        if random.below(10) == 0 {
            db.delete(&key).expect("delete");
            model.remove(&key);
        } else {
            let value = value(random);
            db.put(&key, &value).expect("put");
            model.insert(key, value);
        }
    }
    model
}

fn cursor(db: &Db) -> Cursor {
    db.default_keyspace().scan(&ScanOptions::default()).expect("cursor")
}

#[track_caller]
fn assert_stands(cursor: &Cursor, model: &[(&Vec<u8>, &Vec<u8>)], at: Option<usize>) {
    assert_eq!(cursor.valid(), at.is_some());
    if let Some(at) = at {
        let (key, value) = model[at];
        assert_eq!(cursor.key().escape_ascii().to_string(), key.escape_ascii().to_string());
        assert!(cursor.value() == value, "value of {}", key.escape_ascii());
    }
}

#[test]
fn a_cursor_goes_wherever_it_is_sent_while_values_are_read_ahead() {
    let disk: Arc<dyn Vfs> = Arc::new(StrictVfs::new());
    let db = open(&disk);
    let mut random = Random(1);
    let model = filled(&db, &mut random);
    let pairs: Vec<_> = model.iter().collect();
    let mut walks: Vec<_> = (0..3).map(|_| (cursor(&db), None)).collect();
    for step in 0..600 {
        let nth = random.below(3) as usize;
        let (cursor, at) = &mut walks[nth];
        match random.below(10) {
            0 => {
                let to = random.below(2_000);
                cursor.seek(&key(to)).expect("seek");
                *at = Some(pairs.partition_point(|(k, _)| **k < key(to)));
                *at = at.filter(|at| *at < pairs.len());
                assert_stands(cursor, &pairs, *at);
            }
            1 => {
                for _ in 0..random.below(20) {
                    cursor.prev().expect("prev");
                    *at = at.and_then(|at| at.checked_sub(1));
                    assert_stands(cursor, &pairs, *at);
                }
            }
            2 if step % 7 == 0 => {
                // Collected and compacted, away from under the cursors.
                db.default_keyspace().compact_range(None, None).expect("compact");
            }
            _ => {
                for _ in 0..random.below(200) {
                    cursor.next().expect("next");
                    *at = at.map(|at| at + 1).filter(|at| *at < pairs.len());
                    assert_stands(cursor, &pairs, *at);
                }
            }
        }
    }
}

#[test]
fn a_cursor_reads_on_when_the_store_is_closed() {
    let disk: Arc<dyn Vfs> = Arc::new(StrictVfs::new());
    let db = open(&disk);
    let model = filled(&db, &mut Random(2));
    let mut cursor = cursor(&db);
    cursor.seek_to_first().expect("seek");
    let mut db = Some(db);
    for (nth, (key, value)) in model.iter().enumerate() {
        if nth == model.len() / 2
            && let Some(db) = db.take()
        {
            db.close().expect("close");
        }
        assert!(cursor.key() == key && cursor.value() == value, "{}", key.escape_ascii());
        cursor.next().expect("next");
    }
    assert!(!cursor.valid());
}

#[test]
fn what_failed_ahead_of_time_is_read_again_and_what_fails_then_is_told_at_its_key() {
    let faults = Arc::new(FaultyVfs::new(Arc::new(StrictVfs::new())));
    let disk: Arc<dyn Vfs> = faults.clone();
    let db = open(&disk);
    let model = filled(&db, &mut Random(3));
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    let pairs: Vec<_> = model.iter().collect();
    let mut told = 0;
    for nth in [1, 3, 7, 20, 60, 200] {
        for lasting in [false, true] {
            faults.heal();
            let mut cursor = cursor(&db);
            cursor.seek_to_first().expect("seek");
            let rule = FaultRule::nth(nth, &[Op::Read], Fault::Eio);
            faults.inject(if lasting { rule.from_then_on() } else { rule });
            let mut at = 0;
            let failed = loop {
                match cursor.next() {
                    Err(error) => break Some(error),
                    Ok(()) if !cursor.valid() => break None,
                    Ok(()) => at += 1,
                }
                assert_stands(&cursor, &pairs, Some(at));
            };
            faults.heal();
            if let Some(error) = failed {
                assert!(matches!(error, Error::Io { .. }), "{error}");
                assert!(!cursor.valid(), "it stands on nothing after an error");
                told += 1;
            } else {
                assert!(!lasting && at + 1 == pairs.len());
            }
            // It may be sent anywhere again.
            cursor.seek(pairs[at].0).expect("seek");
            for at in at..pairs.len() {
                assert_stands(&cursor, &pairs, Some(at));
                cursor.next().expect("next");
            }
        }
    }
    assert!((6..12).contains(&told), "{told} errors: each that lasts, and some that do not");
}

#[test]
fn keys_that_cannot_be_read_ahead_of_time_are_told_where_they_are_missing() {
    let faults = Arc::new(FaultyVfs::new(Arc::new(StrictVfs::new())));
    let disk: Arc<dyn Vfs> = faults.clone();
    let model = filled(&open(&disk), &mut Random(5));
    let pairs: Vec<_> = model.iter().collect();
    let mut told = 0;
    for nth in 1..12 {
        // Opened anew, so that its tables are read from the disk.
        let db = open(&disk);
        db.wait_idle().expect("idle");
        let mut cursor = cursor(&db);
        cursor.seek_to_first().expect("seek");
        let tables = |path: &Path| path.extension().is_some_and(|ending| ending == "tbl");
        // What fails once is read again, block by block.
        faults.inject(FaultRule::nth(nth, &[Op::Read], Fault::Eio).from_then_on().on(tables));
        let mut at = 0;
        let failed = loop {
            assert_stands(&cursor, &pairs, Some(at));
            match cursor.next() {
                Err(error) => break Some(error),
                Ok(()) if !cursor.valid() => break None,
                Ok(()) => at += 1,
            }
        };
        faults.heal();
        match failed {
            Some(error) => assert!(matches!(error, Error::Io { .. }), "{error}"),
            None => assert_eq!(at + 1, pairs.len(), "the scan ends where the keys do"),
        }
        told += u32::from(at + 1 < pairs.len());
    }
    assert!(told > 2, "{told} reads of tables failed");
}

#[test]
fn a_damaged_value_is_told_at_its_key_and_not_before() {
    let disk = StrictVfs::new();
    let shared: Arc<dyn Vfs> = Arc::new(disk.clone());
    let db = open(&shared);
    let mut random = Random(4);
    let mut noise = || (0..2_000).map(|_| random.below(256) as u8).collect::<Vec<u8>>();
    let values: Vec<Vec<u8>> = (0..600).map(|_| noise()).collect();
    // 37 has no factor in common with 600.
    for number in (0..600).map(|number| number * 37 % 600) {
        db.put(&key(number), &values[number as usize]).expect("put");
    }
    db.flush().expect("flush");
    let bad = 401;
    let names = disk.file_names(Path::new(DIR)).into_iter().filter(|name| name.ends_with(".wal"));
    let hit = names.map(|name| Path::new(DIR).join(name)).any(|path| {
        let bytes = disk.read_file(&path).expect("read");
        let needle = &values[bad][..64];
        let Some(at) = bytes.windows(64).position(|window| window == needle) else { return false };
        disk.flip_bit(&path, 8 * (at as u64 + 9)).expect("flip");
        true
    });
    assert!(hit, "the value stands in a log");
    let mut cursor = cursor(&db);
    cursor.seek_to_first().expect("seek");
    for (number, value) in values.iter().enumerate().take(bad) {
        assert!(cursor.key() == key(number as u64) && cursor.value() == value, "{number}");
        let moved = cursor.next();
        match number + 1 == bad {
            false => moved.expect("next"),
            true => assert!(matches!(moved, Err(Error::Corruption { .. })), "{moved:?}"),
        }
    }
    assert!(!cursor.valid());
    cursor.seek(&key(bad as u64 + 1)).expect("seek");
    assert!(cursor.value() == values[bad + 1]);
}

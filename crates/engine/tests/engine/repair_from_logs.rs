//! Repair takes back from logs what damaged tables have lost, and nothing of what was deleted or
//! overwritten by something that no log holds.

use super::support::{DIR, setup_on};
use esker::base::Vfs;
use esker::base::vfs::strict::StrictVfs;
use esker::fields::Record;
use esker::repair::{FileFate, RepairReport, Structure, repair};
use esker::{Compression, Db, Keyspace, KeyspaceOptions, Options};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const KEYS: u64 = 200;

fn options() -> Options {
    let default_keyspace = KeyspaceOptions {
        block_bytes: 512,
        compression: vec![Compression::None],
        ..KeyspaceOptions::default()
    };
    Options { default_keyspace, ..Options::default() }
}

fn setup(disk: &StrictVfs) -> esker::Setup {
    // No two openings draw the same salts.
    static SEED: AtomicU64 = AtomicU64::new(1);
    setup_on(Arc::new(disk.clone()), SEED.fetch_add(1, Ordering::Relaxed) << 32)
}

fn open(disk: &StrictVfs) -> Db {
    Db::open_with(DIR, options(), setup(disk)).expect("open")
}

/// A store of which another keyspace needs the first log as long as it is open.
fn pinned(disk: &StrictVfs) -> Db {
    let db = open(disk);
    let other = db.create_keyspace("other", options().default_keyspace).expect("create");
    other.put(b"pins", b"the log").expect("put");
    db
}

fn fill(keyspace: &Keyspace, prefix: &str) {
    for number in 0..KEYS {
        let key = format!("{prefix}{number:04}");
        keyspace.put(key.as_bytes(), &[number as u8; 100]).expect("put");
    }
}

fn count(db: &Db, prefix: &str) -> u64 {
    let pairs = db.default_keyspace().prefix(prefix.as_bytes()).expect("scan");
    pairs.inspect(|pair| assert!(pair.is_ok(), "{pair:?}")).count() as u64
}

/// Closes the store, damages a block in the middle of its largest table, and repairs it. What the
/// table lost comes back from a log.
fn repaired(disk: &StrictVfs, db: Db, opens: u32) -> (Db, RepairReport) {
    db.close().expect("close");
    for _ in 0..opens {
        // Small logs are copied into the new one, with what tables hold too.
        open(disk).close().expect("close");
    }
    let length = |path: &PathBuf| disk.read_file(path).expect("read").len() as u64;
    let names = disk.file_names(Path::new(DIR)).into_iter();
    let tables = names.filter(|name| name.ends_with(".tbl")).map(|name| Path::new(DIR).join(name));
    let table = tables.max_by_key(length).expect("a table");
    disk.flip_bit(&table, 8 * (length(&table) / 2)).expect("flip");
    let report = repair(Path::new(DIR), &options(), setup(disk), |_| true).expect("repair");
    assert!(report.notes.join(" ").contains("got back from logs"), "{report}");
    (open(disk), report)
}

#[test]
fn a_deleted_group_does_not_come_back() {
    for opens in 0..3 {
        for own_tables in [false, true] {
            let disk = StrictVfs::new();
            let db = pinned(&disk);
            let keyspace = db.default_keyspace();
            fill(keyspace, "g/");
            if own_tables {
                keyspace.flush().expect("flush");
            }
            fill(keyspace, "h/");
            keyspace.flush().expect("flush");
            db.delete_group(b"g/").expect("delete");
            db.wait_idle().expect("idle");
            let (db, report) = repaired(&disk, db, opens);
            let found = [count(&db, "g/"), count(&db, "h/")];
            assert_eq!(found, [0, KEYS], "{opens} opens, own {own_tables}: {report}");
        }
    }
}

/// A group that is there anew after its deletion is found as it is.
#[test]
fn a_group_that_came_again_does_not_get_older_records_back() {
    for opens in 0..3 {
        let disk = StrictVfs::new();
        let db = pinned(&disk);
        let keyspace = db.default_keyspace();
        fill(keyspace, "g/");
        fill(keyspace, "h/");
        keyspace.flush().expect("flush");
        db.delete_group(b"g/").expect("delete");
        db.wait_idle().expect("idle");
        keyspace.put(b"g/0007", b"new").expect("put");
        keyspace.flush().expect("flush");
        let (db, report) = repaired(&disk, db, opens);
        assert_eq!([count(&db, "g/"), count(&db, "h/")], [1, KEYS], "{opens} opens: {report}");
        assert_eq!(db.get(b"g/0007").expect("get").as_deref(), Some(&b"new"[..]));
    }
}

/// What was erased is told by the manifest for a while after it is forgotten; that hides nothing
/// that came later, however the store is opened.
#[test]
fn a_group_that_came_again_is_seen_whoever_opens_the_store() {
    for is_pinned in [false, true] {
        for is_closed in [false, true] {
            let disk = StrictVfs::new();
            let db = if is_pinned { pinned(&disk) } else { open(&disk) };
            let keyspace = db.default_keyspace();
            let put = |value: &[u8]| {
                keyspace.put(b"g/1", value).expect("put");
                keyspace.flush().expect("flush");
            };
            put(b"old");
            db.delete_group(b"g/").expect("delete");
            put(b"new");
            put(b"newest");
            keyspace.compact_range(None, None).expect("compact");
            let killed = disk.deep_copy();
            let disk = match is_closed {
                true => {
                    db.close().expect("close");
                    disk
                }
                false => killed,
            };
            let check = |db: &Db, how: &str| {
                let what = format!("{how}, pinned {is_pinned}, closed {is_closed}");
                assert_eq!(db.get(b"g/1").expect("get").as_deref(), Some(&b"newest"[..]), "{what}");
                assert_eq!(count(db, "g/"), 1, "{what}");
            };
            check(
                &Db::open_read_only_with(DIR, options(), setup(&disk)).expect("open"),
                "to be read",
            );
            for nth in 0..3 {
                let db = open(&disk);
                check(&db, &format!("open {nth}"));
                db.close().expect("close");
            }
        }
    }
}

#[test]
fn what_was_loaded_in_bulk_is_not_overwritten_by_older_records() {
    for (opens, is_compacted_later) in [(0, false), (1, false), (0, true), (1, true)] {
        let disk = StrictVfs::new();
        let db = pinned(&disk);
        let keyspace = db.default_keyspace();
        keyspace.put(b"a", b"old").expect("put");
        keyspace.put(b"b", b"old").expect("put");
        keyspace.delete(b"b").expect("delete");
        fill(keyspace, "m");
        keyspace.flush().expect("flush");
        let mut load = keyspace.ingest().expect("ingest");
        for key in [b"a", b"b"] {
            load.put(key, b"loaded").expect("put");
        }
        load.finish().expect("finish");
        keyspace.put(b"a0", b"between").expect("put");
        keyspace.flush().expect("flush");
        let db = match is_compacted_later {
            false => db,
            true => {
                db.close().expect("close");
                open(&disk)
            }
        };
        db.default_keyspace().compact_range(None, None).expect("compact");
        let (db, report) = repaired(&disk, db, opens);
        for key in [b"a", b"b"] {
            let found = db.get(key).expect("get");
            assert_eq!(found.as_deref(), Some(&b"loaded"[..]), "{opens} opens: {report}");
        }
        assert_eq!(count(&db, "m"), KEYS, "{report}");
    }
}

/// A keyspace of which logs hold nothing needs not tell of what was erased in it, and others tell
/// of the newest time.
#[test]
fn the_manifest_does_not_grow_with_each_deletion() {
    let options = Options { manifest_bytes_max: 4 << 10, ..options() };
    let disk = StrictVfs::new();
    let db = Db::open_with(DIR, options, setup(&disk)).expect("open");
    let other = db.create_keyspace("other", KeyspaceOptions::default()).expect("create");
    other.put(b"pins", b"the log").expect("put");
    let longest_manifest = || {
        let names = disk.file_names(Path::new(DIR)).into_iter();
        let manifests = names.filter(|name| name.starts_with("MANIFEST"));
        let bytes = manifests.map(|name| disk.read_file(&Path::new(DIR).join(name)).expect("read"));
        // Space is set aside behind the last edit.
        let used = bytes.map(|bytes| bytes.iter().rposition(|&byte| byte != 0).unwrap_or(0));
        used.max().expect("a manifest")
    };
    for is_logged in [false, true] {
        if is_logged {
            db.put(b"g/1", b"v").expect("put");
            db.default_keyspace().flush().expect("flush");
        }
        for _ in 0..2000 {
            db.delete_group(b"g/").expect("delete");
            assert!(longest_manifest() < 8 << 10, "{is_logged}: {} bytes", longest_manifest());
        }
    }
}

/// Nothing of a keyspace is lost with a table of an index, so that what logs are kept for, their
/// values, is not taken for newer than what was loaded in bulk over it.
#[test]
fn a_lost_table_of_an_index_has_no_log_read_again() {
    let options = || Options {
        default_keyspace: KeyspaceOptions {
            value_log_bytes_min: Some(64),
            ..options().default_keyspace
        },
        ..options()
    };
    let disk = StrictVfs::new();
    let db = Db::open_with(DIR, options(), setup(&disk)).expect("open");
    let goods = db.create_keyspace("goods", options().default_keyspace).expect("create");
    goods.create_index("price").expect("create");
    let put = |key: &[u8], byte: u8| db.put(key, &[byte; 500]).expect("put");
    put(b"key", 1);
    put(b"keeps the log", 1);
    db.flush().expect("flush");
    let mut load = db.default_keyspace().ingest().expect("ingest");
    load.put(b"key", &[2; 500]).expect("put");
    load.finish().expect("finish");
    put(b"more", 3);
    goods.put_record(b"apple", &Record::new().with("price", 7_i64)).expect("put");
    db.flush().expect("flush");
    db.default_keyspace().compact_range(None, None).expect("compact");
    drop(goods);
    db.close().expect("close");
    // No manifest is whole, and its edits are there.
    disk.remove(&Path::new(DIR).join("CURRENT")).expect("remove");
    let names = disk.file_names(Path::new(DIR));
    let manifest = names.iter().find(|name| name.starts_with("MANIFEST")).expect("a manifest");
    disk.flip_bit(&Path::new(DIR).join(manifest), 60 * 8).expect("flip");
    let of_index = {
        let copy = disk.deep_copy();
        let report = repair(Path::new(DIR), &options(), setup(&copy), |_| true).expect("repair");
        assert_eq!(report.structure, Structure::Rebuilt, "{report}");
        let held = report.files.iter().find(|file| file.reason.contains("held an index"));
        held.unwrap_or_else(|| panic!("{report}")).file.clone()
    };
    disk.remove(&Path::new(DIR).join(&of_index)).expect("remove");
    let report = repair(Path::new(DIR), &options(), setup(&disk), |_| true).expect("repair");
    let told = report.files.iter().find(|file| file.file == of_index).expect("it is told of");
    assert_eq!(told.fate, FileFate::Unneeded, "{report}");
    let db = Db::open_with(DIR, options(), setup(&disk)).expect("open");
    assert_eq!(db.get(b"key").expect("get").as_deref(), Some(&[2; 500][..]), "{report}");
    assert_eq!(db.get(b"more").expect("get").as_deref(), Some(&[3; 500][..]), "{report}");
}

//! Repairs that do not know the order of a keyspace: it is skipped, and the store opens all the
//! same for whoever knows it.

use crate::support::{DIR, backwards, setup, setup_on};
use crate::values::options as values_apart;
use esker::base::Vfs;
use esker::base::vfs::faulty::FaultyVfs;
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::repair::{RepairReport, repair};
use esker::{Db, KeyspaceOptions, Options};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// With the order of the keyspace "odd".
fn knowing(options: Options) -> Options {
    let odd = KeyspaceOptions { order: backwards(), ..options.default_keyspace.clone() };
    Options { keyspaces: [("odd".to_owned(), odd)].into(), ..options }
}

/// A new store with the keyspace "odd".
fn created(disk: &StrictVfs, options: &Options) -> Db {
    let db = open(disk, options);
    db.create_keyspace("odd", options.keyspaces["odd"].clone()).expect("create");
    db.put(b"here", b"1").expect("put");
    db
}

fn open(disk: &StrictVfs, options: &Options) -> Db {
    Db::open_with(DIR, options.clone(), setup(disk)).expect("open")
}

/// Without knowing it.
fn repaired(disk: &StrictVfs, options: &Options) -> RepairReport {
    let unknowing = Options { keyspaces: Options::default().keyspaces, ..options.clone() };
    repair(Path::new(DIR), &unknowing, setup(disk), |_| true).expect("repair")
}

fn file(disk: &StrictVfs, ending: &str) -> PathBuf {
    let name = disk.file_names(Path::new(DIR)).into_iter().find(|name| name.ends_with(ending));
    Path::new(DIR).join(name.expect("a file"))
}

#[test]
fn what_it_points_to_stays_though_none_of_it_can_be_read() {
    let disk = StrictVfs::new();
    let options = knowing(values_apart());
    let db = created(&disk, &options);
    db.keyspace("odd").expect("keyspace").put(b"key", &[7; 5_000]).expect("put");
    db.flush().expect("flush");
    db.close().expect("close");
    let names = disk.file_names(Path::new(DIR)).into_iter();
    for name in names.filter(|name| name.ends_with(".wal")) {
        let path = Path::new(DIR).join(name);
        if disk.read_file(&path).expect("read").len() > 5_000 {
            disk.flip_bit(&path, 8 * 1_000).expect("flip");
        }
    }
    assert!(!repaired(&disk, &options).is_complete());
    let db = open(&disk, &options);
    let refused = db.keyspace("odd").expect("keyspace").get(b"key");
    assert!(refused.is_err_and(|error| error.is_corruption()), "the value is damaged");
    db.close().expect("close");
}

/// Its only value stands in a file of values.
fn with_a_value_of_its_own(disk: &StrictVfs, options: &Options) -> PathBuf {
    let db = created(disk, options);
    let mut ingest = db.keyspace("odd").expect("keyspace").ingest().expect("ingest");
    ingest.put(b"key", &[7; 5_000]).expect("put");
    ingest.finish().expect("finish");
    db.close().expect("close");
    file(disk, ".val")
}

#[test]
fn a_file_with_its_values_may_be_gone_or_damaged() {
    let options = knowing(values_apart());
    for way in ["gone", "no value and no end", "no beginning"] {
        let disk = StrictVfs::new();
        let path = with_a_value_of_its_own(&disk, &options);
        let mut bytes = disk.read_file(&path).expect("read");
        let len = bytes.len();
        match way {
            "gone" => disk.remove(&path).expect("remove"),
            "no value and no end" => {
                (bytes[1_000], bytes[len - 12]) = (bytes[1_000] ^ 1, bytes[len - 12] ^ 1);
                disk.write_file(&path, &bytes).expect("write");
            }
            _ => {
                bytes[..60].fill(0);
                disk.write_file(&path, &bytes).expect("write");
            }
        }
        let report = repaired(&disk, &options);
        let db = open(&disk, &options);
        assert_eq!(db.get(b"here").expect("get").as_deref(), Some(&b"1"[..]), "{way}");
        let found = db.keyspace("odd").expect("keyspace").get(b"key");
        let is_whole = found.as_ref().is_ok_and(|found| found.is_some());
        assert!(is_whole || !report.is_complete(), "{way}: {found:?}\n{report}");
        db.close().expect("close");
    }
}

/// One file has values of that keyspace, none of which can be read, and of another one, which can.
#[test]
fn others_keep_their_values_of_a_file_of_both() {
    let options = knowing(values_apart());
    for way in ["no end", "longer", "shorter"] {
        let disk = StrictVfs::new();
        let db = created(&disk, &options);
        let odd = db.keyspace("odd").expect("keyspace");
        for (keyspace, byte) in [(&odd, b'o'), (db.default_keyspace(), b'd')] {
            let mut ingest = keyspace.ingest().expect("ingest");
            let mut keys = [*b"1", *b"2"];
            if keyspace.name() == "odd" {
                keys.reverse();
            }
            for key in keys {
                ingest.put(&key, &[byte; 2_000]).expect("put");
            }
            ingest.finish().expect("finish");
            keyspace.put(b"2", b"small").expect("put");
        }
        db.flush().expect("flush");
        for keyspace in [&odd, db.default_keyspace()] {
            keyspace.compact_range(None, None).expect("compact");
        }
        db.collect_values(0.0, |_| true).expect("collect");
        drop(odd);
        db.close().expect("close");
        let path = file(&disk, ".val");
        let mut bytes = disk.read_file(&path).expect("read");
        let of_odd = bytes.windows(9).position(|part| part == b"ooooooooo").expect("a value");
        assert!(bytes.windows(9).any(|part| part == b"ddddddddd"), "both stand in one file");
        bytes[of_odd] ^= 1;
        let len = bytes.len();
        match way {
            "no end" => bytes[len - 12] ^= 1,
            "longer" => bytes.resize(len + 100, 0),
            _ => bytes.truncate(len - 5),
        }
        disk.write_file(&path, &bytes).expect("write");
        let report = repaired(&disk, &options);
        let db = open(&disk, &options);
        let found = db.get(b"1").expect("it can be read");
        assert_eq!(found.as_deref(), Some(&[b'd'; 2_000][..]), "{way}: {report}");
        assert!(db.keyspace("odd").expect("keyspace").get(b"1").is_err(), "{way}");
        db.close().expect("close");
    }
}

#[test]
fn a_page_of_its_values_may_be_unreadable() {
    let disk = StrictVfs::new();
    let options = knowing(values_apart());
    let path = with_a_value_of_its_own(&disk, &options);
    disk.remove(&Path::new(DIR).join("CURRENT")).expect("remove");
    let faulty = FaultyVfs::new(Arc::new(disk.clone()));
    faulty.lose_page(&path, 0);
    let setup = setup_on(Arc::new(faulty), 9);
    repair(Path::new(DIR), &values_apart(), setup, |_| true).expect("it ends well");
    open(&disk, &options).close().expect("close");
}

/// The newer store's manifest tells of numbers that no log of the backup reaches.
#[test]
fn a_backup_may_have_been_put_over_a_newer_store() {
    let disk = StrictVfs::new();
    let options = knowing(Options::default());
    let db = created(&disk, &options);
    db.keyspace("odd").expect("keyspace").put(b"key", b"2").expect("put");
    db.close().expect("close");
    let files = |disk: &StrictVfs| -> Vec<(PathBuf, Vec<u8>)> {
        let names = disk.file_names(Path::new(DIR)).into_iter().filter(|name| name != "LOCK");
        let paths = names.map(|name| Path::new(DIR).join(name));
        paths.map(|path| (path.clone(), disk.read_file(&path).expect("read"))).collect()
    };
    let backup = files(&disk);
    let db = open(&disk, &options);
    (0..100u64).for_each(|number| db.put(&number.to_be_bytes(), b"late").expect("put"));
    db.flush().expect("flush");
    db.put(b"latest", b"3").expect("put");
    let disk = disk.crash(Survival::All, 1);
    std::mem::forget(db);
    for (path, bytes) in &backup {
        disk.write_file(path, bytes).expect("write");
    }
    let report = repaired(&disk, &options);
    let db = open(&disk, &options);
    let odd = db.keyspace("odd").expect("keyspace");
    assert_eq!(odd.get(b"key").expect("get").as_deref(), Some(&b"2"[..]), "{report}");
    assert_eq!(db.get(b"here").expect("get").as_deref(), Some(&b"1"[..]), "{report}");
    assert!(db.get(b"latest").expect("get").is_none());
    db.close().expect("close");
}

//! Directories with files of two times, as where a backup was put over a newer store, or of two
//! stores; and with links in the place of files.

use crate::support::{DIR, Model, Random, setup};
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::base::{Env, Vfs};
use esker::fields::Record;
use esker::repair::{FileFate, RepairReport, repair};
use esker::{Db, Error, FindOptions, KeyspaceOptions, Options, Setup, WriteOptions};
use std::path::Path;

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

fn options() -> Options {
    let default_keyspace =
        KeyspaceOptions { value_log_bytes_min: Some(64), ..KeyspaceOptions::default() };
    Options { default_keyspace, ..Options::default() }
}

fn open(disk: &StrictVfs, options: &Options) -> Db {
    Db::open_with(DIR, options.clone(), setup(disk)).expect("open")
}

fn mend(disk: &StrictVfs, options: &Options) -> RepairReport {
    let refused = Db::open_with(DIR, options.clone(), setup(disk)).expect_err("amiss");
    assert!(matches!(refused, Error::Corruption { .. }), "{refused}");
    repair(Path::new(DIR), options, setup(disk), |_| true).expect("repair")
}

/// Every file but the lock.
fn files(disk: &StrictVfs) -> Vec<(String, Vec<u8>)> {
    let names = disk.file_names(Path::new(DIR)).into_iter().filter(|name| name != "LOCK");
    names
        .map(|name| (name.clone(), disk.read_file(&Path::new(DIR).join(name)).expect("read")))
        .collect()
}

fn put_over(disk: &StrictVfs, files: &[(String, Vec<u8>)]) {
    for (name, bytes) in files {
        disk.write_file(&Path::new(DIR).join(name), bytes).expect("write");
    }
}

/// Brings back the tables that were there at some time, and loses the manifests: what comes of it.
fn with_tables_of_before(
    disk: &StrictVfs,
    old: Vec<(String, Vec<u8>)>,
    options: &Options,
) -> RepairReport {
    let tables: Vec<_> = old.into_iter().filter(|(name, _)| name.ends_with(".tbl")).collect();
    put_over(disk, &tables);
    for (name, _) in files(disk) {
        if name == "CURRENT" || name.starts_with("MANIFEST") {
            disk.remove(&Path::new(DIR).join(name)).expect("remove");
        }
    }
    repair(Path::new(DIR), options, setup(disk), |_| true).expect("repair")
}

fn contents(db: &Db) -> Model {
    db.iter().expect("iter").collect::<Result<_, _>>().expect("read")
}

#[test]
fn what_is_newer_than_a_backup_that_was_put_over_it_goes_to_lost() {
    let disk = StrictVfs::new();
    let options = Options::default();
    let db = open(&disk, &options);
    db.put(b"old", b"1").expect("put");
    db.close().expect("close");
    let backup = files(&disk);
    let db = open(&disk, &options);
    db.put(b"late", b"2").expect("put");
    let disk = disk.crash(Survival::All, 1);
    std::mem::forget(db);
    put_over(&disk, &backup);
    let report = mend(&disk, &options);
    let is_left = |file: &&esker::repair::FileReport| {
        file.file.ends_with(".wal") && file.fate == FileFate::Unneeded && file.moved_to.is_some()
    };
    let left = report.files.iter().find(is_left).unwrap_or_else(|| panic!("{report}"));
    let moved_to = left.moved_to.as_ref().expect("moved");
    let bytes = disk.read_file(&Path::new(DIR).join(moved_to)).expect("it is there");
    assert!(bytes.windows(4).any(|part| part == b"late"));
    assert!(report.notes.iter().any(|note| note.contains("a backup was put over")), "{report}");
    let db = open(&disk, &options);
    assert_eq!(contents(&db), Model::from([(b"old".to_vec(), b"1".to_vec())]));
    db.close().expect("close");
}

#[test]
fn values_are_found_where_a_backup_has_them() {
    let disk = StrictVfs::new();
    let options = options();
    let db = open(&disk, &options);
    let mut random = Random(5);
    let mut put = |db: &Db, number: u64| {
        let value: Vec<u8> = (0..500).map(|_| random.below(256) as u8).collect();
        db.put(&key(number), &value).expect("put");
    };
    (0..100).for_each(|number| put(&db, number));
    db.flush().expect("flush");
    let then = contents(&db);
    db.close().expect("close");
    let backup = files(&disk);
    let db = open(&disk, &options);
    (0..50).for_each(|number| put(&db, number));
    db.flush().expect("flush");
    db.default_keyspace().compact_range(None, None).expect("compact");
    db.collect_values(0.0, |_| true).expect("collect");
    put(&db, 1_000);
    let disk = disk.crash(Survival::All, 1);
    std::mem::forget(db);
    assert!(files(&disk).iter().any(|(name, _)| name.ends_with(".val")), "values were moved");
    put_over(&disk, &backup);
    mend(&disk, &options);
    let db = open(&disk, &options);
    let found = contents(&db);
    assert_eq!(found.len(), then.len());
    assert!(found == then);
    db.close().expect("close");
}

#[test]
fn a_log_of_another_store_takes_nothing_away() {
    let options = Options::default();
    let (disk, other) = (StrictVfs::new(), StrictVfs::new());
    let db = open(&disk, &options);
    (0..1_000u64).for_each(|number| db.put(&key(number), b"own").expect("put"));
    db.flush().expect("flush");
    (0..10u64).for_each(|number| db.put(&key(number), b"newer").expect("put"));
    db.sync().expect("sync");
    let own = contents(&db);
    let disk = disk.crash(Survival::All, 1);
    std::mem::forget(db);
    let db = open(&other, &options);
    for number in 0..60u64 {
        db.put(&key(number), b"stranger").expect("put");
        db.flush().expect("flush");
    }
    db.put(b"stranger", b"1").expect("put");
    let other = other.crash(Survival::All, 1);
    std::mem::forget(db);
    let logs = files(&other).into_iter().filter(|(name, bytes)| {
        name.ends_with(".wal") && bytes.windows(8).any(|part| part == b"stranger")
    });
    let (name, bytes) = logs.max().expect("a log");
    assert!(files(&disk).iter().all(|(own, _)| *own < name || !own.ends_with(".wal")));
    put_over(&disk, &[(name.clone(), bytes)]);
    let report = mend(&disk, &options);
    let said = report.files.iter().find(|file| file.file == name).expect("told of");
    assert!(said.fate == FileFate::Lost && said.moved_to.is_some(), "{report}");
    let db = open(&disk, &options);
    assert!(contents(&db) == own, "{report}");
    db.close().expect("close");
}

#[test]
fn a_keyspace_that_was_dropped_does_not_take_the_name_of_the_newer_one() {
    let disk = StrictVfs::new();
    let options = Options::default();
    let db = open(&disk, &options);
    let create = |db: &Db, value: &[u8]| {
        let users = db.create_keyspace("users", KeyspaceOptions::default()).expect("create");
        users.put(b"key", value).expect("put");
        users.flush().expect("flush");
    };
    create(&db, b"old");
    let old = files(&disk);
    db.drop_keyspace("users").expect("drop");
    create(&db, b"new");
    db.close().expect("close");
    let report = with_tables_of_before(&disk, old, &options);
    let db = open(&disk, &options);
    let names = db.keyspace_names();
    let recovered = names.iter().find(|name| name.starts_with("users-recovered-"));
    let recovered = recovered.unwrap_or_else(|| panic!("{names:?}\n{report}"));
    let get = |name: &str| db.keyspace(name).expect("there").get(b"key").expect("get");
    assert_eq!(get("users").as_deref(), Some(&b"new"[..]));
    assert_eq!(get(recovered).as_deref(), Some(&b"old"[..]));
    assert!(report.notes.iter().any(|note| note.contains("users")), "{report}");
    db.close().expect("close");
}

/// An index that was dropped and created anew is one: what a second one finds would be found twice,
/// and nobody could drop it.
#[test]
fn an_index_that_was_created_again_is_there_once() {
    let disk = StrictVfs::new();
    let options = Options::default();
    let db = open(&disk, &options);
    let put = |db: &Db, key: &[u8]| {
        let record = Record::new().with("price", 7_i64);
        db.default_keyspace().put_record(key, &record).expect("put");
        db.flush().expect("flush");
    };
    db.default_keyspace().create_index("price").expect("create");
    put(&db, b"pear");
    let old = files(&disk);
    db.default_keyspace().drop_index("price").expect("drop");
    db.default_keyspace().create_index("price").expect("create");
    put(&db, b"plum");
    db.close().expect("close");
    let report = with_tables_of_before(&disk, old, &options);
    let db = open(&disk, &options);
    let keyspace = db.default_keyspace();
    assert_eq!(keyspace.indexes().expect("list").len(), 1, "{report}");
    keyspace.wait_index("price", |_| true).expect("it is built");
    let mut found = keyspace.find("price", 7, &FindOptions::default()).expect("find");
    let mut count = 0;
    while found.advance().expect("advance") {
        count += 1;
    }
    assert_eq!(count, 2, "{report}");
    drop(found);
    keyspace.drop_index("price").expect("drop");
    assert!(keyspace.indexes().expect("list").is_empty());
    db.close().expect("close");
}

/// Files may stand elsewhere, with links in their place.
#[cfg(unix)]
#[test]
fn files_are_as_long_as_what_links_lead_to() {
    let root = std::env::temp_dir().join(format!("esker-links-{}", std::process::id()));
    let (dir, elsewhere) = (root.join("db"), root.join("elsewhere"));
    std::fs::create_dir_all(&elsewhere).expect("a directory");
    let setup = || Setup { env: Env::posix(), inline_background: true, ..Setup::default() };
    let db = Db::open_with(&dir, options(), setup()).expect("open");
    let mut batch = esker::Batch::new();
    batch.put(b"key", &[7; 1_000]);
    db.write(batch, WriteOptions::SYNC).expect("write");
    db.flush().expect("flush");
    db.close().expect("close");
    let mut moved = Vec::new();
    for entry in std::fs::read_dir(&dir).expect("list") {
        let path = entry.expect("entry").path();
        if path.extension().is_some_and(|end| end == "wal" || end == "tbl") {
            let to = elsewhere.join(path.file_name().expect("a name"));
            std::fs::rename(&path, &to).expect("move");
            std::os::unix::fs::symlink(&to, &path).expect("link");
            moved.push((std::fs::metadata(&to).expect("there").len(), to));
        }
    }
    assert!(moved.len() >= 2, "a log with values, and a table");
    let check = || {
        let db = Db::open_read_only_with(&dir, options(), setup()).expect("open");
        assert_eq!(db.get(b"key").expect("get").as_deref(), Some(&[7; 1_000][..]));
        db.close().expect("close");
    };
    check();
    let report = repair(&dir, &options(), setup(), |_| true).expect("repair");
    assert!(report.is_complete(), "{report}");
    check();
    for (bytes, path) in
        moved.iter().filter(|(_, path)| path.extension().is_some_and(|e| e == "tbl"))
    {
        assert_eq!(std::fs::metadata(path).expect("there").len(), *bytes);
    }
    std::fs::remove_dir_all(&root).expect("remove");
}

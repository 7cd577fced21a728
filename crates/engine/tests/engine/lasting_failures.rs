//! What the disk never does for one file, it does for others: whoever needs that file fails, and
//! keeps nobody else from working.

use super::support::{DIR, assert_sound, setup_on};
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::StrictVfs;
use esker::fields::Record;
use esker::{Db, FindOptions, Keyspace, KeyspaceOptions, Options, Setup};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A disk that can fail, and what is on it.
fn disk() -> (StrictVfs, FaultyVfs) {
    let strict = StrictVfs::new();
    (strict.clone(), FaultyVfs::new(Arc::new(strict)))
}

fn open(vfs: &FaultyVfs, options: Options, inline_background: bool) -> Db {
    let setup = Setup { inline_background, ..setup_on(Arc::new(vfs.clone()), 7) };
    Db::open_with(DIR, options, setup).expect("open")
}

fn tables(disk: &StrictVfs) -> BTreeSet<PathBuf> {
    let names = disk.file_names(Path::new(DIR)).into_iter();
    names.filter(|name| name.ends_with(".tbl")).map(|name| Path::new(DIR).join(name)).collect()
}

/// From now on these files cannot be read.
fn fail(vfs: &FaultyVfs, files: BTreeSet<PathBuf>) {
    let is_one = move |path: &Path| files.contains(path);
    vfs.inject(FaultRule::nth(1, &[Op::Read, Op::Open], Fault::Eio).from_then_on().on(is_one));
}

fn level0(db: &Db, name: &str) -> u64 {
    let keyspaces = db.stats().keyspaces;
    let found = keyspaces.iter().find(|keyspace| keyspace.name == name).expect("it is there");
    found.levels[0].runs
}

/// The most urgent compaction of all is that of a keyspace with a table that cannot be read.
#[test]
#[expect(clippy::disallowed_methods, reason = "threads in the background are waited for")]
fn a_table_that_cannot_be_read_keeps_no_other_keyspace_from_compacting() {
    let (strict, vfs) = disk();
    let options = || Options {
        compaction_threads: 1,
        default_keyspace: KeyspaceOptions {
            level0_runs_slow: 200,
            level0_runs_max: 300,
            ..KeyspaceOptions::default()
        },
        ..Options::default()
    };
    let flush = |keyspace: &Keyspace, round: u64| {
        for key in 0..20u64 {
            keyspace.put(&key.to_be_bytes(), &round.to_be_bytes()).expect("put");
        }
        keyspace.flush().expect("flush");
    };
    let db = open(&vfs, options(), true);
    let bad = db.create_keyspace("bad", options().default_keyspace).expect("create");
    (0..2).for_each(|round| flush(&bad, round));
    drop(bad);
    db.close().expect("close");
    fail(&vfs, tables(&strict));
    for inline in [true, false] {
        let db = open(&vfs, options(), inline);
        let good = db.default_keyspace();
        let bad = db.keyspace("bad").expect("there");
        for round in 0..30 {
            flush(&bad, round);
            flush(&bad, round);
            flush(good, round);
        }
        assert!(level0(&db, "bad") >= 50, "nothing of it can be compacted");
        // Where threads do it they may be behind.
        let wait = Duration::from_millis(if inline { 0 } else { 100 });
        for _ in 0..100 {
            if level0(&db, "default") <= 8 {
                break;
            }
            std::thread::sleep(wait);
        }
        assert!(level0(&db, "default") <= 8, "{}", level0(&db, "default"));
        assert!(vfs.faults_fired() > 0);
        drop((good, bad));
        db.close().expect("close");
    }
}

/// The index that comes first is of records that cannot be read.
#[test]
fn an_index_that_cannot_be_built_keeps_no_other_from_being_built() {
    for inline in [true, false] {
        let (strict, vfs) = disk();
        let db = open(&vfs, Options::default(), inline);
        let other = db.create_keyspace("other", KeyspaceOptions::default()).expect("create");
        let fill = |keyspace: &Keyspace| {
            for number in 0..1_000u64 {
                let record = Record::new().with("price", number as i64 % 10);
                keyspace.put_record(&number.to_be_bytes(), &record).expect("put");
            }
            keyspace.flush().expect("flush");
        };
        fill(db.default_keyspace());
        let unreadable = tables(&strict);
        assert!(!unreadable.is_empty());
        fill(&other);
        drop(other);
        db.close().expect("close");
        fail(&vfs, unreadable);
        let db = open(&vfs, Options::default(), inline);
        let (first, second) = (db.default_keyspace(), db.keyspace("other").expect("there"));
        first.create_index("price").expect("create");
        second.create_index("price").expect("create");
        second.wait_index("price", |_| true).expect("nothing is in its way");
        let mut found = second.find("price", 7, &FindOptions::default()).expect("find");
        assert!(found.advance().expect("advance"));
        drop(found);
        let refused = first.wait_index("price", |_| true).expect_err("it cannot be read");
        assert!(refused.to_string().contains(".tbl"), "{refused}");
        vfs.heal();
        first.wait_index("price", |_| true).expect("it is tried again for whoever waits");
        drop((first, second));
        db.close().expect("close");
    }
}

/// Values of a hundred bytes and more stand apart, in many files.
fn apart() -> Options {
    Options { value_log_file_bytes: 64 << 10, ..super::values::options() }
}

/// It has most dead values of all, and keeps its space. The others are collected.
#[test]
fn a_file_with_values_that_cannot_be_read_keeps_no_other_from_being_collected() {
    let key = |number: u64| format!("key{number:05}").into_bytes();
    for inline in [true, false] {
        let (strict, vfs) = disk();
        let db = open(&vfs, apart(), inline);
        let put = |db: &Db, nth: u64| db.put(&key(nth), &[nth as u8; 1_000]).expect("put");
        (0..1_000).for_each(|nth| put(&db, nth));
        db.flush().expect("flush");
        db.default_keyspace().compact_range(None, None).expect("compact");
        db.close().expect("close");
        let is_holder = |name: &String| name.ends_with(".val") || name.ends_with(".wal");
        let mut names = strict.file_names(Path::new(DIR));
        names.sort();
        let oldest = Path::new(DIR).join(names.iter().find(|name| is_holder(name)).expect("one"));
        let db = open(&vfs, apart(), inline);
        fail(&vfs, BTreeSet::from([oldest.clone()]));
        let unreadable: Vec<u64> = (0..1_000).filter(|&nth| db.get(&key(nth)).is_err()).collect();
        assert!(!unreadable.is_empty());
        // One of its values is needed, and more of the others.
        let is_put = |nth: &u64| match unreadable.binary_search(nth) {
            Ok(at) => at > 0,
            Err(_) => !nth.is_multiple_of(7),
        };
        for _ in 0..6 {
            (0..1_000).filter(is_put).for_each(|nth| put(&db, nth));
        }
        db.flush().expect("it takes writes");
        db.default_keyspace().compact_range(None, None).expect("compact");
        db.wait_idle().expect("nothing else fails");
        let bytes: u64 =
            names_of(&strict, is_holder).iter().map(|path| length(&strict, path)).sum();
        let live = 1_000 * 1_009;
        assert!(bytes < live * 3 / 2, "inline {inline}: {bytes} bytes, {live} alive");
        let refused = db.collect_values(0.0, |_| true).expect_err("one file cannot be read");
        assert!(refused.to_string().contains(&*oldest.to_string_lossy()), "{refused}");
        vfs.heal();
        db.collect_values(0.0, |_| true).expect("it can be read");
        assert!(!names_of(&strict, is_holder).contains(&oldest), "it is collected");
        (0..1_000).for_each(|nth| assert!(db.get(&key(nth)).expect("get").is_some()));
        assert_sound(&db);
        db.close().expect("close");
    }
}

/// A table leads into the file that has most dead values of all, and only it says which of them are
/// needed.
#[test]
fn a_table_that_cannot_be_read_keeps_no_file_from_being_collected_but_where_it_leads() {
    let key = |number: u64| format!("key{number:05}").into_bytes();
    for inline in [true, false] {
        let (strict, vfs) = disk();
        let db = open(&vfs, apart(), inline);
        let bad = db.create_keyspace("bad", apart().default_keyspace).expect("create");
        let put = |db: &Db, nth: u64| db.put(&key(nth), &[nth as u8; 1_000]).expect("put");
        bad.put(b"a", &[1; 1_000]).expect("put");
        (0..60).for_each(|nth| put(&db, nth));
        let before = tables(&strict);
        bad.flush().expect("flush");
        let of_bad: BTreeSet<PathBuf> = tables(&strict).difference(&before).cloned().collect();
        assert_eq!((before.len(), of_bad.len()), (0, 1));
        (60..1_000).for_each(|nth| put(&db, nth));
        db.flush().expect("flush");
        drop(bad);
        db.close().expect("close");
        let db = open(&vfs, apart(), inline);
        fail(&vfs, of_bad.clone());
        for _ in 0..6 {
            let is_put = |nth: &u64| *nth < 60 || !nth.is_multiple_of(7);
            (0..1_000).filter(is_put).for_each(|nth| put(&db, nth));
        }
        db.flush().expect("it takes writes");
        db.default_keyspace().compact_range(None, None).expect("compact");
        db.wait_idle().expect("nothing else fails");
        let is_holder = |name: &String| name.ends_with(".val") || name.ends_with(".wal");
        let bytes: u64 =
            names_of(&strict, is_holder).iter().map(|path| length(&strict, path)).sum();
        let live = 1_001 * 1_009;
        assert!(bytes < live * 3 / 2, "inline {inline}: {bytes} bytes, {live} alive");
        let refused = db.collect_values(0.0, |_| true).expect_err("a table cannot be read");
        let table = of_bad.first().expect("one").to_string_lossy().into_owned();
        assert!(vfs.faults_fired() > 0 && refused.to_string().contains(&table), "{refused}");
        vfs.heal();
        db.collect_values(0.0, |_| true).expect("it can be read");
        assert_eq!(
            db.keyspace("bad").expect("there").get(b"a").expect("get").as_deref(),
            Some(&[1; 1_000][..])
        );
        assert_sound(&db);
        db.close().expect("close");
    }
}

fn names_of(disk: &StrictVfs, is_wanted: impl Fn(&String) -> bool) -> BTreeSet<PathBuf> {
    let names = disk.file_names(Path::new(DIR)).into_iter();
    names.filter(is_wanted).map(|name| Path::new(DIR).join(name)).collect()
}

fn length(disk: &StrictVfs, path: &Path) -> u64 {
    disk.read_file(path).map_or(0, |bytes| bytes.len() as u64)
}

//! An order of the user's is asked about keys that somebody has put, and about no others.

use crate::support::{DIR, setup};
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::base::{Comparator, KeyOrder};
use esker::repair::repair;
use esker::{Db, KeyspaceOptions, Options};
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

/// Knows keys of eight bytes, and nothing else.
struct Numbers;

impl Comparator for Numbers {
    fn name(&self) -> &str {
        "numbers"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let number = |key: &[u8]| u64::from_le_bytes(key.try_into().expect("a number"));
        number(a).cmp(&number(b))
    }
}

fn options() -> Options {
    let order = KeyOrder::Custom(Arc::new(Numbers));
    let default_keyspace = KeyspaceOptions { order, ..KeyspaceOptions::default() };
    Options { default_keyspace, ..Options::default() }
}

fn open(disk: &StrictVfs) -> Db {
    Db::open_with(DIR, options(), setup(disk)).expect("open")
}

fn check(db: &Db, number: u64) {
    for key in 1..=number {
        assert!(db.get(&key.to_le_bytes()).expect("get").is_some(), "{key} of {number}");
    }
    assert_eq!(db.iter().expect("iter").count() as u64, number);
}

/// A bulk load takes a number in the log by a record that stands for nothing.
#[test]
fn no_key_is_made_up_for_a_bulk_load() {
    // What follows the load is carried into the next log, or written as tables.
    for value_bytes in [10, 2 << 20] {
        let disk = StrictVfs::new();
        let db = open(&disk);
        let mut ingest = db.default_keyspace().ingest().expect("ingest");
        ingest.put(&1u64.to_le_bytes(), b"loaded").expect("put");
        ingest.finish().expect("finish");
        db.delete_range(&7u64.to_le_bytes(), &7u64.to_le_bytes()).expect("nothing");
        db.put(&2u64.to_le_bytes(), &vec![1; value_bytes]).expect("put");
        let after = disk.crash(Survival::ProcessDeath, 1);
        db.close().expect("close");
        for disk in [disk, after] {
            let damaged = disk.deep_copy();
            let db = open(&disk);
            check(&db, 2);
            db.flush().expect("flush");
            db.default_keyspace().compact_range(None, None).expect("compact");
            check(&db, 2);
            db.close().expect("close");
            repair(Path::new(DIR), &options(), setup(&damaged), |_| true).expect("repair");
            let db = open(&damaged);
            check(&db, 2);
            db.flush().expect("flush");
            db.close().expect("close");
        }
    }
}

#[test]
fn options_of_the_default_keyspace_by_its_name_count_from_the_first_open_on() {
    let disk = StrictVfs::new();
    let keyspaces = [("default".to_owned(), options().default_keyspace)].into();
    let options = Options { keyspaces, ..Options::default() };
    for number in 1..3u64 {
        let db = Db::open_with(DIR, options.clone(), setup(&disk)).expect("open");
        db.put(&number.to_le_bytes(), b"value").expect("put");
        check(&db, number);
        db.close().expect("close");
    }
}

//! What checks indexes finds what is wrong with them: faults are planted, and one by one found.

use super::catalogue::Fault;
use crate::db::handle::Db;
use crate::db::open::Setup;
use crate::db::verify::VerifyReport;
use crate::fields::Record;
use crate::options::Options;
use esker_base::Env;
use esker_base::vfs::strict::StrictVfs;
use std::sync::Arc;

fn open(inline_background: bool) -> Db {
    let env = Env::with_vfs(Arc::new(StrictVfs::new()), 7);
    let setup = Setup { env, listener: None, inline_background, ..Setup::default() };
    Db::open_with("/db", Options::default(), setup).expect("open")
}

fn plant(db: &Db, fault: Fault) {
    *db.default_keyspace().running.core.indexes.fault.lock() = Some(fault);
}

fn put(db: &Db, key: u64, price: u64) {
    let record = Record::new().with("price", price as i64);
    db.default_keyspace().put_record(&key.to_be_bytes(), &record).expect("put");
}

fn checked(db: &Db) -> VerifyReport {
    db.wait_indexes().expect("built");
    db.verify(|_| true).expect("verify")
}

#[test]
fn an_entry_of_an_old_value_is_found() {
    let db = open(true);
    (0..200).for_each(|key| put(&db, key, key % 7));
    db.default_keyspace().create_index("price").expect("create");
    let report = checked(&db);
    assert!(report.damage.is_empty());
    assert_eq!((report.indexes.len(), report.indexes[0].entries), (1, 200));
    plant(&db, Fault::KeepsOldEntries);
    put(&db, 5, 900);
    let report = checked(&db);
    assert_eq!(report.damage.len(), 1);
    let index = &report.indexes[0];
    assert_eq!((index.entries, index.missing, index.stray), (201, 0, 1));
    assert_eq!(index.example.as_deref(), Some(&5u64.to_be_bytes()[..]));
}

/// Writers of one key that do not wait for each other delete the same old entry, and each puts its
/// own.
#[test]
fn writers_that_take_no_stripes_are_found_out() {
    for (fault, is_sound) in [(None, true), (Some(Fault::LocksNothing), false)] {
        let db = open(false);
        db.default_keyspace().create_index("price").expect("create");
        if let Some(fault) = fault {
            plant(&db, fault);
        }
        let mut sound = true;
        for round in 0..if is_sound { 20 } else { 2_000 } {
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let db = &db;
                    scope.spawn(move || {
                        (0..50).for_each(|nth| put(db, nth % 2, round * 1_000 + nth * 4 + thread));
                    });
                }
            });
            sound = checked(&db).damage.is_empty();
            if !sound {
                break;
            }
        }
        assert_eq!(sound, is_sound, "{fault:?}");
    }
}

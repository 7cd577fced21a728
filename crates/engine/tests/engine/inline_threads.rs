//! Several threads use a store that has none of its own: each does what is due in the background.

use crate::support::{DIR, setup};
use esker::base::vfs::strict::StrictVfs;
use esker::{Db, Durability, Options};

#[test]
fn a_memtable_is_flushed_by_one_of_them() {
    for durability in [Durability::Wal, Durability::External] {
        let disk = StrictVfs::new();
        let options = Options { durability, ..Options::default() };
        let db = Db::open_with(DIR, options, setup(&disk)).expect("open");
        std::thread::scope(|scope| {
            for thread in 0..3u8 {
                let db = &db;
                scope.spawn(move || {
                    for round in 0..200u32 {
                        let value = round.to_string();
                        db.put(&[thread], value.as_bytes()).expect("put");
                        db.flush().expect("flush");
                        let found = db.get(&[thread]).expect("get");
                        assert_eq!(found.as_deref(), Some(value.as_bytes()), "{thread}");
                    }
                });
            }
        });
        db.close().expect("close");
    }
}

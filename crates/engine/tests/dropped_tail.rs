//! The newest records may belong to a keyspace that is dropped: their sequence numbers are then in no
//! table, and the logs that held them go.

use esker::base::Env;
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::{Db, Options, Setup};
use std::sync::Arc;

const DIR: &str = "/db";

fn open(vfs: &StrictVfs) -> Db {
    let env = Env::with_vfs(Arc::new(vfs.clone()), 7);
    let setup = Setup { env, listener: None, inline_background: true };
    Db::open_with(DIR, Options::default(), setup).expect("open")
}

#[test]
fn a_long_log_of_a_dropped_keyspace_leaves_no_gap() {
    let vfs = StrictVfs::new();
    let db = open(&vfs);
    db.put(b"before", b"1").expect("put");
    db.flush().expect("flush");
    let guest = db.create_keyspace("guest", Options::default().default_keyspace).expect("create");
    // Logs over 1 MiB become tables when they are read; these records become nothing.
    for i in 0..30u64 {
        guest.put(&i.to_be_bytes(), &vec![7; 100 << 10]).expect("put");
    }
    drop(guest);
    db.drop_keyspace("guest").expect("drop");
    db.sync().expect("sync");
    let vfs = vfs.crash(Survival::None, 1);
    drop(db);
    for round in 0..3u8 {
        let db = open(&vfs);
        assert_eq!(db.get(b"before").expect("get").as_deref(), Some(&b"1"[..]));
        for earlier in 0..round {
            assert!(db.get(&[earlier]).expect("get").is_some(), "{earlier} in round {round}");
        }
        db.put(&[round], b"1").expect("put");
        db.close().expect("close");
    }
}

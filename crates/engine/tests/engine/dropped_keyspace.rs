//! A keyspace is dropped while its tables are being made: what it held is released once, and no
//! file stays.

use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::base::{Env, Error};
use esker::{Comparator, Db, Durability, KeyOrder, Keyspace, KeyspaceOptions, Options, Setup};
use std::cmp::Ordering;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// Bytewise order. Once it is armed, the next table that is made with it waits.
#[derive(Default)]
struct Pausing {
    armed: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Pausing {
    /// The first channel says that a table waits, the second lets it go on.
    fn arm(&self) -> (Receiver<()>, Sender<()>) {
        let (waits, has_come) = channel();
        let (let_go, may_go) = channel();
        *self.armed.lock().expect("lock") = Some((waits, may_go));
        (has_come, let_go)
    }
}

impl Comparator for Pausing {
    fn name(&self) -> &'static str {
        "test.pausing"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    fn separator(&self, a: &[u8], _: &[u8]) -> Vec<u8> {
        let armed = self.armed.lock().expect("lock").take();
        if let Some((waits, may_go)) = armed {
            waits.send(()).expect("the test waits for this");
            may_go.recv().expect("the test says so");
        }
        a.to_vec()
    }
}

fn tables(vfs: &StrictVfs) -> usize {
    let names = vfs.file_names(Path::new("/db"));
    names.iter().filter(|name| name.ends_with(".tbl")).count()
}

struct Guest {
    vfs: StrictVfs,
    db: Db,
    keyspace: Keyspace,
    pausing: Arc<Pausing>,
    /// Memory of all memtables but the guest's.
    others_bytes: u64,
}

impl Guest {
    fn new() -> Guest {
        let vfs = StrictVfs::new();
        let env = Env::with_vfs(Arc::new(vfs.clone()), 7);
        let setup = Setup { env, listener: None, inline_background: false, ..Setup::default() };
        let db = Db::open_with("/db", Options::default(), setup).expect("open");
        db.put(b"stays", &vec![1; 100 << 10]).expect("put");
        let others_bytes = db.stats().memory.memtables;
        let pausing = Arc::new(Pausing::default());
        let order = KeyOrder::Custom(pausing.clone());
        let options = KeyspaceOptions { order, ..Options::default().default_keyspace };
        let keyspace = db.create_keyspace("guest", options).expect("create");
        Guest { vfs, db, keyspace, pausing, others_bytes }
    }

    fn fill(&self) {
        for i in 0..10u8 {
            self.keyspace.put(&[i], &vec![2; 100 << 10]).expect("put");
        }
        let memtables = self.db.stats().memory.memtables;
        assert!(memtables > self.others_bytes + (1000 << 10), "{memtables}");
    }

    /// Drops the keyspace while `work` makes a table.
    fn drop_during(&self, work: impl FnOnce(&Keyspace) -> esker::base::Result<()> + Send) {
        let (has_come, let_go) = self.pausing.arm();
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| work(&self.keyspace));
            has_come.recv().expect("a table is made");
            self.db.drop_keyspace("guest").expect("drop");
            assert_eq!(self.db.stats().memory.memtables, self.others_bytes, "right after it");
            let_go.send(()).expect("it waits");
            let result = worker.join().expect("no panic");
            assert!(matches!(result, Ok(()) | Err(Error::Cancelled)), "{result:?}");
        });
    }

    /// Looks at what is left.
    fn check(self) {
        // A flush waits for those before it.
        self.db.flush().expect("flush");
        assert_eq!(self.db.stats().memory.memtables, 0, "all memtables are empty");
        drop(self.keyspace);
        self.db.close().expect("close");
        assert_eq!(tables(&self.vfs), 1, "the default keyspace's");
    }
}

#[test]
fn while_it_is_flushed() {
    let guest = Guest::new();
    guest.fill();
    guest.drop_during(Keyspace::flush);
    guest.check();
}

#[test]
fn while_it_is_compacted() {
    let guest = Guest::new();
    for _ in 0..2 {
        guest.fill();
        guest.keyspace.flush().expect("flush");
    }
    guest.drop_during(|keyspace| keyspace.compact_range(None, None));
    assert_eq!(tables(&guest.vfs), 0, "its tables are gone when the call returns");
    guest.check();
}

/// Bytes of the logs that are there, without space that is only reserved.
fn log_bytes(vfs: &StrictVfs) -> u64 {
    let names = vfs.file_names(Path::new("/db"));
    let logs = names.iter().filter(|name| name.ends_with(".wal"));
    let content = |name: &String| {
        let bytes = vfs.read_file(&Path::new("/db").join(name)).expect("a log");
        bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last as u64 + 1)
    };
    logs.map(content).sum()
}

#[test]
fn its_records_do_not_stay_in_logs_for_ever() {
    const MIB: u64 = 1 << 20;
    for (kept, apart) in [(false, false), (true, false), (false, true), (true, true)] {
        let vfs = StrictVfs::new();
        let open = |vfs: &StrictVfs| {
            let env = Env::with_vfs(Arc::new(vfs.clone()), 7);
            let setup = Setup { env, inline_background: true, ..Setup::default() };
            let options = Options { wal_bytes_max: 2 * MIB, ..Options::default() };
            Db::open_with("/db", options, setup).expect("open")
        };
        let db = open(&vfs);
        let value_log_bytes_min = apart.then_some(64);
        for round in 0..10u8 {
            if kept {
                db.put(&[round], b"stays").expect("put");
            }
            let options = KeyspaceOptions { value_log_bytes_min, ..KeyspaceOptions::default() };
            let guest = db.create_keyspace("guest", options).expect("create");
            for i in 0..10u8 {
                guest.put(&[i], &vec![2; 100 << 10]).expect("put");
            }
            drop(guest);
            db.drop_keyspace("guest").expect("drop");
        }
        // What logs may take, and what was written last.
        let bytes = log_bytes(&vfs);
        let most = if kept { 4 * MIB } else { MIB };
        assert!(bytes < most, "{bytes} with records that stay: {kept}, with values apart: {apart}");
        let again = vfs.crash(Survival::ProcessDeath, 1);
        std::mem::drop(db);
        let db = open(&again);
        for round in 0..10u8 {
            let found = db.get(&[round]).expect("get");
            assert_eq!(found.is_some(), kept, "{round}");
        }
        db.close().expect("close");
    }
}

#[test]
fn what_was_written_before_a_drop_survives_where_the_drop_does() {
    for durability in [Durability::Wal, Durability::External] {
        let vfs = StrictVfs::new();
        let open = |vfs: &StrictVfs| {
            let env = Env::with_vfs(Arc::new(vfs.clone()), 7);
            let setup = Setup { env, inline_background: true, ..Setup::default() };
            Db::open_with("/db", Options { durability, ..Options::default() }, setup).expect("open")
        };
        let db = open(&vfs);
        let old = db.create_keyspace("old", KeyspaceOptions::default()).expect("create");
        old.put(b"key", b"value").expect("put");
        db.flush().expect("flush");
        // Moved to another keyspace, by writes that nobody syncs.
        db.put(b"key", &old.get(b"key").expect("get").expect("is there")).expect("put");
        db.drop_keyspace("old").expect("drop");
        let after = vfs.crash(Survival::None, 1);
        std::mem::drop((old, db));
        let db = open(&after);
        assert!(db.keyspace("old").is_err(), "the drop was durable");
        let found = db.get(b"key").expect("get");
        assert_eq!(found.as_deref(), Some(&b"value"[..]), "{durability:?}");
        db.close().expect("close");
    }
}

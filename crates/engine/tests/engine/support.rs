//! A database on a disk in memory, and a plain map that it is compared with.

use esker::base::checksum::mix64;
use esker::base::vfs::strict::StrictVfs;
use esker::base::{Env, Vfs};
use esker::{Comparator, Db, Durability, GroupPrefix, KeyOrder, KeyspaceOptions, Options, Setup};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the database is.
pub(crate) const DIR: &str = "/db";

/// On any disk, with randomness of its own, without threads in the background.
pub(crate) fn setup_on(vfs: Arc<dyn Vfs>, seed: u64) -> Setup {
    Setup {
        env: Env::with_vfs(vfs, seed),
        listener: None,
        inline_background: true,
        ..Setup::default()
    }
}

/// The same on a disk in memory.
pub(crate) fn setup(disk: &StrictVfs) -> Setup {
    setup_on(Arc::new(disk.clone()), 7)
}

/// Opens or creates the database, with options as they are.
pub(crate) fn open(disk: &StrictVfs) -> Db {
    Db::open_with(DIR, Options::default(), setup(disk)).expect("open")
}

/// What a store should hold.
pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 += 1;
        mix64(self.0) % n
    }
}

/// All that lies on the disk is whole.
pub(crate) fn assert_sound(db: &Db) {
    let report = db.verify(|_| true).expect("verify");
    assert!(report.damage.is_empty(), "{:?}", report.damage);
}

/// Puts `key`, or deletes it at every fifth time, in the store and its model.
pub(crate) fn put_or_delete(db: &Db, model: &mut Model, random: &mut Random, key: Vec<u8>) {
    if random.below(5) == 0 {
        db.delete(&key).expect("delete");
        model.remove(&key);
    } else {
        let value = vec![random.below(256) as u8; 100];
        db.put(&key, &value).expect("put");
        model.insert(key, value);
    }
}

/// Options of a store below a log of somebody else's, with short memtables and tables.
pub(crate) fn below_log() -> Options {
    Options {
        durability: Durability::External,
        memory_budget_bytes: 8 << 20,
        memtables_bytes_max: 1 << 20,
        value_log_file_bytes: 16 << 10,
        default_keyspace: KeyspaceOptions {
            memtable_bytes: 64 << 10,
            block_bytes: 1 << 10,
            table_bytes_max: 16 << 10,
            level_base_bytes: 64 << 10,
            level_fanout: 3,
            ..KeyspaceOptions::default()
        },
        ..Options::default()
    }
}

/// Options with groups, in tables of their own from 4 KiB on.
pub(crate) fn grouped(mut options: Options) -> Options {
    options.default_keyspace.groups = Some(GroupPrefix::Delimiter { byte: b'/' });
    options.default_keyspace.group_table_bytes_min = 4 << 10;
    options
}

struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

/// Keys from the last to the first.
pub(crate) fn backwards() -> KeyOrder {
    KeyOrder::Custom(Arc::new(Backwards))
}

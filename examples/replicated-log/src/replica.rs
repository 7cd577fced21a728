//! One replica: a store without a log of its own, and the machine it runs on.
//!
//! **How far a group is** is known to the store alone: it keeps the index of the newest request
//! with the data, so that the two cannot disagree. Nothing here writes that down a second time.
//!
//! **How far a group is persistent** comes from the event `Persisted`, after each flush. It is told
//! once the flush is in force on the disk; from then on the log may forget those requests, as far
//! as this replica goes.
//!
//! **Full repair.** When the log does not reach back to where a group is, a replica that is live
//! exports the group as files, and they are put in the place of what is here, all of it or nothing,
//! whenever the power fails. Index and note, here the term, come with them.

use crate::log::{Entry, Op};
use esker::base::sync::Mutex;
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::base::vfs::{Vfs, read_all};
use esker::base::{Env, Error};
use esker::event::{Event, EventListener};
use esker::{Applied, Batch, Db, Durability, GroupPrefix, KeyspaceOptions, Options, Result, Setup};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Where the store is on its disk.
const DIR: &str = "/replica";

/// Where a group is exported to, and where one arrives.
const OUT: &str = "/out";
const IN: &str = "/in";

/// More than any file of a group here.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Pairs of a group, without its name before the keys.
pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// A group as files, on the way to a replica that does not have it.
#[derive(Clone, Debug)]
pub struct Copied {
    /// Index of the newest request that they hold.
    pub index: u64,
    /// Names and contents.
    files: Vec<(String, Vec<u8>)>,
}

/// How far groups are persistent, as the store has told.
///
/// Called by the thread that flushes, in the midst of it: notes what it hears and returns.
#[derive(Debug, Default)]
struct Told(Mutex<BTreeMap<Vec<u8>, u64>>);

impl EventListener for Told {
    fn on_event(&self, event: &Event) {
        if let Event::Persisted { groups, .. } = event {
            let mut told = self.0.lock();
            for persisted in groups {
                told.insert(persisted.group.clone(), persisted.index);
            }
        }
    }
}

/// A replica.
///
/// Its disk is in memory, so that the power can be cut: it then forgets what was not synced, or
/// some of it.
pub struct Replica {
    disk: StrictVfs,
    /// The open store; `None` while it is down.
    db: Option<Db>,
    told: Arc<Told>,
    /// Flushes and compactions are done by whoever calls the store: the same calls lead to the same
    /// files.
    inline: bool,
    /// Times it was started.
    starts: u64,
}

/// Options of the stores: no log, and tables for each group, so that one can be deleted at once.
///
/// Memtables are tiny here, so that little data makes many flushes. A real store leaves sizes as
/// they are.
fn options() -> Options {
    Options {
        durability: Durability::External,
        memory_budget_bytes: 8 << 20,
        memtables_bytes_max: 1 << 20,
        compaction_threads: 1,
        default_keyspace: KeyspaceOptions {
            groups: Some(GroupPrefix::Delimiter { byte: b'/' }),
            group_table_bytes_min: 4 << 10,
            memtable_bytes: 64 << 10,
            table_bytes_max: 64 << 10,
            level_base_bytes: 256 << 10,
            ..KeyspaceOptions::default()
        },
        ..Options::default()
    }
}

impl Replica {
    /// A replica with an empty disk, which is down. With `inline` its store has no threads of its
    /// own.
    pub fn new(inline: bool) -> Replica {
        Replica { disk: StrictVfs::new(), db: None, told: Arc::default(), inline, starts: 0 }
    }

    /// Its disk, for those who want to cut the power at a certain call.
    pub fn disk(&self) -> &StrictVfs {
        &self.disk
    }

    /// True if its store is open.
    pub fn is_up(&self) -> bool {
        self.db.is_some()
    }

    /// Opens the store. What it holds then is what outlived the last crash, and so is persistent.
    ///
    /// # Errors
    /// Of the store.
    pub fn start(&mut self) -> Result<()> {
        self.starts += 1;
        self.told = Arc::default();
        let setup = Setup {
            env: Env::with_vfs(Arc::new(self.disk.clone()), self.starts),
            listener: Some(self.told.clone()),
            inline_background: self.inline,
            ..Setup::default()
        };
        let db = Db::open_with(DIR, options(), setup)?;
        let mut told = self.told.0.lock();
        for group in db.groups() {
            told.insert(group.group, group.persisted);
        }
        drop(told);
        self.db = Some(db);
        Ok(())
    }

    /// The power fails. Of what was not synced, `survival` says how much is there when it is
    /// started again.
    pub fn crash(&mut self, survival: Survival, seed: u64) {
        self.disk.power_off();
        // A store flushes when it is closed; this one finds its disk gone.
        self.db = None;
        self.disk = self.disk.crash(survival, seed);
    }

    fn db(&self) -> Result<&Db> {
        self.db.as_ref().ok_or(Error::Cancelled)
    }

    /// Applies an entry of the log of a group. The index and the term become persistent with the
    /// data, or not at all.
    ///
    /// # Errors
    /// Of the store.
    pub fn apply(&self, group: &[u8], index: u64, entry: &Entry) -> Result<()> {
        let note = entry.term.to_le_bytes();
        self.db()?.apply(Applied { group, index, note: &note }, Replica::batch(group, entry))
    }

    /// What an entry does to a store.
    pub fn batch(group: &[u8], entry: &Entry) -> Batch {
        let mut batch = Batch::new();
        for Op { key, value } in &entry.ops {
            let key = [group, key].concat();
            match value {
                Some(value) => batch.put(&key, value),
                None => batch.delete(&key),
            };
        }
        batch
    }

    /// How far a group is: exactly as after the request of this index; 0 is before the first.
    ///
    /// # Errors
    /// If the replica is down.
    pub fn applied(&self, group: &[u8]) -> Result<u64> {
        Ok(self.db()?.group(group).map_or(0, |known| known.applied))
    }

    /// The term of the newest entry that was applied to a group; `None` if there is none.
    ///
    /// # Errors
    /// If the replica is down.
    pub fn term(&self, group: &[u8]) -> Result<Option<u64>> {
        let known = self.db()?.group(group);
        Ok(known.and_then(|known| Some(u64::from_le_bytes(known.note.try_into().ok()?))))
    }

    /// The index up to which a group is persistent, as far as that was told.
    pub fn persisted(&self, group: &[u8]) -> u64 {
        self.told.0.lock().get(group).copied().unwrap_or(0)
    }

    /// Makes persistent what was applied first of all that is not yet. `Persisted` tells what that
    /// was.
    ///
    /// # Errors
    /// Of the store.
    pub fn flush_oldest(&self) -> Result<()> {
        self.db()?.flush_oldest()
    }

    /// All pairs of a group.
    ///
    /// # Errors
    /// Of the store.
    pub fn pairs(&self, group: &[u8]) -> Result<Pairs> {
        let pairs = self.db()?.default_keyspace().prefix(group)?;
        pairs.map(|pair| pair.map(|(key, value)| (key[group.len()..].to_vec(), value))).collect()
    }

    /// Copies what is persistent of a group, while it may go on being applied to.
    ///
    /// # Errors
    /// Of the store.
    pub fn copy(&self, group: &[u8]) -> Result<Copied> {
        let db = self.db()?;
        // The newer the copy, the less of the log must follow it.
        db.flush_group(group)?;
        // A crash may have left one.
        self.remove(OUT)?;
        let index = db.export_group(group, OUT)?.index;
        let mut files = Vec::new();
        for file in self.disk.list(Path::new(OUT))? {
            let contents = read_all(&self.disk, &Path::new(OUT).join(&file.name), FILE_BYTES_MAX)?;
            files.push((file.name, contents));
        }
        self.remove(OUT)?;
        Ok(Copied { index, files })
    }

    /// Puts a copy in the place of what there is of a group. A crash meanwhile leaves one or the
    /// other.
    ///
    /// # Errors
    /// Of the store.
    pub fn install(&self, group: &[u8], copied: &Copied) -> Result<()> {
        let db = self.db()?;
        self.remove(IN)?;
        self.disk.create_dir_all(Path::new(IN))?;
        for (name, contents) in &copied.files {
            // None of this need be durable: the store sees to that.
            let mut file = self.disk.create(&Path::new(IN).join(name))?;
            file.append(contents)?;
            file.finish()?;
        }
        db.ingest_group(group, IN)?;
        self.remove(IN)
    }

    fn remove(&self, dir: &str) -> Result<()> {
        let dir = Path::new(dir);
        if !self.disk.exists(dir)? {
            return Ok(());
        }
        for file in self.disk.list(dir)? {
            self.disk.remove(&dir.join(file.name))?;
        }
        self.disk.remove_dir(dir)
    }
}

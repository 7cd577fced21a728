//! One replica: a store without a log of its own, and the machine it runs on.
//!
//! **How far a group is** is known to the store alone: it keeps the index of the newest request with the data, so that the
//! two cannot disagree. Nothing here writes that down a second time.
//!
//! **How far a group is persistent** comes from the event `Persisted`, after each flush. It is told once the flush is in
//! force on the disk; from then on the log may forget those requests, as far as this replica goes.
//!
//! **Full repair.** When the log does not reach back to where a group is, the group is deleted and put in anew, from a
//! copy of another replica's. That takes several requests, and the power may fail between them, so that half of a group
//! is there. Notes tell: that of all requests but the last is "installing", and whoever finds it after a crash has the group
//! repaired once more. Indexes must ascend, and the last one is that of the copy; so the others get 1, 2, 3 and so on, which
//! are enough: a copy as of index i has at most i times [`OPS_MAX`] pairs, and each request here puts in as many.

use crate::log::{Entry, OPS_MAX, Op};
use esker::base::sync::Mutex;
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::base::{Env, Error};
use esker::event::{Event, EventListener};
use esker::{
    Applied, Batch, Db, Durability, GroupPrefix, KeyspaceOptions, Options, Result, ScanOptions,
    Setup,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the store is on its disk.
const DIR: &str = "/replica";

/// The note of a group that was not put in completely.
const INSTALLING: &[u8] = b"installing";

/// Pairs of a group, without its name before the keys.
pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// How far a group is in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Exactly as after the request of this index; 0 is before the first.
    At(u64),
    /// Neither here nor there: it was being put in anew.
    Installing,
}

/// What a group was after a request, for a replica that does not have it.
#[derive(Clone, Debug)]
pub struct Copied {
    /// Index of the request.
    pub index: u64,
    /// All pairs.
    pub pairs: Pairs,
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
/// Its disk is in memory, so that the power can be cut: it then forgets what was not synced, or some of it.
pub struct Replica {
    disk: StrictVfs,
    /// The open store; `None` while it is down.
    db: Option<Db>,
    told: Arc<Told>,
    /// Flushes and compactions are done by whoever calls the store: the same calls lead to the same files.
    inline: bool,
    /// Times it was started.
    starts: u64,
}

/// Options of the stores: no log, and tables for each group, so that one can be deleted at once.
///
/// Memtables are tiny here, so that little data makes many flushes. A real store leaves sizes as they are.
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
    /// A replica with an empty disk, which is down. With `inline` its store has no threads of its own.
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

    /// The power fails. Of what was not synced, `survival` says how much is there when it is started again.
    pub fn crash(&mut self, survival: Survival, seed: u64) {
        self.disk.power_off();
        // A store flushes when it is closed; this one finds its disk gone.
        self.db = None;
        self.disk = self.disk.crash(survival, seed);
    }

    fn db(&self) -> Result<&Db> {
        self.db.as_ref().ok_or(Error::Cancelled)
    }

    /// Applies an entry of the log of a group. The index and the term become persistent with the data, or not at all.
    ///
    /// # Errors
    /// Of the store.
    pub fn apply(&self, group: &[u8], index: u64, entry: &Entry) -> Result<()> {
        let mut batch = Batch::new();
        for Op { key, value } in &entry.ops {
            let key = [group, key].concat();
            match value {
                Some(value) => batch.put(&key, value),
                None => batch.delete(&key),
            };
        }
        self.db()?.apply(Applied { group, index, note: &entry.term.to_le_bytes() }, batch)
    }

    /// How far a group is.
    ///
    /// # Errors
    /// If the replica is down.
    pub fn state(&self, group: &[u8]) -> Result<State> {
        Ok(match self.db()?.group(group) {
            None => State::At(0),
            Some(known) if known.note == INSTALLING => State::Installing,
            Some(known) => State::At(known.applied),
        })
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

    /// Makes persistent what was applied first of all that is not yet. `Persisted` tells what that was.
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
        loop {
            let persisted = || db.group(group).map_or(0, |known| known.persisted);
            let index = persisted();
            let snapshot = db.persisted_snapshot()?;
            // A flush in between would make the two disagree. The index only grows: if it is as it was, there was none.
            if persisted() != index {
                continue;
            }
            let mut cursor =
                db.default_keyspace().scan(&ScanOptions::prefix(group).at(&snapshot))?;
            let mut pairs = Pairs::new();
            cursor.seek_to_first()?;
            while cursor.valid() {
                pairs.insert(cursor.key()[group.len()..].to_vec(), cursor.value().to_vec());
                cursor.next()?;
            }
            return Ok(Copied { index, pairs });
        }
    }

    /// Puts a copy in the place of what there is of a group. After a crash meanwhile the group is [`State::Installing`],
    /// or not there at all.
    ///
    /// # Errors
    /// Of the store.
    pub fn install(&self, group: &[u8], copied: &Copied, term: u64) -> Result<()> {
        let db = self.db()?;
        // The old state is gone at once, and so is its space.
        db.delete_group(group)?;
        self.told.0.lock().remove(group);
        let pairs: Vec<(&Vec<u8>, &Vec<u8>)> = copied.pairs.iter().collect();
        let requests = pairs.len().div_ceil(OPS_MAX).max(1) as u64;
        assert!(
            requests <= copied.index,
            "each request of the log puts in {OPS_MAX} pairs at most"
        );
        let term = term.to_le_bytes();
        for nth in 1..=requests {
            let mut batch = Batch::new();
            for (key, value) in pairs.iter().skip((nth - 1) as usize * OPS_MAX).take(OPS_MAX) {
                batch.put(&[group, key].concat(), value);
            }
            let (index, note) = match nth == requests {
                true => (copied.index, &term[..]),
                false => (nth, INSTALLING),
            };
            db.apply(Applied { group, index, note }, batch)?;
        }
        // Until this is done a crash would mean copying all of it again.
        db.flush_group(group)?;
        Ok(())
    }
}

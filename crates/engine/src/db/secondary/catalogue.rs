//! Which fields are indexed, and the locks of those who write to indexed keyspaces.
//!
//! The list follows from the names of keyspaces: nothing else says that a keyspace holds an index.
//! It changes under the gate and `Core::commit`; a write that was completed by an older list is
//! refused in its turn and begins anew.
//!
//! Threads: whoever changes keys of an indexed keyspace holds the gate shared and the stripe of
//! each key from before it reads what they hold until what it wrote is visible. Who changes a whole
//! range, or the list, holds the gate alone.

use crate::db::patience::Patience;
use crate::names;
use crate::options::{Filter, KeyspaceOptions, Options};
use esker_base::checksum::hash64;
use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker_base::sync::{ArcSwap, CHECKED, Mutex, MutexGuard, RwLock};
use esker_base::{Error, KeyOrder, KeyspaceId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Locks that keys are spread over.
const STRIPES: usize = if CHECKED { 4 } else { 256 };

/// Set in the number of a list that is not empty.
const ANY: u64 = 1;

/// What the step from a list to the next adds to its number.
const STEP: u64 = 2;

/// The index of a field.
#[derive(Debug)]
pub(in crate::db) struct Index {
    /// The keyspace that holds its entries.
    pub(in crate::db) id: KeyspaceId,
    /// The keyspace that is indexed.
    pub(in crate::db) of: KeyspaceId,
    pub(in crate::db) field: String,
    /// It was seen to be ready. Stored under the gate.
    pub(in crate::db) is_built: AtomicBool,
    /// Why it is not built, until it is tried again.
    pub(in crate::db) failure: Mutex<Option<Failure>>,
}

/// Why an index is not built.
#[derive(Clone, Debug)]
pub(in crate::db) struct Failure {
    pub(in crate::db) error: Error,
    /// It is tried again when this is over.
    pub(in crate::db) patience: Patience,
}

/// The indexes of a database. Immutable.
#[derive(Debug, Default)]
pub(in crate::db) struct IndexList {
    /// Differs from that of every other list of this database since it was opened.
    pub(in crate::db) number: u64,
    by_keyspace: BTreeMap<KeyspaceId, Vec<Arc<Index>>>,
    /// The keyspaces that hold one.
    holders: BTreeSet<KeyspaceId>,
}

/// What a database knows of its indexes.
pub(in crate::db) struct Indexes {
    /// Of the list.
    number: AtomicU64,
    list: ArcSwap<IndexList>,
    /// Shared by those who change single keys.
    pub(in crate::db) gate: RwLock<()>,
    stripes: Vec<Mutex<()>>,
    /// One builds at a time.
    pub(in crate::db) building: Mutex<()>,
    /// A fault that a test has planted.
    #[cfg(test)]
    pub(in crate::db) fault: Mutex<Option<Fault>>,
}

/// A fault that a test plants, so that it can be seen to be found.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::db) enum Fault {
    /// The entry of a value that was replaced stays.
    KeepsOldEntries,
    /// Writers of the same key do not wait for each other.
    LocksNothing,
}

/// How far an index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexState {
    /// It is being built; finds through it fail.
    Building,
    /// It holds all that it should.
    Ready,
}

/// An index of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexInfo {
    /// The field.
    pub field: String,
    /// How far it is.
    pub state: IndexState,
    /// Keys that were read to build it, since it was last begun.
    pub keys_done: u64,
}

/// The options of a keyspace when the database is opened. Those of an index are the default
/// keyspace's, but for what suits keys without values that are scanned, and of which none begins as
/// those of a group do.
pub(in crate::db) fn options_for(options: &Options, name: &str) -> KeyspaceOptions {
    if !names::is_index(name) {
        return options.for_keyspace(name).clone();
    }
    KeyspaceOptions {
        filter: Filter::None,
        value_log_bytes_min: None,
        run_index: false,
        groups: None,
        order: KeyOrder::Bytewise,
        ..options.default_keyspace.clone()
    }
}

impl Index {
    pub(super) fn new(id: KeyspaceId, of: KeyspaceId, field: &str) -> Index {
        let (is_built, failure) = (AtomicBool::new(false), Mutex::new(None));
        Index { id, of, field: field.to_owned(), is_built, failure }
    }

    pub(in crate::db) fn is_built(&self) -> bool {
        self.is_built.load(Ordering::Acquire)
    }

    /// How much longer it is not built, because that failed; zero if nothing did, and `None` if it
    /// is built.
    pub(super) fn due_in(&self, now_ns: u64) -> Option<Duration> {
        match &*self.failure.lock() {
            _ if self.is_built() => None,
            None => Some(Duration::ZERO),
            Some(failure) => Some(failure.patience.left(now_ns)),
        }
    }

    /// It is left alone for a while.
    pub(super) fn note_failure(&self, error: Error, now_ns: u64) {
        let mut failure = self.failure.lock();
        let mut patience = failure.as_ref().map(|before| before.patience).unwrap_or_default();
        patience.note_failure(now_ns);
        *failure = Some(Failure { error, patience });
    }
}

impl IndexList {
    /// The indexes of a keyspace.
    pub(in crate::db) fn of(&self, id: KeyspaceId) -> &[Arc<Index>] {
        self.by_keyspace.get(&id).map_or(&[], Vec::as_slice)
    }

    pub(in crate::db) fn find(&self, of: KeyspaceId, field: &str) -> Option<&Arc<Index>> {
        self.of(of).iter().find(|index| index.field == field)
    }

    pub(in crate::db) fn all(&self) -> impl Iterator<Item = &Arc<Index>> {
        self.by_keyspace.values().flatten()
    }

    /// True if this keyspace holds an index.
    pub(super) fn holds_index(&self, id: KeyspaceId) -> bool {
        self.holders.contains(&id)
    }

    fn with(indexes: impl Iterator<Item = Arc<Index>>, number: u64) -> IndexList {
        let mut by_keyspace: BTreeMap<KeyspaceId, Vec<Arc<Index>>> = BTreeMap::new();
        let mut holders = BTreeSet::new();
        for index in indexes {
            holders.insert(index.id);
            by_keyspace.entry(index.of).or_default().push(index);
        }
        let any = if by_keyspace.is_empty() { 0 } else { ANY };
        IndexList { number: number & !ANY | any, by_keyspace, holders }
    }
}

impl Indexes {
    /// The indexes among these keyspaces.
    pub(in crate::db) fn new(keyspaces: &[(KeyspaceId, String)]) -> Indexes {
        let index = |(id, name): &(KeyspaceId, String)| {
            let (of, field) = names::parse_index(name)?;
            // Nobody could reach one whose keyspace is not there.
            let known = keyspaces.iter().any(|(id, name)| *id == of && !names::is_index(name));
            known.then(|| Arc::new(Index::new(*id, of, field)))
        };
        let list = IndexList::with(keyspaces.iter().filter_map(index), STEP);
        Indexes {
            number: AtomicU64::new(list.number),
            list: ArcSwap::from_pointee(list),
            gate: RwLock::new(()),
            stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            building: Mutex::new(()),
            #[cfg(test)]
            fault: Mutex::new(None),
        }
    }

    /// Number of the list. To be relied on only under `Core::commit`.
    #[inline]
    pub(in crate::db) fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// True if a list of this number has no index.
    #[inline]
    pub(super) fn is_empty_at(number: u64) -> bool {
        number & ANY == 0
    }

    pub(in crate::db) fn list(&self) -> Arc<IndexList> {
        self.list.load_full()
    }

    /// Puts other indexes in the place of those there are. Under the gate, alone, and
    /// `Core::commit`.
    pub(super) fn replace(&self, indexes: impl Iterator<Item = Arc<Index>>) {
        let list = IndexList::with(indexes, self.number() + STEP);
        let number = list.number;
        self.list.store(Arc::new(list));
        self.number.store(number, Ordering::Relaxed);
    }

    /// The stripe of a key.
    pub(super) fn stripe(keyspace: KeyspaceId, key: &[u8]) -> usize {
        let spread = u64::from(keyspace.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((hash64(key) ^ spread) % STRIPES as u64) as usize
    }

    #[cfg(test)]
    pub(super) fn keeps_old_entries(&self) -> bool {
        *self.fault.lock() == Some(Fault::KeepsOldEntries)
    }

    #[cfg(not(test))]
    #[inline]
    #[expect(clippy::unused_self, reason = "as in tests")]
    pub(super) fn keeps_old_entries(&self) -> bool {
        false
    }

    #[cfg(test)]
    pub(super) fn locks_nothing(&self) -> bool {
        *self.fault.lock() == Some(Fault::LocksNothing)
    }

    #[cfg(not(test))]
    #[inline]
    #[expect(clippy::unused_self, reason = "as in tests")]
    pub(super) fn locks_nothing(&self) -> bool {
        false
    }

    /// Locks stripes, which must come in ascending order, each once.
    pub(super) fn lock(&self, stripes: &[usize]) -> Vec<MutexGuard<'_, ()>> {
        assert!(stripes.is_sorted_by(|a, b| a < b), "stripes out of order");
        stripes.iter().map(|&stripe| self.stripes[stripe].lock()).collect()
    }
}

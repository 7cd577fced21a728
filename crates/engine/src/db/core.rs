//! What all paths of an open database share.
//!
//! Locks, in the order they may be taken: those of `indexes` (the right to change an indexed key),
//! `deleting` (the right to delete a group, or have one arrive), `commit` (the right to write),
//! `spare` (the log after the current one), `versions` (the right to change the shape of a tree),
//! then any of `epochs`, `background.state`, `current_wal`, `retired`, `snapshots`, a keyspace's
//! `schedule`, the one under which its view changes, and then its `indexing`. Nothing is locked
//! under the one of the compactions that are `underway`, or that of `erasures`. Readers take none
//! of them: they load a keyspace's [`View`] and the visible sequence number, in this order.
//! `versions` is held while the manifest is synced; a writer therefore never waits for it, unless
//! there is no spare log.

use super::background::Background;
use super::commit_state::{CommitState, RetiredWal, SpareSlot};
use super::epochs::Epochs;
use super::erasures::Erasures;
use super::group_range::GroupRange;
use super::index_state::Indexing;
use super::patience::Patience;
use super::progress::EpochId;
use super::queue::{self, WriteQueue};
use super::secondary::catalogue::Indexes;
use super::snapshot::SnapshotList;
use super::stall::Stall;
use super::underway::Underway;
use super::value_use::{Overwriting, ValueUse};
use crate::compaction::scheduler::toll::Toll;
use crate::compaction::scheduler::{Schedule, pace};
use crate::event::EventSink;
use crate::memtable::{Memtable, Supply};
use crate::options::{Durability, KeyspaceOptions, Options, memtable_limit_bytes};
use crate::report::LevelStats;
use crate::table::Origin;
use crate::value_log::{LogList, READERS_MAX, Readers, ValueFile};
use crate::version::{
    Coverage, DEEPEST_LEVEL, NamedGroups, NamedWals, TableStore, Version, VersionEdit, VersionSet,
};
use esker_base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use esker_base::sync::{ArcSwap, Mutex, MutexGuard};
use esker_base::vfs::FileLock;
use esker_base::{Env, Error, KeyspaceId, Result, Seq};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open database.
pub(super) struct Core {
    pub(super) env: Env,
    pub(super) dir: Arc<Path>,
    pub(super) options: Options,
    pub(super) events: EventSink,
    pub(super) store: Arc<TableStore>,
    pub(super) keyspaces: Arc<ArcSwap<Keyspaces>>,
    /// The keyspace whose run index was made last. Changes under `versions`.
    pub(super) last_indexed: AtomicU32,
    /// Which fields are indexed, and the locks of those who write to them.
    pub(super) indexes: Indexes,
    /// The right to delete a group.
    pub(super) deleting: Mutex<()>,
    /// What is being erased: a group, up to this sequence number, by an edit that is not in force
    /// yet; `Seq::MAX` if there is none.
    pub(super) erasing_seq: AtomicU64,
    /// Writers wait here for their turn.
    pub(super) queue: WriteQueue,
    /// `None` in a database that is only read.
    pub(super) commit: Mutex<Option<CommitState>>,
    /// `None` in a database that is only read, and once it is closed.
    pub(super) versions: Mutex<Option<VersionSet>>,
    /// The logs of a database that is only read; empty in others.
    pub(super) read_wals: NamedWals,
    /// Logs that take no more records but may not be durable yet.
    pub(super) retired: Mutex<Vec<RetiredWal>>,
    /// Number of the log that was made when the database was opened. It may hold copies of records
    /// of the logs before it.
    pub(super) opened_wal: u64,
    /// The log that takes records. Changes under `commit`.
    pub(super) current_wal: Mutex<BegunWal>,
    /// The log that comes after it, if it is ready.
    pub(super) spare: Mutex<SpareSlot>,
    /// Bytes of logs kept, the current one not included.
    pub(super) retired_wal_bytes: AtomicU64,
    /// How far requests of somebody else's log were applied.
    pub(super) epochs: Mutex<Epochs>,
    /// Everything up to here can be read.
    pub(super) visible_seq: AtomicU64,
    pub(super) snapshots: Arc<SnapshotList>,
    /// Held by whoever flushes.
    pub(super) flushing: Mutex<()>,
    pub(super) stall: Stall,
    pub(super) background: Arc<Background>,
    pub(super) counters: WriteCounters,
    /// Bytes of all memtables, about.
    pub(super) memtable_bytes: AtomicU64,
    /// The most they may take, and from where on writes are slowed.
    pub(super) memtables_limit_bytes: u64,
    pub(super) slow_from_bytes: u64,
    /// Values of at least so many bytes may be kept apart in some keyspace.
    pub(super) separated_bytes_min: AtomicU64,
    pub(super) value_use: ValueUse,
    /// Memory for memtables to come: of one memtable at the most.
    pub(super) supply: Arc<Supply>,
    /// Threads that read values for cursors.
    pub(super) readers: Arc<Readers>,
    pub(super) read_only: bool,
    pub(super) lock: Mutex<Option<Box<dyn FileLock>>>,
}

/// A log, and the first sequence number it may hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct BegunWal {
    pub(super) number: u64,
    pub(super) first_seq: Seq,
}

/// Keyspaces by id and by name.
#[derive(Clone, Default)]
pub(super) struct Keyspaces {
    pub(super) by_id: BTreeMap<KeyspaceId, Arc<KeyspaceCore>>,
    /// The default keyspace, once more: most writes are for it.
    pub(super) default: Option<Arc<KeyspaceCore>>,
}

/// One keyspace of an open database.
pub(super) struct KeyspaceCore {
    pub(super) id: KeyspaceId,
    pub(super) name: String,
    pub(super) options: Arc<KeyspaceOptions>,
    /// What compactions go by: the same, but for a policy that was changed since. Changes under
    /// `versions`.
    pub(super) compacted_by: ArcSwap<KeyspaceOptions>,
    /// No compaction of it may be chosen: its policy is about to change.
    pub(super) reshaping: AtomicBool,
    /// How many compact tiers of it by hand and wait for those who have some: below level 0 nothing
    /// may be chosen.
    pub(super) reserved: AtomicU64,
    /// Bytes at which its memtable is sealed.
    pub(super) memtable_limit_bytes: u64,
    /// What readers see. Its memtables change under `commit`, its version under `versions`.
    pub(super) view: ArcSwap<View>,
    view_change: Mutex<()>,
    /// The newest sequence number up to which the view knows something to be erased.
    pub(super) erased_seq: AtomicU64,
    /// Bytes of the active memtable as counted in `Core::memtable_bytes`.
    pub(super) counted_bytes: AtomicU64,
    pub(super) dropped: AtomicBool,
    pub(super) user_bytes: AtomicU64,
    /// What flushes and compactions wrote into each level.
    pub(super) level_work: Mutex<Vec<LevelStats>>,
    /// What scans pay for runs that they need not find, or for those that the run index does not
    /// know.
    pub(super) toll: Arc<Toll>,
    /// When small tables may become one again, after that has failed.
    pub(super) small_tables: Mutex<Patience>,
    /// How much of the values of newer runs was found to overwrite others.
    pub(super) overwriting: Overwriting,
    /// Whose turn it is to be compacted.
    pub(super) schedule: Mutex<Schedule>,
    /// Its compactions.
    pub(super) underway: Underway,
    /// What was erased while they are at work.
    pub(super) erasures: Erasures,
    /// What is known of its run index besides what is in force.
    pub(super) indexing: Mutex<Indexing>,
}

/// Where a keyspace's records are at one moment. Immutable.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) active: Arc<Memtable>,
    /// The oldest log that holds records of the active memtable; the current one while that is
    /// empty. One that is read late is too low, which does no harm.
    pub(super) active_first_wal: Arc<AtomicU64>,
    /// The logs that pointers of the active memtable lead into.
    pub(super) logs: Arc<LogList>,
    /// Newest first.
    pub(super) sealed: Vec<Arc<Sealed>>,
    pub(super) version: Arc<Version>,
    /// What is known of which runs have which keys.
    pub(super) coverage: Option<Arc<Coverage>>,
}

/// A memtable that takes no more records.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) mem: Arc<Memtable>,
    pub(super) memory_bytes: u64,
    /// The oldest log that holds records of it.
    pub(super) first_wal: u64,
    /// The log that was current after it was sealed: all its records are in older ones.
    pub(super) next_wal: u64,
    /// Every record of the keyspace up to here is in it, or in older memtables and tables.
    pub(super) seq: Seq,
    /// The logs that its pointers lead into.
    pub(super) logs: Arc<LogList>,
}

/// Counts writes.
#[derive(Debug, Default)]
pub(super) struct WriteCounters {
    pub(super) batches: AtomicU64,
    pub(super) operations: AtomicU64,
    pub(super) groups: AtomicU64,
    pub(super) syncs: AtomicU64,
    pub(super) wal_bytes: AtomicU64,
}

impl KeyspaceCore {
    pub(super) fn new(
        id: KeyspaceId,
        name: String,
        options: Arc<KeyspaceOptions>,
        memtables_limit_bytes: u64,
        version: Arc<Version>,
        first_wal: u64,
        supply: &Arc<Supply>,
    ) -> KeyspaceCore {
        let active = Memtable::supplied(options.order.clone(), supply.clone());
        let active = Arc::new(active);
        let active_first_wal = Arc::new(AtomicU64::new(first_wal));
        let (logs, sealed) = (Arc::default(), Vec::new());
        let erased_seq = AtomicU64::new(version.erased_seq);
        let view = View { active, active_first_wal, logs, sealed, version, coverage: None };
        KeyspaceCore {
            id,
            name,
            memtable_limit_bytes: memtable_limit_bytes(&options, memtables_limit_bytes),
            overwriting: Overwriting::new(),
            schedule: Mutex::new(Schedule::new(&options)),
            compacted_by: ArcSwap::from_pointee((*options).clone()),
            reshaping: AtomicBool::new(false),
            reserved: AtomicU64::new(0),
            options,
            view: ArcSwap::from_pointee(view),
            view_change: Mutex::new(()),
            erased_seq,
            counted_bytes: AtomicU64::new(0),
            dropped: AtomicBool::new(false),
            user_bytes: AtomicU64::new(0),
            level_work: Mutex::new(vec![LevelStats::default(); DEEPEST_LEVEL + 1]),
            toll: Arc::new(Toll::new()),
            small_tables: Mutex::new(Patience::default()),
            underway: Underway::default(),
            erasures: Erasures::default(),
            indexing: Mutex::default(),
        }
    }

    /// Fails if it was dropped.
    ///
    /// # Errors
    /// `InvalidArgument`, which says so. Whoever finds a view empty that a drop has emptied
    /// learns it here.
    #[inline]
    pub(super) fn check_live(&self) -> Result<()> {
        if self.dropped.load(Ordering::Acquire) {
            return Err(Error::invalid(format!("keyspace {:?} was dropped", self.name)));
        }
        Ok(())
    }

    /// What its tables say of where they belong.
    pub(super) fn origin(&self) -> Origin {
        Origin::new(self.id, &self.name)
    }

    /// True if some record may be in a memtable.
    pub(super) fn has_memtables(&self) -> bool {
        let view = self.view.load();
        !view.active.is_empty() || !view.sealed.is_empty()
    }

    /// Changes the view.
    pub(super) fn update_view(&self, change: impl FnOnce(&mut View)) {
        let _one_at_a_time = self.view_change.lock();
        let mut view = View::clone(&self.view.load());
        change(&mut view);
        let erased_seq = view.version.erased_seq;
        self.view.store(Arc::new(view));
        // After the view: whoever sees the number finds a view that knows it.
        self.erased_seq.store(erased_seq, Ordering::Release);
    }
}

/// The files with values that tables of these views may point into, each once, by number.
pub(super) fn value_files(views: &[Arc<View>]) -> impl Iterator<Item = &Arc<ValueFile>> {
    let files = views.iter().flat_map(|view| view.version.values.files());
    files.map(|file| (file.meta.number, file)).collect::<BTreeMap<_, _>>().into_values()
}

impl View {
    /// The memtables, newest first.
    #[inline]
    pub(super) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(self.sealed.iter().map(|sealed| &sealed.mem))
    }

    /// The file that holds the values of a log, for a pointer in a memtable or a table of this
    /// view.
    pub(super) fn value_file(&self, log: u64) -> Option<Arc<ValueFile>> {
        // What is in memtables too was not moved: such logs are needed as they are.
        let moved = self.version.values.find(log).cloned();
        let in_memtables = || {
            let sealed = self.sealed.iter().map(|sealed| &sealed.logs);
            std::iter::once(&self.logs).chain(sealed).find_map(|logs| logs.find(log))
        };
        moved.or_else(in_memtables)
    }

    /// True if a pointer may be met in this view.
    pub(super) fn may_point(&self) -> bool {
        let sealed = self.sealed.iter().map(|sealed| &sealed.logs);
        !self.version.values.is_empty()
            || std::iter::once(&self.logs).chain(sealed).any(|logs| !logs.is_empty())
    }

    /// Memory of the run index.
    pub(super) fn index_bytes(&self) -> u64 {
        self.coverage.as_ref().map_or(0, |coverage| coverage.index.memory_bytes())
    }
}

impl Keyspaces {
    #[inline]
    pub(super) fn get(&self, id: KeyspaceId) -> Option<&Arc<KeyspaceCore>> {
        if id == KeyspaceId::DEFAULT {
            return self.default.as_ref();
        }
        self.by_id.get(&id)
    }

    pub(super) fn by_name(&self, name: &str) -> Option<&Arc<KeyspaceCore>> {
        self.by_id.values().find(|keyspace| keyspace.name == name)
    }

    pub(super) fn insert(&mut self, keyspace: Arc<KeyspaceCore>) {
        if keyspace.id == KeyspaceId::DEFAULT {
            self.default = Some(keyspace.clone());
        }
        self.by_id.insert(keyspace.id, keyspace);
    }
}

/// Where the memtables of a database take their memory from; keeps that of one at the most.
pub(super) fn memtable_supply(options: &Options) -> Arc<Supply> {
    let limit_bytes = options.memtables_limit_bytes();
    Memtable::supply(memtable_limit_bytes(&options.default_keyspace, limit_bytes))
}

/// What [`Core::new`] puts together.
pub(super) struct Parts {
    pub(super) env: Env,
    pub(super) dir: PathBuf,
    pub(super) options: Options,
    pub(super) events: EventSink,
    pub(super) store: Arc<TableStore>,
    pub(super) keyspaces: Keyspaces,
    pub(super) supply: Arc<Supply>,
    pub(super) commit: Option<CommitState>,
    pub(super) versions: Option<VersionSet>,
    pub(super) read_wals: NamedWals,
    pub(super) current_wal: BegunWal,
    pub(super) last_seq: Seq,
    pub(super) groups: NamedGroups,
    pub(super) read_only: bool,
    pub(super) inline: bool,
    pub(super) lock: Option<Box<dyn FileLock>>,
}

impl Core {
    pub(super) fn new(parts: Parts) -> Core {
        let memtables_limit_bytes = parts.options.memtables_limit_bytes();
        let of_keyspaces = parts.keyspaces.by_id.values().map(|keyspace| &keyspace.options);
        let named = |keyspace: &Arc<KeyspaceCore>| (keyspace.id, keyspace.name.clone());
        // Without a log it is flushes that keep large values apart.
        let has_log = parts.options.durability == Durability::Wal;
        let separated = of_keyspaces.filter_map(|options| options.value_log_bytes_min).min();
        let separated = separated.filter(|_| has_log);
        let epoch = parts.commit.as_ref().map_or_else(EpochId::new, |commit| commit.epoch);
        let background = Arc::new(Background::new(parts.inline));
        Core {
            separated_bytes_min: AtomicU64::new(separated.unwrap_or(u64::MAX)),
            value_use: ValueUse::new(&parts.options),
            supply: parts.supply,
            stall: Stall::new(parts.env.clock.clone(), parts.events.clone()),
            env: parts.env,
            dir: parts.dir.into(),
            options: parts.options,
            events: parts.events,
            store: parts.store,
            indexes: Indexes::new(&parts.keyspaces.by_id.values().map(named).collect::<Vec<_>>()),
            keyspaces: Arc::new(ArcSwap::from_pointee(parts.keyspaces)),
            last_indexed: AtomicU32::new(u32::MAX),
            deleting: Mutex::default(),
            erasing_seq: AtomicU64::new(Seq::MAX),
            queue: WriteQueue::new(queue::LOOKERS_MAX),
            commit: Mutex::new(parts.commit),
            versions: Mutex::new(parts.versions),
            read_wals: parts.read_wals,
            retired: Mutex::new(Vec::new()),
            opened_wal: parts.current_wal.number,
            current_wal: Mutex::new(parts.current_wal),
            spare: Mutex::default(),
            retired_wal_bytes: AtomicU64::new(0),
            epochs: Mutex::new(Epochs::new(epoch, &parts.groups, parts.last_seq)),
            visible_seq: AtomicU64::new(parts.last_seq),
            snapshots: Arc::new(SnapshotList::new(background.clone())),
            flushing: Mutex::new(()),
            background,
            readers: Readers::new(if parts.inline { 0 } else { READERS_MAX }),
            counters: WriteCounters::default(),
            memtable_bytes: AtomicU64::new(0),
            memtables_limit_bytes,
            slow_from_bytes: (memtables_limit_bytes as f64 * pace::START) as u64,
            read_only: parts.read_only,
            lock: Mutex::new(parts.lock),
        }
    }

    /// Counts off memory of a memtable, once, where the memtable leaves its keyspace's view.
    pub(super) fn release_memtable_bytes(&self, bytes: u64) {
        let before = self.memtable_bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "{bytes} bytes of memtables released of {before}");
    }

    /// Fails if the database takes no writes.
    #[inline]
    pub(super) fn check_writable(&self) -> Result<()> {
        self.store.check_poison()?;
        if self.read_only { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// From now on the database takes no writes: the state on disk is not what it should be.
    pub(super) fn poison(&self, why: String) {
        self.store.poison(why);
        self.background.wake_all();
    }

    /// Poisons the database if this error is a failed sync.
    pub(super) fn poison_if_sync(&self, error: &Error) {
        if error.is_sync_failure() {
            self.poison(error.to_string());
        }
    }

    /// The versions, for changing them.
    pub(super) fn lock_versions(&self) -> Result<VersionsGuard<'_>> {
        let guard = self.versions.lock();
        if guard.is_none() {
            return Err(if self.read_only { Error::ReadOnly } else { Error::Cancelled });
        }
        Ok(VersionsGuard { guard, background: &self.background })
    }

    /// Fails if the manifest takes no edits, after trying to write it anew.
    pub(super) fn mend_manifest(&self) -> Result<()> {
        self.lock_versions()?.mend()
    }

    /// The keyspace with this id.
    pub(super) fn keyspace(&self, id: KeyspaceId) -> Option<Arc<KeyspaceCore>> {
        self.keyspaces.load().get(id).cloned()
    }

    /// Lets readers see the versions as they are now, in all keyspaces.
    pub(super) fn show_versions(&self, versions: &VersionSet) {
        for keyspace in self.keyspaces.load().by_id.values() {
            let Some(record) = versions.keyspaces.get(&keyspace.id) else { continue };
            let version = record.version.clone();
            keyspace.update_view(|view| view.follow(version, None));
        }
    }

    /// Tells compactions that are at work that a group was erased, by an edit that is in force. To
    /// be called under `versions`.
    pub(super) fn note_erased(&self, range: &Arc<GroupRange>, seq: Seq) {
        for keyspace in self.keyspaces.load().by_id.values() {
            if keyspace.options.order.is_bytewise() {
                keyspace.erasures.note(range, seq);
            }
        }
    }

    /// Tells the pace-keeper how full level 0 is.
    pub(super) fn measure_level0(&self) {
        let fill = |keyspace: &Arc<KeyspaceCore>| {
            let runs = keyspace.view.load().version.level(0).len();
            let options = &keyspace.options;
            pace::level0_fill(runs, options.level0_runs_slow, options.level0_runs_max)
        };
        let is_over = |keyspace: &Arc<KeyspaceCore>| {
            let runs = keyspace.view.load().version.level(0).len();
            pace::level0_is_over(runs, keyspace.options.level0_runs_max)
        };
        self.stall.measure_level0(|| {
            let keyspaces = self.keyspaces.load();
            let fullest = keyspaces.by_id.values().map(fill).fold(0.0, f64::max);
            (fullest, keyspaces.by_id.values().any(is_over))
        });
    }
}

/// The locked versions of a database that can be written.
pub(super) struct VersionsGuard<'a> {
    guard: MutexGuard<'a, Option<VersionSet>>,
    background: &'a Background,
}

impl VersionsGuard<'_> {
    /// As [`VersionSet::commit`]; whoever waits for something that a poisoned store never does
    /// learns of it.
    pub(super) fn commit(
        &mut self,
        edit: VersionEdit,
        options: Option<&Arc<KeyspaceOptions>>,
    ) -> Result<()> {
        (**self).commit(edit, options).inspect_err(|error| {
            if error.is_sync_failure() {
                self.background.wake_all();
            }
        })
    }
}

impl std::ops::Deref for VersionsGuard<'_> {
    type Target = VersionSet;

    fn deref(&self) -> &VersionSet {
        self.guard.as_ref().expect("checked when locked")
    }
}

impl std::ops::DerefMut for VersionsGuard<'_> {
    fn deref_mut(&mut self) -> &mut VersionSet {
        self.guard.as_mut().expect("checked when locked")
    }
}

//! The handles that users hold. Everything here checks its arguments and hands on.

use super::collect_report::CollectReport;
use super::core::{Core, KeyspaceCore};
use super::ingest::Ingest;
use super::open::{self, Running, Setup};
use super::scan::{Cursor, Pairs};
use super::scan_range::{ScanOptions, ScanRange};
use super::secondary::{build, declare, write};
use super::snapshot::Snapshot;
use super::unordered::UnorderedCursor;
use super::write::How;
use super::{checkpoint, compact, keyspaces, multi_get, reshape, statistics, verify};
use crate::names;
use crate::options::{Compaction, KeyspaceOptions, Options, WriteOptions};
use crate::report::{Stats, TableInfo};
use crate::value::Value;
use crate::version::KeyRange;
use esker_base::sync::atomic::Ordering;
use esker_base::{Batch, Error, KeyspaceId, Result};
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

/// An open database. Cheap to clone; the last clone that is dropped closes it.
///
/// Reads and writes without a keyspace are for the default one.
///
/// It belongs to the process that has opened it. A child that this process forks may drop it, or
/// end, and the parent does not notice; whatever else the child does with it, or with what was made
/// of it, is not defined. The child opens a store of its own.
///
/// # Errors
/// Each call tells what it may return beside what many have in common. Whatever writes: `ReadOnly`
/// if the store was opened for reading, `Poisoned` after a failure that only another open mends,
/// `NoSpace`, which passes, and `Io`; in a keyspace with an index of a field `Corruption` too,
/// since the old record is read. Whatever reads: `Corruption`, `Io` and `NotFound`, of a table or
/// of a file with values; `InvalidArgument` for a snapshot of another store or of an earlier open.
/// All calls on a keyspace that was dropped: `InvalidArgument`.
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("esker-doc-{}", std::process::id()));
/// let db = esker::Db::open(&dir, esker::Options::default())?;
/// db.put(b"bread", b"2")?;
/// assert_eq!(db.get(b"bread")?.as_deref(), Some(&b"2"[..]));
/// for pair in db.iter()? {
///     let (key, value) = pair?;
///     println!("{} {}", key.escape_ascii(), value.escape_ascii());
/// }
/// db.close()?;
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Db {
    default: Keyspace,
}

/// A keyspace of an open database: its own keys, tables and options. Cheap to clone.
///
/// Holds the database open. Errors that many calls have in common are told at [`Db`].
#[derive(Clone)]
pub struct Keyspace {
    pub(super) running: Arc<Running>,
    pub(super) core: Arc<KeyspaceCore>,
}

esker_base::sync::thread_local! {
    /// Batches for single writes, reused.
    static SCRATCH: RefCell<Batch> = RefCell::new(Batch::new());
}

/// A scratch batch larger than this is not kept.
const SCRATCH_BYTES_MAX: usize = 64 << 10;

impl Db {
    /// Opens the database in `dir`, creating it if the options say so.
    ///
    /// # Errors
    /// `Busy`: somebody has it open. `Corruption`: a file is damaged or missing; see
    /// [`crate::repair`]. `Incompatible`: a keyspace has another key order, or a newer version made
    /// a file. `InvalidArgument`: an option is out of range, options contradict each other, or the
    /// database exists and `error_if_exists`. `NotFound`: there is none, and none was to be
    /// created.
    /// # Cost
    /// Reads the manifest and the logs; logs over 1 MiB become tables.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_with(dir, options, Setup::default())
    }

    /// Opens a database in a given world, with somebody who listens to events.
    ///
    /// # Errors
    /// As [`Db::open`]; `InvalidArgument` too if the setup wants keyspaces with options of their
    /// own to exist, and one does not.
    pub fn open_with(dir: impl AsRef<Path>, options: Options, setup: Setup) -> Result<Db> {
        Db::new(open::open(dir.as_ref(), options, setup)?)
    }

    /// Opens an existing database for reading. Nothing on the disk changes.
    ///
    /// # Errors
    /// As [`Db::open`]; `NotFound` if there is none.
    /// # Cost
    /// What its logs hold and no table does is in memory as long as it is open, beside the budget.
    pub fn open_read_only(dir: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_read_only_with(dir, options, Setup::default())
    }

    /// As [`Db::open_read_only`], in a given world.
    pub fn open_read_only_with(
        dir: impl AsRef<Path>,
        options: Options,
        setup: Setup,
    ) -> Result<Db> {
        Db::new(open::open_read_only(dir.as_ref(), options, setup)?)
    }

    fn new(running: Running) -> Result<Db> {
        let missing = "the manifest names no default keyspace";
        let core = running.core.keyspace(KeyspaceId::DEFAULT);
        let core = core.ok_or_else(|| Error::corruption(&*running.core.dir, 0, missing))?;
        Ok(Db { default: Keyspace { running: Arc::new(running), core } })
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.default.running.core
    }

    /// The default keyspace.
    pub fn default_keyspace(&self) -> &Keyspace {
        &self.default
    }

    /// A keyspace that exists.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none of this name.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        names::check_no_index(name)?;
        let found = self.core().keyspaces.load().by_name(name).cloned();
        let core = found.ok_or_else(|| Error::invalid(format!("no keyspace {name:?}")))?;
        Ok(Keyspace { running: self.default.running.clone(), core })
    }

    /// Creates a keyspace.
    ///
    /// # Errors
    /// `InvalidArgument` if the name is taken or not allowed, or an option out of range.
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let core = keyspaces::create(self.core(), name, options)?;
        Ok(Keyspace { running: self.default.running.clone(), core })
    }

    /// Removes a keyspace with everything in it and its indexes, at once. Handles to it get errors
    /// from then on.
    ///
    /// # Errors
    /// `InvalidArgument` for the default keyspace, or if there is none of this name.
    /// # Cost
    /// Like [`Db::sync`] and an edit of the manifest: what was written before it is there after a
    /// power cut if the drop is. Below somebody else's log it is flushed for that, unless the disk
    /// is full: then the keyspace goes all the same.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        declare::drop_keyspace(self.core(), name)
    }

    /// The names of all keyspaces, the default one first.
    pub fn keyspace_names(&self) -> Vec<String> {
        let keyspaces = self.core().keyspaces.load();
        let all = keyspaces.by_id.values().map(|keyspace| &keyspace.name);
        all.filter(|name| !names::is_index(name)).cloned().collect()
    }

    /// Sets a key in the default keyspace.
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.default.put(key, value)
    }

    /// Removes a key from the default keyspace. It need not be there.
    #[inline]
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.default.delete(key)
    }

    /// Removes every key of `[start, end)` from the default keyspace.
    pub fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<()> {
        self.default.delete_range(start, end)
    }

    /// The value of a key in the default keyspace.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.default.get(key)
    }

    /// All keys and values of the default keyspace, as of now.
    pub fn iter(&self) -> Result<Pairs> {
        self.default.iter()
    }

    /// The keys and values of a range of the default keyspace, as of now.
    pub fn range(&self, range: impl ScanRange) -> Result<Pairs> {
        self.default.range(range)
    }

    /// Writes a batch: all of it or, on an error, nothing; across keyspaces too.
    ///
    /// # Errors
    /// `InvalidArgument`: the batch cannot be written, for its keys, values or length, since it
    /// holds more than 1 000 records longer than 1 MiB, since a keyspace of it is not there (any
    /// more), or since a field is too long for an index; or `sync` with `durability = external`.
    /// `NoSpace`: try again later. `ReadOnly`: it was opened for reading. `Poisoned`: reopen.
    #[inline]
    pub fn write(&self, mut batch: Batch, options: WriteOptions) -> Result<()> {
        write::write(self.core(), &mut batch, How::of(options))
    }

    /// Makes every write so far durable.
    ///
    /// # Errors
    /// `InvalidArgument` in a store with `durability = external`, which has no log: flush it.
    pub fn sync(&self) -> Result<()> {
        write::write(self.core(), &mut Batch::new(), How::of(WriteOptions::SYNC))
    }

    /// The database as it is now, for reading later. Costs a lock.
    pub fn snapshot(&self) -> Snapshot {
        let core = self.core();
        core.snapshots.open(|| core.visible_seq.load(Ordering::Acquire))
    }

    /// Writes all memtables of all keyspaces to tables, and waits for it.
    ///
    /// # Errors
    /// `ReadOnly`, `Poisoned`; `NoSpace`: it is tried again, also if nobody waits; `Cancelled` if
    /// the database is closed meanwhile; of the disk.
    pub fn flush(&self) -> Result<()> {
        let all: Vec<KeyspaceId> = self.core().keyspaces.load().by_id.keys().copied().collect();
        keyspaces::flush(self.core(), &all)
    }

    /// Makes a copy of the database in `dir`, which must not exist, as of now. Tables are shared by
    /// hard links where the file system allows it, and copied otherwise.
    ///
    /// # Errors
    /// `InvalidArgument` if `dir` exists, or is inside of the database's own directory, by whatever
    /// path; `Cancelled` if the database is closed meanwhile; of the disk. Nothing of `dir` is left
    /// then, only directories above it that were made for it.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        checkpoint::checkpoint(self.core(), dir.as_ref())
    }

    /// Reads everything and checks it: tables, files with values, and logs but for the one that is
    /// being written (in a database that is only read, all logs); and compares indexes that are
    /// ready with their records.
    ///
    /// `progress` is called after each file and each index; returning false ends the check with
    /// `Cancelled`.
    ///
    /// # Errors
    /// Of the check itself. Damage is not an error of the call: it is listed in the report.
    pub fn verify(
        &self,
        progress: impl FnMut(&verify::VerifyProgress) -> bool,
    ) -> Result<verify::VerifyReport> {
        verify::verify(self.core(), progress)
    }

    /// What the engine did and what it holds.
    pub fn stats(&self) -> Stats {
        self.core().stats()
    }

    /// Gives back the space of dead values: those of all files of which at least `dead_share_min`
    /// is dead are moved together. In the background that happens by itself, as
    /// `value_log_space_amp_max` demands.
    ///
    /// What is dead is known only of records that compactions have dropped;
    /// [`Keyspace::compact_range`] of everything drops all that nobody sees. Files that are made
    /// after the call has begun are not looked at. `progress` is called after each file that was
    /// written; returning false ends it with `Cancelled`, and what was moved stays moved.
    ///
    /// # Errors
    /// `InvalidArgument` if the share is outside 0 to 1; `Corruption` if a value cannot be read, in
    /// which case its file stays, and all others have been collected; of the disk.
    /// # Cost
    /// Reads and writes what is alive of these files; syncs each new one and the manifest.
    pub fn collect_values(
        &self,
        dead_share_min: f64,
        progress: impl FnMut(&CollectReport) -> bool,
    ) -> Result<CollectReport> {
        self.core().collect_values(dead_share_min, progress)
    }

    /// Waits until all indexes are ready, no flush is due, no level is over its limit, scans have
    /// paid for no compaction, nothing of a deleted group is to be rewritten, no small tables are
    /// to become one, no values are to be collected and no run index is to be made.
    ///
    /// # Errors
    /// Of work in the background that fails meanwhile, such as for want of space; it is tried
    /// again, also if nobody waits. `ReadOnly`, `Poisoned`; `Cancelled` if the database is closed
    /// meanwhile.
    pub fn wait_idle(&self) -> Result<()> {
        build::wait(self.core())?;
        keyspaces::wait_idle(self.core())
    }

    /// Makes every write durable and closes the database, also for other handles. If it is being
    /// closed already, or was, this waits for that and returns the same.
    ///
    /// # Errors
    /// What could not be made durable. The database is closed in any case. `InvalidArgument` in a
    /// process that was forked from the one that has opened it: nothing is touched then.
    pub fn close(self) -> Result<()> {
        self.default.running.close()
    }
}

impl Keyspace {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// What names it in a [`Batch`].
    pub fn id(&self) -> KeyspaceId {
        self.core.id
    }

    #[inline]
    pub(super) fn check_live(&self) -> Result<()> {
        self.core.check_live()
    }

    #[inline]
    fn write_one(&self, fill: impl FnOnce(&mut Batch)) -> Result<()> {
        self.check_live()?;
        let mut fill = Some(fill);
        let written = SCRATCH.try_with(|scratch| {
            let mut batch = scratch.try_borrow_mut().ok()?;
            let fill = fill.take()?;
            batch.clear();
            fill(&mut batch);
            let result = write::write(&self.running.core, &mut batch, How::default());
            if batch.size_bytes() > SCRATCH_BYTES_MAX {
                *batch = Batch::new();
            }
            Some(result)
        });
        match written {
            Ok(Some(result)) => result,
            _ => self.write_apart(fill.expect("whoever takes it writes")),
        }
    }

    /// The same where the scratch batch is gone, since the thread is ending, or is in use further
    /// up.
    #[cold]
    fn write_apart(&self, fill: impl FnOnce(&mut Batch)) -> Result<()> {
        let mut batch = Batch::new();
        fill(&mut batch);
        write::write(&self.running.core, &mut batch, How::default())
    }

    /// Sets a key. Survives the death of the process, but with `durability = external`; see
    /// [`Db::sync`] for power cuts.
    ///
    /// # Errors
    /// `InvalidArgument`: key over 1 MiB or value over 1 GiB. `NoSpace`: try again later.
    /// # Cost
    /// One copy to the log and one to the memtable; hardly a system call for records below 4 KiB as
    /// long as nothing is full. Of an indexed keyspace, a get of what was there too.
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write_one(|batch| {
            batch.put_in(self.core.id, key, value);
        })
    }

    /// Removes a key. It need not be there.
    #[inline]
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.write_one(|batch| {
            batch.delete_in(self.core.id, key);
        })
    }

    /// Removes every key of `[start, end)`; nothing if `end` is not after `start`.
    ///
    /// # Cost
    /// One record, whatever the number of keys. Space comes back with compaction. If the keyspace
    /// has indexes, every key of the range is read and held in memory, while nobody else writes to
    /// indexed keyspaces: delete large ranges by parts.
    pub fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<()> {
        self.write_one(|batch| {
            batch.delete_range_in(self.core.id, start, end);
        })
    }

    /// The value of a key, or `None`.
    ///
    /// # Errors
    /// `Corruption` or `Io` if a table cannot be read; `InvalidArgument` if the keyspace was
    /// dropped.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.running.core.get(&self.core, key, None)
    }

    /// The value of a key as a snapshot sees it.
    pub fn get_at(&self, key: &[u8], snapshot: &Snapshot) -> Result<Option<Value>> {
        self.running.core.get(&self.core, key, Some(snapshot))
    }

    /// The value of a key as tables have it, memtables left out: with `durability = external`, what
    /// a crash would leave now.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    /// # Source
    /// GetPersisted of PheonixLSM; RocksDB's `kPersistedTier`.
    pub fn get_persisted(&self, key: &[u8]) -> Result<Option<Value>> {
        self.running.core.get_persisted(&self.core, key)
    }

    /// The values of several keys, all as of one moment, in the order of the keys.
    ///
    /// # Errors
    /// As [`Keyspace::get`], of the first key that has one.
    /// # Cost
    /// That of as many gets where they are found in memory. Where they come from a disk, up to
    /// eight threads beside this one read the blocks of different keys at once.
    /// # Source
    /// RocksDB's MultiGet; see `db/multi_get.rs` for how it differs.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        snapshot: Option<&Snapshot>,
    ) -> Result<Vec<Option<Value>>> {
        multi_get::multi_get(&self.running.core, &self.core, keys, snapshot)
    }

    /// A cursor over a range. It stands on nothing until it is positioned.
    ///
    /// # Errors
    /// `InvalidArgument` if the range ends before it starts, or the keyspace was dropped.
    pub fn scan(&self, options: &ScanOptions<'_>) -> Result<Cursor> {
        self.running.core.scan(&self.core, options)
    }

    /// A cursor over a range, in the order in which values stand on the disk: for large ranges of
    /// values that are kept apart, which it reads in large pieces.
    ///
    /// `memory_bytes`: what it may take for keys and places before it reads their values, but for a
    /// single key that is longer; the more, the larger the pieces. Some tens of MiB are plenty. A
    /// piece takes up to 1 MiB beside that, or its largest value.
    ///
    /// # Errors
    /// `InvalidArgument` if the range ends before it starts.
    pub fn scan_unordered(
        &self,
        options: &ScanOptions<'_>,
        memory_bytes: usize,
    ) -> Result<UnorderedCursor> {
        self.running.core.scan_unordered(&self.core, options, memory_bytes)
    }

    /// All keys and values, as of now.
    pub fn iter(&self) -> Result<Pairs> {
        self.pairs(ScanOptions::default())
    }

    /// The keys and values of a range, as of now.
    pub fn range(&self, range: impl ScanRange) -> Result<Pairs> {
        self.pairs(ScanOptions::range(range))
    }

    /// The keys that start with a prefix and their values, as of now. In bytewise order.
    pub fn prefix(&self, prefix: &[u8]) -> Result<Pairs> {
        self.pairs(ScanOptions::prefix(prefix))
    }

    fn pairs(&self, options: ScanOptions<'_>) -> Result<Pairs> {
        let core = &self.running.core;
        // One view for both ends: they are of one moment, whatever is deleted meanwhile.
        let (view, seq) = core.moment(&self.core, options.snapshot)?;
        let ScanOptions { start, end, fill_cache, persisted, keys_only, .. } = options;
        let options = ScanOptions { start, end, snapshot: None, fill_cache, persisted, keys_only };
        let front = core.scan_in(&self.core, &options, view.clone(), seq)?;
        // Not this handle: nothing that walks keeps the store open.
        let (core, keyspace) = (core.clone(), self.core.clone());
        let order = keyspace.options.order.clone();
        Ok(Pairs::new(front, order, move || core.scan_in(&keyspace, &options, view, seq)))
    }

    /// Writes the memtables of this keyspace to tables, and waits for it; with
    /// `durability = external`, those of all keyspaces.
    ///
    /// # Errors
    /// As [`Db::flush`]; `InvalidArgument` if the keyspace was dropped.
    pub fn flush(&self) -> Result<()> {
        self.check_live()?;
        keyspaces::flush(&self.running.core, &[self.core.id])
    }

    /// Compacts everything in `[start, end)` into the deepest level in use, dropping what is
    /// deleted. `None` is open. Flushes first. Runs on this thread; writes and reads go on, and
    /// what they write meanwhile may stay where it is.
    ///
    /// # Errors
    /// As [`Keyspace::flush`]; `Cancelled` if the keyspace is dropped meanwhile.
    /// # Cost
    /// Reads and writes every table of the range above the deepest level in use, and of that level
    /// those that they overlap or that hold tombstones; of a tiered tree all of it, whatever the
    /// range.
    pub fn compact_range(&self, start: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.flush()?;
        let range = KeyRange { start, end, end_inclusive: false };
        compact::compact_range(&self.running.core, &self.core, &range)
    }

    /// Has this keyspace be compacted by another policy from now on, until it is closed: name the
    /// same one in the options of the next open, or that opens it as before.
    ///
    /// Waits for compactions of the keyspace that are under way, and none is begun meanwhile; reads
    /// and writes go on, until level 0 is full. Nothing is rewritten at once: the new policy merges
    /// what is over its limits, in the background. A manual compaction in another thread begins
    /// anew by the new policy. Indexes of fields are compacted as before until the next open.
    ///
    /// # Errors
    /// `InvalidArgument` if another option forbids it: a run index needs tiers. `ReadOnly`,
    /// `Poisoned`. `Cancelled` if the store is closed or the keyspace dropped meanwhile; the error
    /// of a flush that fails meanwhile.
    ///
    /// # Cost
    /// The rest of the longest compaction under way: mostly below a second, minutes where a deep
    /// level of a large tiered tree is merged.
    pub fn set_compaction(&self, compaction: Compaction) -> Result<()> {
        self.check_live()?;
        reshape::set_compaction(&self.running.core, &self.core, compaction)
    }

    /// About how many bytes of table files the keys of `[start, end)` take.
    ///
    /// # Cost
    /// Asks the index of each table that overlaps, which may read it from the disk.
    pub fn approximate_size(&self, start: Option<&[u8]>, end: Option<&[u8]>) -> Result<u64> {
        self.check_live()?;
        keyspaces::approximate_size(&self.core, start, end)
    }

    /// The tables there are, newest data first, and within a run in the order of keys.
    ///
    /// # Cost
    /// A copy of two keys for each table.
    pub fn tables(&self) -> Result<Vec<TableInfo>> {
        self.check_live()?;
        Ok(statistics::tables(&self.core))
    }

    /// Starts bulk loading of sorted data, which becomes visible all at once when finished.
    ///
    /// # Cost
    /// Each record is written once, to its table; neither log nor memtable sees it.
    /// [`Ingest::finish`] flushes the memtables of the keyspace, with `durability = external` of
    /// all, and syncs the log first.
    pub fn ingest(&self) -> Result<Ingest> {
        self.check_live()?;
        self.running.core.check_writable()?;
        Ok(Ingest::new(self.running.clone(), self.core.clone()))
    }
}

impl From<&Keyspace> for KeyspaceId {
    fn from(keyspace: &Keyspace) -> KeyspaceId {
        keyspace.id()
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Db({})", self.core().dir.display())
    }
}

impl std::fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keyspace({:?})", self.core.name)
    }
}

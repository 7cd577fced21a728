//! Tables as the tree holds them, and what they share: directory, caches, open files.
//!
//! A table is opened when it is first read. Half of the files that may be open are for tables that
//! stay open until no version holds them: to read one of them costs no count and no guard. The
//! others may be closed again when too many are open. A table's file is removed after the last
//! version that holds it is gone, never by a reader's thread: the dropped table leaves its name
//! with the store, and a background thread calls [`TableStore::sweep`].

use super::cover::Cover;
use super::edit::TableMeta;
use crate::event::{Event, EventSink};
use crate::names;
use crate::options::{KeyspaceOptions, MemoryShares};
use crate::range_tombstone::RangeTombstones;
use crate::stats::TableCounters;
use crate::table::{BlockCache, TableContext, TableFile, TableReader};
use crate::value_log::ValueStore;
use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker_base::sync::{ArcSwapOption, Guard, Mutex, OnceLock, RwLock};
use esker_base::vfs::Access;
use esker_base::{Env, Error, KeyOrder, Result, Vfs};
use std::collections::VecDeque;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

/// What all tables of a database share.
pub(crate) struct TableStore {
    pub(crate) env: Env,
    pub(crate) dir: PathBuf,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) counters: Arc<TableCounters>,
    pub(crate) events: EventSink,
    pub(crate) memory: MemoryShares,
    /// Of files with values.
    pub(crate) values: Arc<ValueStore>,
    /// Most tables that stay open, and most others that are open.
    kept_max: usize,
    passing_max: usize,
    /// Tables that stay open.
    kept: Mutex<Vec<Weak<Table>>>,
    /// The other open ones, in the order of a clock's hand.
    passing: Mutex<VecDeque<Weak<Table>>>,
    /// Of the memory for pins, bytes promised to open tables.
    pin_bytes_promised: AtomicU64,
    next_number: AtomicU64,
    /// Why nothing may be changed any more.
    poison: OnceLock<String>,
    /// The right to sync the directory.
    syncing_dir: Mutex<()>,
    /// Numbers of table files that nobody holds any more.
    garbage: Mutex<Vec<u64>>,
    /// How many tables are in no version to come, and held by somebody.
    held: AtomicU64,
    /// The right to remove them: whoever has it is done when it is free again.
    sweeping: Mutex<()>,
    /// True once the directory is not ours any more. Held by those who make or remove files in it
    /// that no manifest names.
    given_up: RwLock<bool>,
}

/// A live table. Dropping the last reference to an obsolete one gives its file up.
pub(crate) struct Table {
    pub(crate) meta: TableMeta,
    options: Arc<KeyspaceOptions>,
    store: Arc<TableStore>,
    /// Set once, if it stays open.
    kept: OnceLock<Arc<TableReader>>,
    /// If it is one of the others and open.
    passing: ArcSwapOption<TableReader>,
    /// Of the others: read since the hand came by.
    recently_used: AtomicBool,
    /// What its range tombstones cover, once it was opened.
    cover: OnceLock<Cover>,
    obsolete: AtomicBool,
    /// Set while a compaction has it as an input.
    pub(crate) compacting: AtomicBool,
}

/// The reader of an open table, for the moment.
pub(crate) enum Opened<'t> {
    /// Of a table that stays open.
    Kept(&'t Arc<TableReader>),
    /// Of one that may be closed meanwhile.
    Passing(Guard<Option<Arc<TableReader>>>),
}

impl Deref for Opened<'_> {
    type Target = Arc<TableReader>;

    #[inline]
    fn deref(&self) -> &Arc<TableReader> {
        match self {
            Opened::Kept(reader) => reader,
            Opened::Passing(guard) => guard.as_ref().expect("made of an opened table"),
        }
    }
}

impl TableStore {
    pub(crate) fn new(
        env: Env,
        dir: PathBuf,
        events: EventSink,
        open_files_max: usize,
        memory: MemoryShares,
    ) -> TableStore {
        let counters = Arc::new(TableCounters::new());
        let values_max = open_files_max / 4;
        let values =
            ValueStore::new(env.clone(), dir.clone(), events.clone(), counters.clone(), values_max);
        TableStore {
            env,
            dir,
            cache: Arc::new(BlockCache::between(memory.cache_bytes, memory.cache_bytes_beside(0))),
            counters,
            events,
            memory,
            values: Arc::new(values),
            kept_max: open_files_max / 2,
            passing_max: open_files_max - open_files_max / 2,
            kept: Mutex::new(Vec::new()),
            passing: Mutex::new(VecDeque::new()),
            pin_bytes_promised: AtomicU64::new(0),
            next_number: AtomicU64::new(1),
            poison: OnceLock::new(),
            syncing_dir: Mutex::new(()),
            garbage: Mutex::new(Vec::new()),
            held: AtomicU64::new(0),
            sweeping: Mutex::new(()),
            given_up: RwLock::new(false),
        }
    }

    /// Makes the names in the directory durable.
    ///
    /// # Errors
    /// Of the disk, which says so once: whoever asks next is told that all is well, for names that
    /// may be lost. So the store is poisoned before somebody else may ask.
    pub(crate) fn sync_dir(&self) -> Result<()> {
        let _one_at_a_time = self.syncing_dir.lock();
        self.check_poison()?;
        self.env.vfs.sync_dir(&self.dir).inspect_err(|error| self.poison_if_sync(error))
    }

    /// From now on nothing is changed: the state on disk is not what it should be.
    pub(crate) fn poison(&self, why: String) {
        if self.poison.set(why.clone()).is_ok() {
            self.events.emit(&Event::Poisoned { why });
        }
    }

    /// The same if this error is a failed sync.
    pub(crate) fn poison_if_sync(&self, error: &Error) {
        if error.is_sync_failure() {
            self.poison(error.to_string());
        }
    }

    /// Fails if nothing may be changed.
    #[inline]
    pub(crate) fn check_poison(&self) -> Result<()> {
        match self.poison.get() {
            Some(why) => Err(Error::Poisoned { why: why.clone() }),
            None => Ok(()),
        }
    }

    /// A file number that was never used.
    pub(crate) fn new_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// The number that comes next.
    pub(crate) fn peek_number(&self) -> u64 {
        self.next_number.load(Ordering::Relaxed)
    }

    /// Never gives out numbers below `number`.
    pub(crate) fn skip_numbers_below(&self, number: u64) {
        self.next_number.fetch_max(number, Ordering::Relaxed);
    }

    /// Makes or removes a file that no manifest names, whoever may close the database meanwhile.
    ///
    /// # Errors
    /// `Cancelled` once the database is closed: then others may have files of the same names.
    pub(crate) fn in_directory<T>(&self, work: impl FnOnce(&dyn Vfs) -> Result<T>) -> Result<T> {
        let given_up = self.given_up.read();
        if *given_up { Err(Error::Cancelled) } else { work(self.env.vfs.as_ref()) }
    }

    /// From now on no file is made or removed any more: the directory is about to be somebody
    /// else's.
    pub(crate) fn give_up_directory(&self) {
        *self.given_up.write() = true;
    }

    /// Heap bytes of open tables' index and filters.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        let bytes = |reader: &TableReader| reader.memory_bytes();
        let kept = self.kept.lock();
        let kept = kept.iter().filter_map(Weak::upgrade);
        let kept: u64 = kept.filter_map(|table| table.kept.get().map(|r| bytes(r))).sum();
        let passing = self.passing.lock();
        let passing = passing.iter().filter_map(Weak::upgrade);
        kept + passing.filter_map(|t| t.passing.load().as_ref().map(|r| bytes(r))).sum::<u64>()
    }

    /// Files that are open.
    pub(crate) fn open_files(&self) -> usize {
        let lives = |table: &&Weak<Table>| table.strong_count() > 0;
        let kept = self.kept.lock().iter().filter(lives).count();
        kept + self.passing.lock().iter().filter(lives).count()
    }

    /// True if this table may stay open.
    fn may_keep(&self, table: &Arc<Table>) -> bool {
        let mut kept = self.kept.lock();
        if kept.iter().any(|other| other.as_ptr() == Arc::as_ptr(table)) {
            return true;
        }
        kept.retain(|other| other.strong_count() > 0);
        let may = kept.len() < self.kept_max;
        if may {
            kept.push(Arc::downgrade(table));
        }
        may
    }

    /// A table that may stay open could not be opened: another one may stay in its place.
    fn keep_no_more(&self, table: &Arc<Table>) {
        let mut kept = self.kept.lock();
        // Another thread may have opened it.
        if table.kept.get().is_none() {
            kept.retain(|other| other.as_ptr() != Arc::as_ptr(table));
        }
    }

    /// Wraps a table that exists on disk.
    pub(crate) fn table(
        self: &Arc<TableStore>,
        meta: TableMeta,
        options: &Arc<KeyspaceOptions>,
    ) -> Arc<Table> {
        Arc::new(Table {
            meta,
            options: options.clone(),
            store: self.clone(),
            kept: OnceLock::new(),
            passing: ArcSwapOption::empty(),
            recently_used: AtomicBool::new(false),
            cover: OnceLock::new(),
            obsolete: AtomicBool::new(false),
            compacting: AtomicBool::new(false),
        })
    }

    /// Gives up tables that were made and that no manifest has ever named.
    pub(crate) fn discard(&self, tables: &[TableMeta]) {
        self.garbage.lock().extend(tables.iter().map(|meta| meta.number));
    }

    /// True if there are files that are no longer needed, and stay because somebody, such as a
    /// cursor, held them.
    pub(crate) fn has_held(&self) -> bool {
        let of_tables = self.held.load(Ordering::Relaxed) > 0 || !self.garbage.lock().is_empty();
        of_tables || self.values.has_held()
    }

    /// Removes the files of obsolete tables that nobody holds. Returns how many. When it returns,
    /// those are gone too that another thread was about to remove.
    ///
    /// A file that cannot be removed now is an orphan that the next open removes.
    pub(crate) fn sweep(&self) -> usize {
        let _one_at_a_time = self.sweeping.lock();
        let of_values = self.values.sweep(|path| self.in_directory(|vfs| vfs.remove(path)));
        let numbers = std::mem::take(&mut *self.garbage.lock());
        self.cache.forget_files(&numbers);
        for &number in &numbers {
            let path = names::table(&self.dir, number);
            match self.in_directory(|vfs| vfs.remove(&path)) {
                Ok(()) => self.events.emit(&Event::TableRemoved { number }),
                Err(error) => self.events.emit(&Event::CleanupFailed { path, error }),
            }
        }
        of_values + numbers.len()
    }

    /// Promises so much of the memory for pins. False if there is less.
    fn promise_pins(&self, bytes: u64) -> bool {
        let with_it = |promised: u64| {
            let with_it = promised.checked_add(bytes)?;
            (with_it <= self.memory.pinned_bytes).then_some(with_it)
        };
        let promised = &self.pin_bytes_promised;
        let is_promised =
            promised.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with_it).is_ok();
        if is_promised {
            self.share_with_cache();
        }
        is_promised
    }

    /// Takes such a promise back.
    fn release_pins(&self, bytes: u64) {
        self.pin_bytes_promised.fetch_sub(bytes, Ordering::Relaxed);
        self.share_with_cache();
    }

    /// The block cache has what pins leave, from now on.
    fn share_with_cache(&self) {
        if self.memory.cache_borrows {
            self.cache.lend_to_blocks(|| {
                self.memory.cache_bytes_beside(self.pin_bytes_promised.load(Ordering::Relaxed))
            });
        }
    }

    /// Notes an opened table that does not stay open, and closes others of them that were not used
    /// lately, if there are too many.
    fn note_passing(&self, table: &Arc<Table>) {
        let mut open = self.passing.lock();
        open.push_back(Arc::downgrade(table));
        // Twice round the clock at most: the first round may only clear marks.
        let mut steps = 2 * open.len();
        while open.len() > self.passing_max && steps > 0 {
            steps -= 1;
            let Some(candidate) = open.pop_front() else { break };
            let Some(candidate) = candidate.upgrade() else { continue };
            if candidate.recently_used.swap(false, Ordering::Relaxed) {
                open.push_back(Arc::downgrade(&candidate));
            } else {
                candidate.close();
            }
        }
    }
}

impl Table {
    /// The opened table.
    ///
    /// # Errors
    /// `NotFound` or `Corruption` naming the file.
    #[inline]
    pub(crate) fn reader(self: &Arc<Table>) -> Result<Opened<'_>> {
        if let Some(reader) = self.kept.get() {
            return Ok(Opened::Kept(reader));
        }
        match self.passing_reader() {
            Some(opened) => Ok(opened),
            None => self.open(),
        }
    }

    /// The reader, if the table is one of those that stay open.
    #[inline]
    pub(crate) fn kept_reader(&self) -> Option<&TableReader> {
        self.kept.get().map(|reader| &**reader)
    }

    fn passing_reader(&self) -> Option<Opened<'_>> {
        let guard = self.passing.load();
        guard.as_ref()?;
        if !self.recently_used.load(Ordering::Relaxed) {
            self.recently_used.store(true, Ordering::Relaxed);
        }
        Some(Opened::Passing(guard))
    }

    /// The opened table, by reference count, for cursors.
    pub(crate) fn shared_reader(self: &Arc<Table>) -> Result<Arc<TableReader>> {
        self.reader().map(|opened| Arc::clone(&opened))
    }

    /// The table's range tombstones, with the sequence number they count as.
    #[inline]
    pub(crate) fn range_tombstones(&self, reader: &TableReader) -> Arc<RangeTombstones> {
        match self.meta.seq_override {
            None => reader.range_tombstones().clone(),
            Some(seq) => reader.range_tombstones_at(seq),
        }
    }

    /// What its range tombstones cover, as far as is known without the disk.
    pub(crate) fn cover(&self) -> Option<&Cover> {
        self.cover.get()
    }

    /// True if it covers something, and nobody knows yet what.
    pub(crate) fn has_unknown_cover(&self) -> bool {
        self.meta.range_tombstones > 0 && self.cover.get().is_none()
    }

    /// Has what its range tombstones cover be known from now on. False if the table cannot be read:
    /// who needs it will be told.
    pub(crate) fn learn_cover(self: &Arc<Table>) -> bool {
        self.reader().is_ok() && self.cover.get().is_some()
    }

    /// As if the table had been opened and that been found.
    #[cfg(test)]
    pub(crate) fn set_cover(&self, cover: Cover) {
        self.cover.set(cover).expect("it was not opened");
    }

    #[cold]
    fn open(self: &Arc<Table>) -> Result<Opened<'_>> {
        let store = &self.store;
        let stays = store.may_keep(self);
        let promised = store.pin_bytes_promised.load(Ordering::Relaxed);
        // What goes with the reader would have to be read again each time; what is cached stays.
        let pin_bytes_max =
            if stays { store.memory.pinned_bytes.saturating_sub(promised) } else { 0 };
        let mut reader = self.read_anew(pin_bytes_max).inspect_err(|_| {
            if stays {
                store.keep_no_more(self);
            }
        })?;
        if self.meta.range_tombstones > 0 {
            self.cover.get_or_init(|| Cover::of(&self.range_tombstones(&reader)));
        }
        // Two threads may open at once; the second keeps the first one's reader.
        if stays {
            let kept = self.kept.get_or_init(|| {
                // Others may have been promised it meanwhile.
                if !store.promise_pins(reader.pin_limit_bytes()) {
                    reader.pin_nothing();
                }
                Arc::new(reader)
            });
            return Ok(Opened::Kept(kept));
        }
        let reader = Arc::new(reader);
        let none = None::<Arc<TableReader>>;
        let before = self.passing.compare_and_swap(&none, Some(reader.clone()));
        if before.is_none() {
            store.note_passing(self);
        }
        // It may have been closed again by somebody in between: then our own is handed out.
        let closed = || Opened::Passing(Guard::from_inner(Some(reader)));
        Ok(self.passing_reader().unwrap_or_else(closed))
    }

    /// The table as the file has it, whatever is open: for who judges the file.
    ///
    /// # Errors
    /// As [`Table::reader`].
    pub(crate) fn read_anew(&self, pin_bytes_max: u64) -> Result<TableReader> {
        let (store, meta) = (&self.store, &self.meta);
        let path = names::table(&store.dir, meta.number);
        let file = store.env.vfs.open(&path, Access::Random)?;
        let context = TableContext {
            cache: store.cache.clone(),
            number: meta.number,
            counters: store.counters.clone(),
            pin_bytes_max,
        };
        let file = TableFile::new(file, &path, meta.file_bytes, meta.salt);
        let reader = TableReader::open(file, &self.options, &context)?;
        let (entries, ranges) = (reader.properties().entries, reader.properties().range_tombstones);
        if entries != meta.entries || ranges != meta.range_tombstones {
            let what = "the table and the manifest disagree on its contents";
            return Err(Error::corruption(path, 0, what));
        }
        Ok(reader)
    }

    fn close(&self) {
        self.passing.store(None);
    }

    /// The order of its keys.
    pub(crate) fn order(&self) -> &KeyOrder {
        &self.options.order
    }

    /// True if every key of the table is before `key`.
    #[inline]
    pub(crate) fn ends_before(&self, order: &KeyOrder, key: &[u8]) -> bool {
        match order.compare(&self.meta.largest, key) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => self.meta.largest_exclusive,
            std::cmp::Ordering::Greater => false,
        }
    }

    /// No version to come holds this table: its file goes when the last holder does.
    pub(crate) fn mark_obsolete(&self) {
        if !self.obsolete.swap(true, Ordering::AcqRel) {
            self.store.held.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// True if no version to come holds this table.
    pub(crate) fn is_obsolete(&self) -> bool {
        self.obsolete.load(Ordering::Acquire)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if let Some(reader) = self.kept.get() {
            self.store.release_pins(reader.pin_limit_bytes());
        }
        if self.is_obsolete() {
            // One or the other is seen by who looks whether there is something to remove.
            let mut garbage = self.store.garbage.lock();
            garbage.push(self.meta.number);
            self.store.held.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({})", self.meta.number)
    }
}

impl std::fmt::Debug for TableStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TableStore({})", self.dir.display())
    }
}

//! Files that values are read from, and what they share.
//!
//! A file is opened when it is first read, and closed when too many are open. There is one
//! [`ValueFile`] for a number as long as anybody holds one.

use super::compress::unpack;
use super::directory::{Directory, directories};
use crate::event::{Event, EventSink};
use crate::log::{HEADER_BYTES, RECORD_HEADER_BYTES, StoredValue, ValuePointer, ValueSource};
use crate::names;
use crate::stats::{TableCounter, TableCounters};
use crate::value::Value;
use esker_base::heap::Heap;
use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker_base::sync::{ArcSwapOption, Mutex};
use esker_base::vfs::{Access, ReadableFile};
use esker_base::{Env, Error, Result};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// Values of more stored bytes are read only after a look at the length of the file.
const READ_UNSEEN_BYTES_MAX: u32 = 16 << 20;

/// How values stand in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the write-ahead log that they were written to.
    Wal,
    /// In a file of their own, with a directory of where they stood before. The first of its two
    /// records begins at this offset.
    Moved { directory_at: u64 },
}

/// What the manifest says of a file that values are read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValueFileMeta {
    /// File number.
    pub(crate) number: u64,
    /// Random id of the file, as in its header.
    pub(crate) salt: u64,
    /// Its length; of a log, up to the end of the last record.
    pub(crate) file_bytes: u64,
    pub(crate) place: Place,
    /// The logs whose values it holds, ascending. Of values that were not moved, the file itself.
    pub(crate) logs: Arc<[u64]>,
}

impl ValueFileMeta {
    /// A log that values are written to.
    pub(crate) fn of_log(number: u64, salt: u64, file_bytes: u64) -> ValueFileMeta {
        ValueFileMeta { number, salt, file_bytes, place: Place::Wal, logs: [number].into() }
    }

    /// Bytes in which values may stand, batches of a log among them.
    pub(crate) fn value_bytes(&self) -> u64 {
        let end = match self.place {
            Place::Wal => self.file_bytes,
            Place::Moved { directory_at } => directory_at,
        };
        end.saturating_sub(HEADER_BYTES as u64)
    }

    /// The name of the file.
    pub(crate) fn path(&self, dir: &std::path::Path) -> PathBuf {
        match self.place {
            Place::Wal => names::wal(dir, self.number),
            Place::Moved { .. } => names::values(dir, self.number),
        }
    }
}

/// What all files with values share.
#[derive(Debug)]
pub(crate) struct ValueStore {
    env: Env,
    dir: PathBuf,
    events: EventSink,
    counters: Arc<TableCounters>,
    open_max: usize,
    /// By number, those that somebody holds.
    files: Mutex<BTreeMap<u64, Weak<ValueFile>>>,
    /// Open ones, in the order of a clock's hand.
    open: Mutex<VecDeque<Weak<ValueFile>>>,
    /// Files that nobody holds and the manifest does not name any more.
    garbage: Mutex<Vec<PathBuf>>,
    /// How many it does not name and somebody holds.
    held: AtomicU64,
}

/// A file that values are read from.
pub(crate) struct ValueFile {
    pub(crate) meta: ValueFileMeta,
    /// Its length as the manifest has it; 0 before it does.
    named_bytes: AtomicU64,
    path: PathBuf,
    store: Arc<ValueStore>,
    opened: ArcSwapOption<OpenedFile>,
    recently_used: AtomicBool,
    obsolete: AtomicBool,
}

#[derive(Debug)]
pub(super) struct OpenedFile {
    file: Arc<dyn ReadableFile>,
    /// Of values that were moved.
    directory: Option<Directory>,
}

impl ValueStore {
    pub(crate) fn new(
        env: Env,
        dir: PathBuf,
        events: EventSink,
        counters: Arc<TableCounters>,
        open_max: usize,
    ) -> ValueStore {
        ValueStore {
            env,
            dir,
            events,
            counters,
            open_max: open_max.max(1),
            files: Mutex::default(),
            open: Mutex::default(),
            garbage: Mutex::default(),
            held: AtomicU64::new(0),
        }
    }

    /// The file with this number: the one that somebody holds already, or a new handle to it.
    pub(crate) fn file(self: &Arc<ValueStore>, meta: &ValueFileMeta) -> Arc<ValueFile> {
        let mut files = self.files.lock();
        let named_bytes = if meta.file_bytes == u64::MAX { 0 } else { meta.file_bytes };
        if let Some(file) = files.get(&meta.number).and_then(Weak::upgrade) {
            file.named_bytes.fetch_max(named_bytes, Ordering::Relaxed);
            return file;
        }
        let file = Arc::new(ValueFile {
            path: meta.path(&self.dir),
            meta: meta.clone(),
            named_bytes: AtomicU64::new(named_bytes),
            store: self.clone(),
            opened: ArcSwapOption::empty(),
            recently_used: AtomicBool::new(false),
            obsolete: AtomicBool::new(false),
        });
        files.insert(meta.number, Arc::downgrade(&file));
        file
    }

    /// Files that are open, and heap bytes of their directories.
    pub(crate) fn open_files(&self) -> (usize, u64) {
        let open = self.open.lock();
        let held = open.iter().filter_map(Weak::upgrade);
        held.filter_map(|file| {
            let opened = file.opened.load();
            let directory = opened.as_ref()?.directory.as_ref();
            Some(directory.map_or(0, |directory| directory.memory_bytes() as u64))
        })
        .fold((0, 0), |(files, bytes), more| (files + 1, bytes + more))
    }

    /// True if there are files that the manifest does not name any more, and that are not removed
    /// because somebody held them.
    pub(crate) fn has_held(&self) -> bool {
        self.held.load(Ordering::Relaxed) > 0 || !self.garbage.lock().is_empty()
    }

    /// Removes the files that nobody holds or names. Returns how many.
    ///
    /// A file that cannot be removed now is an orphan that the next open removes.
    pub(crate) fn sweep(&self, remove: impl Fn(&Path) -> Result<()>) -> usize {
        let paths = std::mem::take(&mut *self.garbage.lock());
        for path in &paths {
            match remove(path) {
                Ok(()) | Err(Error::NotFound { .. }) => {
                    self.events.emit(&Event::ValueFileRemoved { path: path.clone() });
                }
                Err(error) => {
                    self.events.emit(&Event::CleanupFailed { path: path.clone(), error });
                }
            }
        }
        paths.len()
    }

    /// Notes an opened file, and closes others that were not used lately, if there are too many.
    fn note_open(&self, file: &Arc<ValueFile>) {
        let mut open = self.open.lock();
        open.retain(|other| other.strong_count() > 0);
        open.push_back(Arc::downgrade(file));
        let mut steps = 2 * open.len();
        while open.len() > self.open_max && steps > 0 {
            steps -= 1;
            let Some(candidate) = open.pop_front() else { break };
            let Some(held) = candidate.upgrade() else { continue };
            if held.recently_used.swap(false, Ordering::Relaxed) {
                open.push_back(candidate);
            } else {
                held.opened.store(None);
            }
        }
    }
}

impl ValueFile {
    /// The value that a pointer leads to, which must be into one of this file's logs.
    ///
    /// # Errors
    /// `Corruption` naming file and offset; `Io`.
    /// # Cost
    /// One system call, and one copy of a value that is compressed.
    pub(crate) fn read(self: &Arc<ValueFile>, pointer: &ValuePointer) -> Result<Value> {
        let heap = Heap::global();
        let (at, stored) = self.stored(&heap, pointer)?;
        unpack(&heap, stored).map_err(|damage| Error::corruption(&self.path, at, damage.0))
    }

    /// Where the value stands, and its stored bytes, checked.
    ///
    /// # Errors
    /// As [`ValueFile::read`].
    pub(crate) fn stored(
        self: &Arc<ValueFile>,
        heap: &Heap,
        pointer: &ValuePointer,
    ) -> Result<(u64, StoredValue)> {
        let opened = self.opened()?;
        let at = self.place_in(&opened, pointer)?;
        self.count_read(pointer.record_bytes());
        Ok((at, self.source(&opened).read(heap, at, pointer.stored_bytes)?))
    }

    /// Where the value stands that is about to be read: not beyond the end of the file, if it is
    /// long.
    pub(super) fn place_in(&self, opened: &OpenedFile, pointer: &ValuePointer) -> Result<u64> {
        let at = self.find(opened, pointer.log, pointer.offset_bytes)?;
        if pointer.stored_bytes > READ_UNSEEN_BYTES_MAX
            && opened.file.len_bytes()? < at.saturating_add(pointer.record_bytes())
        {
            return Err(Error::corruption(&self.path, at, "a value is cut short"));
        }
        Ok(at)
    }

    /// Where the value stands now that was written to `log` at `from`.
    ///
    /// # Errors
    /// `Corruption` if it is not among those that were moved here; of the disk, if the file is not
    /// open.
    pub(crate) fn place(self: &Arc<ValueFile>, log: u64, from: u64) -> Result<u64> {
        let opened = self.opened()?;
        self.find(&opened, log, from)
    }

    pub(super) fn find(&self, opened: &OpenedFile, log: u64, from: u64) -> Result<u64> {
        match &opened.directory {
            None => Ok(from),
            Some(directory) => {
                let missing = "a value that is pointed to is not in the file it was moved to";
                let found = directory.find(log, from);
                found.ok_or_else(|| Error::corruption(&self.path, 0, missing))
            }
        }
    }

    /// Notes that a value was read.
    pub(super) fn count_read(&self, bytes: u64) {
        let stripe = self.store.counters.local();
        stripe.add(TableCounter::ValueReads, 1);
        stripe.add(TableCounter::ReadBytes, bytes);
    }

    pub(super) fn source<'a>(&'a self, opened: &'a OpenedFile) -> ValueSource<'a> {
        self.source_in(opened.file.as_ref())
    }

    fn source_in<'a>(&'a self, file: &'a dyn ReadableFile) -> ValueSource<'a> {
        ValueSource {
            file,
            path: &self.path,
            salt: self.meta.salt,
            file_bytes: self.meta.file_bytes,
        }
    }

    pub(super) fn opened(self: &Arc<ValueFile>) -> Result<Arc<OpenedFile>> {
        let guard = self.opened.load();
        if let Some(opened) = guard.as_ref() {
            if !self.recently_used.load(Ordering::Relaxed) {
                self.recently_used.store(true, Ordering::Relaxed);
            }
            return Ok(opened.clone());
        }
        drop(guard);
        self.open()
    }

    #[cold]
    fn open(self: &Arc<ValueFile>) -> Result<Arc<OpenedFile>> {
        let file = self.store.env.vfs.open(&self.path, Access::Random)?;
        let directory = match self.meta.place {
            Place::Wal => None,
            Place::Moved { directory_at } => Some(self.read_directory(&*file, directory_at)?),
        };
        let opened = Arc::new(OpenedFile { file, directory });
        let none = None::<Arc<OpenedFile>>;
        let before = self.opened.compare_and_swap(&none, Some(opened.clone()));
        if before.is_none() {
            self.store.note_open(self);
        }
        Ok(opened)
    }

    /// One of the two directories: where the first cannot be read, the second.
    fn read_directory(&self, file: &dyn ReadableFile, at: u64) -> Result<Directory> {
        let Some((places, bytes)) = directories(at, self.meta.file_bytes) else {
            return Err(Error::corruption(&self.path, at, "the directory is missing"));
        };
        let [first, second] = places;
        self.directory_at(file, first, bytes)
            .or_else(|error| self.directory_at(file, second, bytes).map_err(|_| error))
    }

    fn directory_at(&self, file: &dyn ReadableFile, at: u64, bytes: usize) -> Result<Directory> {
        let damaged = |what| Error::corruption(&self.path, at, what);
        let mut record = vec![0; bytes];
        if file.read_at(at, &mut record)? != bytes {
            return Err(damaged("the directory is cut short"));
        }
        self.source_in(file).check_data(at, &record)?;
        let payload = &record[RECORD_HEADER_BYTES..];
        let directory = Directory::decode(payload, HEADER_BYTES as u64, at).map_err(damaged)?;
        if self.meta.logs.iter().any(|log| directory.logs().binary_search(log).is_err()) {
            return Err(damaged("the directory and the manifest disagree on its logs"));
        }
        Ok(directory)
    }

    /// Its length as the manifest has it; 0 before it does.
    pub(crate) fn named_bytes(&self) -> u64 {
        self.named_bytes.load(Ordering::Relaxed)
    }

    /// Path of the file.
    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// The manifest does not name this file any more: it goes when the last holder does.
    pub(crate) fn mark_obsolete(&self) {
        if !self.obsolete.swap(true, Ordering::AcqRel) {
            self.store.held.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for ValueFile {
    fn drop(&mut self) {
        let mut files = self.store.files.lock();
        // Somebody may have made a new handle since the count fell to zero.
        if files.get(&self.meta.number).is_some_and(|other| other.strong_count() == 0) {
            files.remove(&self.meta.number);
        }
        drop(files);
        if self.obsolete.load(Ordering::Acquire) {
            // One or the other is seen by who looks whether there is something to remove.
            let mut garbage = self.store.garbage.lock();
            garbage.push(self.path.clone());
            self.store.held.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl std::fmt::Debug for ValueFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ValueFile({})", self.meta.number)
    }
}

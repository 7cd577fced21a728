//! A file system in memory that forgets whatever was not synced.
//!
//! It keeps, for every file, the bytes programs see and the bytes a power cut would leave, and the
//! same for the names of every directory. [`StrictVfs::crash`] returns the file system as it is
//! found after a crash; [`StrictVfs::set_crash_at`] turns the machine off at a chosen call, so that
//! a test can crash a program at each of its calls in turn.
//!
//! What a power cut takes, unless it was synced:
//! - blocks of a file, each independently of the others, and its length;
//! - the names created, linked, renamed or removed since `sync_dir`, each independently. A rename
//!   stays one step: the file has its old name or its new one, never none.
//!
//! Not modelled: renaming directories (refused), metadata that takes space, and blocks
//! that show another file's old bytes.
//!
//! Threads: one lock around the whole disk; a handle may be used from any thread.

mod disk;
mod file;
mod names;
mod survival;
#[cfg(test)]
mod tests;

pub use disk::StrictOptions;
pub use survival::Survival;

use self::disk::{Disk, refuse};
use self::names::InodeId;
use self::survival::Rng;
use super::{Access, DirEntry, FileLock, ReadableFile, Vfs, WritableFile};
use crate::error::{Error, Result};
use crate::sync::Mutex;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Limits of the windows a log is reserved in; those of the real mapped log.
const WINDOW_BYTES_MIN: u64 = 64 << 10;
const WINDOW_BYTES_MAX: u64 = 4 << 20;
const PAGE_BYTES: u64 = 4096;
/// The most that is reserved beyond the end.
const RESERVE_BYTES_MAX: u64 = 256 << 20;

/// The forgetful file system. A clone is another handle to the same disk.
///
/// Relative paths start at the root.
#[derive(Clone, Debug)]
pub struct StrictVfs {
    disk: Arc<Mutex<Disk>>,
}

impl Default for StrictVfs {
    fn default() -> StrictVfs {
        StrictVfs::new()
    }
}

impl StrictVfs {
    /// An empty disk: 512-byte blocks, preallocated logs, no limit on space.
    pub fn new() -> StrictVfs {
        StrictVfs::with_options(StrictOptions::default())
    }

    /// An empty disk.
    pub fn with_options(options: StrictOptions) -> StrictVfs {
        StrictVfs::of(Disk::new(options))
    }

    fn of(disk: Disk) -> StrictVfs {
        StrictVfs { disk: Arc::new(Mutex::new(disk)) }
    }

    /// The file system as found after a crash now. This one goes on as it was.
    ///
    /// After a power cut everything that survived is synced; after `ProcessDeath` nothing is more
    /// durable than before. The new file system is on, has counted no calls, holds no locks, and
    /// keeps options and capacity. The same seed gives the same outcome.
    pub fn crash(&self, survival: Survival, seed: u64) -> StrictVfs {
        StrictVfs::of(self.disk.lock().after_crash(survival, seed))
    }

    /// An independent copy with the same synced and unsynced state, without open files and locks.
    ///
    /// Call count, trace and the switch are copied too.
    pub fn deep_copy(&self) -> StrictVfs {
        StrictVfs::of(self.disk.lock().clone().without_handles())
    }

    /// Turns the machine off at mutating call `k` (the first is 1): it and all later calls fail.
    ///
    /// If call `k` is an append, a part of it, chosen by the seed of the options, is in the file.
    pub fn set_crash_at(&self, k: u64) {
        self.disk.lock().off_at = Some(k);
    }

    /// Turns the machine off now: every later call fails.
    pub fn power_off(&self) {
        self.disk.lock().off = true;
    }

    /// True once the machine was turned off.
    pub fn is_off(&self) -> bool {
        self.disk.lock().off
    }

    /// How many mutating calls there were, the one that turned the machine off included.
    ///
    /// Counted: create, `create_log`, append, rewrite, sync, finish, rename, link, remove,
    /// truncate, `punch_hole`, `create_dir_all`, `remove_dir`, `sync_dir`, and a lock that creates
    /// its file.
    pub fn mutating_calls(&self) -> u64 {
        self.disk.lock().calls
    }

    /// Keeps a line about each of the last `lines_max` mutating calls; 0 ends it.
    pub fn set_trace(&self, lines_max: usize) {
        let mut disk = self.disk.lock();
        disk.trace.lines_max = lines_max;
        let surplus = disk.trace.lines.len().saturating_sub(lines_max);
        disk.trace.lines.drain(..surplus);
    }

    /// The kept lines, oldest first.
    pub fn trace(&self) -> Vec<String> {
        self.disk.lock().trace.lines.iter().cloned().collect()
    }

    /// Limits the space; `None` lifts the limit. Writing beyond it fails with `NoSpace`.
    pub fn set_capacity_bytes(&self, capacity_bytes: Option<u64>) {
        self.disk.lock().capacity_bytes = capacity_bytes;
    }

    /// Space taken by files that have a name or are open; holes take none.
    pub fn total_bytes(&self) -> u64 {
        self.disk.lock().used_bytes()
    }

    /// A file's bytes. Not counted as a call; works when the machine is off.
    pub fn read_file(&self, path: &Path) -> Result<Vec<u8>> {
        let disk = self.disk.lock();
        let inode = disk.file("read file", path)?;
        Ok(disk.data(inode).to_vec())
    }

    /// Puts a new file in place, with the directories above it, all of it durable at once.
    ///
    /// Names that were waiting for `sync_dir` in those directories become durable too.
    pub fn write_file(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        self.disk.lock().put_durable(path, bytes)
    }

    /// Turns one bit of a file over, now and after any crash. Bit 0 is the lowest of byte 0.
    ///
    /// # Panics
    /// If the file is shorter.
    pub fn flip_bit(&self, path: &Path, bit: u64) -> Result<()> {
        let mut disk = self.disk.lock();
        let inode = disk.file("flip bit", path)?;
        disk.change_data(inode, |data| data.flip_bit(bit));
        Ok(())
    }

    /// Cuts a file, or extends it with zeros, durably and without counting as a call.
    pub fn truncate_raw(&self, path: &Path, len_bytes: u64) -> Result<()> {
        let mut disk = self.disk.lock();
        let inode = disk.file("truncate", path)?;
        disk.change_data(inode, |data| {
            data.set_len(len_bytes);
            data.sync();
        });
        Ok(())
    }

    /// Names of the files (not directories) in a directory, sorted; empty if there is none.
    pub fn file_names(&self, dir: &Path) -> Vec<String> {
        let rows = self.disk.lock().list(dir).unwrap_or_default();
        rows.into_iter().filter(|row| !row.1).map(|row| row.0).collect()
    }

    /// Paths of all files, sorted, each beginning with `/`.
    pub fn all_files(&self) -> Vec<PathBuf> {
        self.disk.lock().all_files()
    }

    fn writer(&self, disk: &mut Disk, inode: InodeId, path: &Path) -> StrictWriter {
        disk.hold(inode);
        StrictWriter {
            handle: Handle { disk: self.disk.clone(), inode, path: path.to_path_buf() },
            len_bytes: 0,
            offset: 0,
            window: None,
        }
    }
}

impl Vfs for StrictVfs {
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let mut disk = self.disk.lock();
        disk.changing("create", path)?;
        let inode = disk.create("create", path, true)?;
        Ok(Box::new(self.writer(&mut disk, inode, path)))
    }

    fn create_log(&self, path: &Path, reserve_bytes: u64) -> Result<Box<dyn WritableFile>> {
        let mut disk = self.disk.lock();
        disk.changing("create log", path)?;
        let inode = disk.create("create log", path, true)?;
        let mut writer = self.writer(&mut disk, inode, path);
        let window =
            reserve_bytes.clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX).next_multiple_of(PAGE_BYTES);
        // Without the space that is asked for the log is a plain one, as on a real disk.
        let end = reserve_bytes.clamp(window, RESERVE_BYTES_MAX);
        if disk.options.preallocated_logs && disk.reserve(inode, end) {
            writer.window = Some(Window { bytes: window, end });
        }
        Ok(Box::new(writer))
    }

    fn open(&self, path: &Path, _access: Access) -> Result<Arc<dyn ReadableFile>> {
        let mut disk = self.disk.lock();
        disk.reading("open", path)?;
        let inode = disk.file("open", path)?;
        disk.hold(inode);
        let handle = Handle { disk: self.disk.clone(), inode, path: path.to_path_buf() };
        Ok(Arc::new(StrictReader { handle }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut disk = self.disk.lock();
        disk.changing("rename", from)?;
        disk.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let mut disk = self.disk.lock();
        disk.changing("link", from)?;
        disk.link(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut disk = self.disk.lock();
        disk.changing("remove", path)?;
        disk.remove(path)
    }

    fn truncate(&self, path: &Path, len_bytes: u64) -> Result<()> {
        let mut disk = self.disk.lock();
        disk.changing("truncate", path)?;
        let inode = disk.file("truncate", path)?;
        disk.change_data(inode, |data| {
            data.set_len(len_bytes);
            data.sync();
        });
        Ok(())
    }

    fn rewrite(&self, path: &Path, _: Range<u64>) -> Result<()> {
        let mut disk = self.disk.lock();
        disk.changing("rewrite", path)?;
        disk.file("rewrite", path).map(|_| ())
    }

    fn punch_hole(&self, path: &Path, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        let mut disk = self.disk.lock();
        disk.changing("punch hole", path)?;
        let inode = disk.file("punch hole", path)?;
        if len_bytes == 0 {
            return Err(refuse("punch hole", path, ErrorKind::InvalidInput));
        }
        disk.change_data(inode, |data| data.punch(offset_bytes, len_bytes));
        Ok(())
    }

    fn create_dir_all(&self, path: &Path) -> Result<bool> {
        let mut disk = self.disk.lock();
        disk.changing("create directory", path)?;
        disk.create_dir_all(path)
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        let mut disk = self.disk.lock();
        disk.changing("remove directory", path)?;
        disk.remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        let mut disk = self.disk.lock();
        disk.changing("sync directory", path)?;
        disk.sync_dir(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>> {
        let disk = self.disk.lock();
        disk.reading("list", path)?;
        let entry = |(name, is_dir, len_bytes)| DirEntry { name, is_dir, len_bytes };
        Ok(disk.list(path)?.into_iter().map(entry).collect())
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let disk = self.disk.lock();
        disk.reading("stat", path)?;
        Ok(disk.find("stat", path)?.is_some())
    }

    fn canonical(&self, path: &Path) -> Result<PathBuf> {
        let disk = self.disk.lock();
        disk.reading("stat", path)?;
        match disk.find("stat", path)? {
            Some(_) => Ok(Path::new("/").join(disk::parts("stat", path)?.join("/"))),
            None => Err(refuse("stat", path, ErrorKind::NotFound)),
        }
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        // Nobody is anywhere but at the root.
        Ok(path.to_path_buf())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        let mut disk = self.disk.lock();
        disk.reading("lock", path)?;
        if disk.find("lock", path)?.is_none() {
            disk.changing("lock", path)?;
        }
        let inode = disk.create("lock", path, false)?;
        if !disk.try_lock(inode) {
            return Err(Error::Busy { path: path.to_path_buf() });
        }
        disk.hold(inode);
        let handle = Handle { disk: self.disk.clone(), inode, path: path.to_path_buf() };
        Ok(Box::new(StrictLock { handle }))
    }

    fn lock_existing(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        if self.exists(path)? {
            return self.lock(path);
        }
        Err(refuse("open lock", path, ErrorKind::NotFound))
    }

    fn free_bytes(&self, path: &Path) -> Result<u64> {
        let disk = self.disk.lock();
        disk.reading("statvfs", path)?;
        match disk.find("statvfs", path)? {
            Some(_) => Ok(disk.free_bytes()),
            None => Err(refuse("statvfs", path, ErrorKind::NotFound)),
        }
    }
}

/// An open file: keeps its bytes alive, whatever happens to its names.
#[derive(Debug)]
struct Handle {
    disk: Arc<Mutex<Disk>>,
    inode: InodeId,
    path: PathBuf,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.disk.lock().release(self.inode);
    }
}

/// Space a log has reserved, up to `end`.
#[derive(Debug)]
struct Window {
    bytes: u64,
    end: u64,
}

#[derive(Debug)]
struct StrictWriter {
    handle: Handle,
    /// Bytes of successful appends.
    len_bytes: u64,
    /// Where the next byte goes: beyond `len_bytes` after an append that failed half way.
    offset: u64,
    window: Option<Window>,
}

impl WritableFile for StrictWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let handle = &self.handle;
        let mut disk = handle.disk.lock();
        let was_off = disk.off;
        if let Err(off) = disk.changing("append", &handle.path) {
            if !was_off {
                let mut rng = Rng::new(disk.options.seed ^ disk.calls);
                let n = rng.below(bytes.len() as u64 + 1) as usize;
                disk.write(handle.inode, self.offset, &bytes[..n]);
            }
            return Err(off);
        }
        let mut left = bytes;
        while !left.is_empty() {
            let mut piece = left;
            if let Some(window) = &mut self.window {
                if self.offset == window.end {
                    let bytes = (window.bytes * 2).min(WINDOW_BYTES_MAX);
                    let end = window.end + bytes;
                    if !disk.reserve(handle.inode, end) {
                        return Err(Error::NoSpace { path: handle.path.clone() });
                    }
                    *window = Window { bytes, end };
                }
                let room = (window.end - self.offset) as usize;
                piece = &left[..left.len().min(room)];
            }
            let written = disk.write(handle.inode, self.offset, piece);
            self.offset += written as u64;
            if written < piece.len() {
                return Err(Error::NoSpace { path: handle.path.clone() });
            }
            left = &left[written..];
        }
        self.len_bytes += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let mut disk = self.handle.disk.lock();
        disk.changing("sync", &self.handle.path)?;
        disk.change_data(self.handle.inode, self::file::FileData::sync);
        Ok(())
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn reserved_bytes(&self) -> u64 {
        self.window.as_ref().map_or(0, |window| window.end)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let mut disk = self.handle.disk.lock();
        disk.changing("finish", &self.handle.path)?;
        if self.window.is_some() {
            disk.change_data(self.handle.inode, |data| data.set_len(self.offset));
        }
        Ok(())
    }
}

#[derive(Debug)]
struct StrictReader {
    handle: Handle,
}

impl ReadableFile for StrictReader {
    fn read_at(&self, offset_bytes: u64, buf: &mut [u8]) -> Result<usize> {
        let disk = self.handle.disk.lock();
        disk.reading("read", &self.handle.path)?;
        Ok(disk.data(self.handle.inode).read(offset_bytes, buf))
    }

    fn len_bytes(&self) -> Result<u64> {
        let disk = self.handle.disk.lock();
        disk.reading("stat", &self.handle.path)?;
        Ok(disk.data(self.handle.inode).len_bytes())
    }
}

#[derive(Debug)]
struct StrictLock {
    handle: Handle,
}

impl FileLock for StrictLock {}

impl Drop for StrictLock {
    fn drop(&mut self) {
        self.handle.disk.lock().unlock(self.handle.inode);
    }
}

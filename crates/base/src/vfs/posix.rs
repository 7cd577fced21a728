//! The real file system.
//!
//! Ordinary files are written with `write(2)`. Logs are written through a shared mapping of
//! preallocated windows (see `mapped_log.rs`) where the file system can preallocate, and with
//! `write(2)` where it cannot. Data files are never read through a mapping: an I/O error would
//! arrive as a signal instead of an error.

use super::mapped_log::MappedLog;
use super::{Access, DirEntry, FileLock, ReadableFile, Vfs, WritableFile};
use crate::error::{Error, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, IoSlice, Write};
use std::ops::Range;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files are readable and writable by their owner only.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// Read and written again at a time.
const REWRITE_BYTES: usize = 256 << 10;

/// Appended bytes from which on the disk is told to begin with them, so that a sync waits for
/// little more. As `bytes_per_sync` of RocksDB, whose guide has the same for it.
const WRITE_BEHIND_BYTES: u64 = 1 << 20;

/// Pages of any size are multiples of this one, and a page that is written twice is no harm.
const PAGE_BYTES: u64 = 4 << 10;

/// The file system of the machine.
#[derive(Debug, Default)]
pub struct PosixVfs {
    plain_logs: bool,
}

impl PosixVfs {
    /// Logs are mapped where possible.
    pub fn new() -> PosixVfs {
        PosixVfs { plain_logs: false }
    }

    /// Logs are written with `write(2)`, as on a file system that cannot preallocate.
    pub fn with_plain_logs() -> PosixVfs {
        PosixVfs { plain_logs: true }
    }
}

impl Vfs for PosixVfs {
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let file = create_file(path)?;
        Ok(Box::new(PosixWriter::new(file, path)))
    }

    fn create_log(&self, path: &Path, reserve_bytes: u64) -> Result<Box<dyn WritableFile>> {
        let file = create_file(path)?;
        if self.plain_logs {
            return Ok(Box::new(PosixWriter::new(file, path)));
        }
        match MappedLog::new(file, path, reserve_bytes) {
            Ok(log) => Ok(Box::new(log)),
            Err(file) => Ok(Box::new(PosixWriter::new(file, path))),
        }
    }

    fn open(&self, path: &Path, access: Access) -> Result<Arc<dyn ReadableFile>> {
        let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        let advice = match access {
            Access::Random => rustix::fs::Advice::Random,
            Access::Sequential => rustix::fs::Advice::Sequential,
        };
        // Advice only: a file system that does not take it still reads.
        let _ = rustix::fs::fadvise(&file, 0, None, advice);
        Ok(Arc::new(PosixReader { file, path: path.to_path_buf() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        std::fs::rename(from, to).map_err(|e| Error::io("rename", from, e))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        std::fs::hard_link(from, to).map_err(|e| Error::io("link", from, e))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        std::fs::remove_file(path).map_err(|e| Error::io("remove", path, e))
    }

    fn truncate(&self, path: &Path, len_bytes: u64) -> Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .open(path)
            .map_err(|e| Error::io("open for truncate", path, e))?;
        file.set_len(len_bytes).map_err(|e| Error::io("truncate", path, e))?;
        file.sync_all().map_err(|e| Error::io("sync", path, e))
    }

    fn rewrite(&self, path: &Path, part: Range<u64>) -> Result<()> {
        let failed = |e| Error::io("rewrite", path, e);
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
        let (mut at, mut bytes) = (part.start, vec![0; REWRITE_BYTES]);
        while at < part.end {
            let len = (part.end - at).min(REWRITE_BYTES as u64) as usize;
            file.read_exact_at(&mut bytes[..len], at).map_err(failed)?;
            file.write_all_at(&bytes[..len], at).map_err(failed)?;
            at += len as u64;
        }
        Ok(())
    }

    fn punch_hole(&self, path: &Path, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .open(path)
            .map_err(|e| Error::io("open for punch", path, e))?;
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, flags, offset_bytes, len_bytes)
            .map_err(|e| Error::io("punch hole", path, e.into()))
    }

    fn create_dir_all(&self, path: &Path) -> Result<bool> {
        let failed = |e| Error::io("create directory", path, e);
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(DIR_MODE).recursive(true);
        if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
            builder.create(above).map_err(failed)?;
        }
        match builder.recursive(false).create(path) {
            Ok(()) => Ok(true),
            Err(refused) => {
                // A path may end in `.` or `..`, and what is there may be no directory.
                builder.recursive(true).create(path).map_err(failed)?;
                Ok(refused.kind() != ErrorKind::AlreadyExists && !path.as_os_str().is_empty())
            }
        }
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        std::fs::remove_dir(path).map_err(|e| Error::io("remove directory", path, e))
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let dir = File::open(path).map_err(|e| Error::io("open directory", path, e))?;
        dir.sync_all().map_err(|e| Error::io("sync directory", path, e))
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        let dir = std::fs::read_dir(path).map_err(|e| Error::io("list", path, e))?;
        for entry in dir {
            let entry = entry.map_err(|e| Error::io("list", path, e))?;
            // Names that are not UTF-8 are not ours.
            let Ok(name) = entry.file_name().into_string() else { continue };
            // Files are opened through links. One that leads nowhere is listed as what it is.
            match std::fs::metadata(entry.path()).or_else(|_| entry.metadata()) {
                Ok(m) => entries.push(DirEntry {
                    name,
                    is_dir: m.is_dir(),
                    len_bytes: if m.is_dir() { 0 } else { m.len() },
                }),
                // Removed between listing and asking.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(Error::io("stat", &entry.path(), e)),
            }
        }
        Ok(entries)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        path.try_exists().map_err(|e| Error::io("stat", path, e))
    }

    fn canonical(&self, path: &Path) -> Result<PathBuf> {
        path.canonicalize().map_err(|e| Error::io("stat", path, e))
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        std::path::absolute(path).map_err(|e| Error::io("find", path, e))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(FILE_MODE);
        lock_opened(path, || options.open(path))
    }

    fn lock_existing(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        // Some network file systems lock only what may be written.
        lock_opened(path, || {
            OpenOptions::new().write(true).open(path).or_else(|error| match error.kind() {
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => File::open(path),
                _ => Err(error),
            })
        })
    }

    fn free_bytes(&self, path: &Path) -> Result<u64> {
        let stat = rustix::fs::statvfs(path).map_err(|e| Error::io("statvfs", path, e.into()))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// Locks the file that stands at a path, which `open` opens.
fn lock_opened(path: &Path, open: impl Fn() -> std::io::Result<File>) -> Result<Box<dyn FileLock>> {
    loop {
        let file = open().map_err(|e| Error::io("open lock", path, e))?;
        let locked = match file.try_lock() {
            // NFS locks a file that is open for reading for itself against writers alone.
            Err(TryLockError::Error(e)) if e.raw_os_error() == Some(libc::EBADF) => {
                file.try_lock_shared()
            }
            locked => locked,
        };
        match locked {
            // Whoever had it may have removed it with the store meanwhile: then others lock another
            // file.
            Ok(()) if is_at(&file, path)? => {
                return Ok(Box::new(PosixLock { file, process: std::process::id() }));
            }
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Busy { path: path.to_path_buf() }),
            Err(TryLockError::Error(e)) => return Err(Error::io("lock", path, e)),
        }
    }
}

/// True if this file stands at that path.
fn is_at(file: &File, path: &Path) -> Result<bool> {
    let own = file.metadata().map_err(|e| Error::io("stat", path, e))?;
    match std::fs::metadata(path) {
        Ok(there) => Ok((own.dev(), own.ino()) == (there.dev(), there.ino())),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io("stat", path, e)),
    }
}

fn create_file(path: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .mode(FILE_MODE)
        .open(path)
        .map_err(|e| Error::io("create", path, e))
}

/// Appends with `write(2)`, and has the disk begin with what was appended while more is.
#[derive(Debug)]
struct PosixWriter {
    file: File,
    path: PathBuf,
    len_bytes: u64,
    /// So many of them the disk was told to begin with.
    begun_bytes: u64,
}

impl PosixWriter {
    fn new(file: File, path: &Path) -> PosixWriter {
        PosixWriter { file, path: path.to_path_buf(), len_bytes: 0, begun_bytes: 0 }
    }

    fn note_appended(&mut self, bytes: usize) {
        self.len_bytes += bytes as u64;
        if let Some(next) = to_write_behind(self.begun_bytes, self.len_bytes) {
            // What becomes of it the sync tells; a file system without this call has more to do
            // then.
            write_behind(&self.file, &next);
            self.begun_bytes = next.end;
        }
    }
}

/// What the disk should begin with of a file of `len_bytes` that it has begun with `begun_bytes`
/// of: whole pages, since the last one is still to be added to.
fn to_write_behind(begun_bytes: u64, len_bytes: u64) -> Option<Range<u64>> {
    let end = len_bytes - len_bytes % PAGE_BYTES;
    (end - begun_bytes >= WRITE_BEHIND_BYTES).then_some(begun_bytes..end)
}

/// Has the disk begin with the range, and does not wait for it. An error of the disk is not lost:
/// the next sync reports it.
fn write_behind(file: &File, range: &Range<u64>) {
    let (offset, length) = (range.start as i64, (range.end - range.start) as i64);
    let flags = libc::SYNC_FILE_RANGE_WRITE;
    // SAFETY: a system call that takes no memory of ours, on a descriptor that is open.
    unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, flags) };
}

impl WritableFile for PosixWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| Error::io("append", &self.path, e))?;
        self.note_appended(bytes.len());
        Ok(())
    }

    fn append_parts(&mut self, parts: &[&[u8]]) -> Result<()> {
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut left = &mut slices[..];
        let total: usize = parts.iter().map(|part| part.len()).sum();
        // Empty ones in front: nothing written of them would look like a full disk.
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match self.file.write_vectored(left) {
                Ok(0) => return Err(Error::io("append", &self.path, ErrorKind::WriteZero.into())),
                Ok(n) => IoSlice::advance_slices(&mut left, n),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io("append", &self.path, e)),
            }
        }
        self.note_appended(total);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(|e| Error::io("sync", &self.path, e))
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn reserved_bytes(&self) -> u64 {
        0
    }

    fn finish(self: Box<Self>) -> Result<()> {
        close(self.file, &self.path)
    }
}

/// Closes a descriptor and reports what the system says, which dropping it would hide.
fn close(file: File, path: &Path) -> Result<()> {
    // SAFETY: `into_raw_fd` gives up ownership, so the descriptor is closed exactly once.
    let closed = unsafe { rustix::io::try_close(file.into_raw_fd()) };
    closed.map_err(|e| Error::io("close", path, e.into()))
}

#[derive(Debug)]
struct PosixReader {
    file: File,
    path: PathBuf,
}

impl ReadableFile for PosixReader {
    fn read_at(&self, offset_bytes: u64, buf: &mut [u8]) -> Result<usize> {
        let mut read = 0;
        while read < buf.len() {
            match self.file.read_at(&mut buf[read..], offset_bytes + read as u64) {
                Ok(0) => break,
                Ok(n) => read += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io("read", &self.path, e)),
            }
        }
        Ok(read)
    }

    fn len_bytes(&self) -> Result<u64> {
        self.file.metadata().map(|m| m.len()).map_err(|e| Error::io("stat", &self.path, e))
    }
}

/// The advisory lock goes with the open file, which children of this process share from their birth
/// on.
#[derive(Debug)]
struct PosixLock {
    file: File,
    /// Who has taken it.
    process: u32,
}

impl FileLock for PosixLock {}

impl Drop for PosixLock {
    fn drop(&mut self) {
        // Closing alone would leave it to the children that have the file open too; and it is not
        // theirs to give up.
        if self.process == std::process::id() {
            // If that fails, closing does it.
            let _ = self.file.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_begins_with_whole_pages_a_mebibyte_at_a_time() {
        const MIB: u64 = 1 << 20;
        assert_eq!(to_write_behind(0, MIB - 1), None);
        assert_eq!(to_write_behind(0, MIB), Some(0..MIB));
        assert_eq!(to_write_behind(0, 3 * MIB + 4_097), Some(0..3 * MIB + 4_096));
        assert_eq!(
            to_write_behind(MIB + 4_096, 2 * MIB + 8_191),
            Some(MIB + 4_096..2 * MIB + 4_096)
        );
        assert_eq!(to_write_behind(MIB + 4_096, 2 * MIB + 4_095), None);
    }

    #[test]
    fn it_begins_with_each_byte_once_however_they_come() {
        let name = format!("esker-posix-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut writer = PosixWriter::new(create_file(&path).expect("a file"), &path);
        let mut begun = 0;
        for bytes in [1_000_000, 50_000, 3 << 20, 1, 4_095, 2 << 20] {
            writer.append(&vec![7; bytes]).expect("room");
            assert!(writer.begun_bytes >= begun && writer.begun_bytes.is_multiple_of(PAGE_BYTES));
            assert!(writer.len_bytes - writer.begun_bytes < WRITE_BEHIND_BYTES + PAGE_BYTES);
            begun = writer.begun_bytes;
        }
        assert!(begun > 6 << 20);
        let parts: [&[u8]; 2] = [&[1; 700_000], &[2; 700_000]];
        writer.append_parts(&parts).expect("room");
        assert!(writer.begun_bytes > begun, "parts are appended too");
        writer.sync().expect("synced");
        std::fs::remove_file(&path).expect("removed");
    }
}

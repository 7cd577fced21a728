//! The one door to the disk.
//!
//! Everything the engine does to files goes through [`Vfs`], so that it can be run on a real
//! file system ([`posix`]), on one that forgets whatever was not synced, and on one that fails.
//!
//! What a file system promises here, and what the engine relies on:
//!
//! 1. Appended bytes are readable at once and survive the death of the process when `append`
//!    returns. They survive a power cut only once `sync` has returned.
//! 2. A new name, a rename or a removal survives a power cut only once `sync_dir` of its directory
//!    has returned. A rename replaces its target atomically.
//! 3. After a failed `sync` nothing is known about the bytes since the last good one. The
//!    caller must not sync again and believe it.

/// In an implementation of [`Vfs`] for what has another one as `inner`: passes these calls on.
#[doc(hidden)]
#[macro_export]
macro_rules! pass_on {
    ($($name:ident),* $(,)?) => { $($crate::pass_on!(@ $name);)* };
    (@ create) => {
        fn create(
            &self,
            path: &std::path::Path,
        ) -> $crate::Result<Box<dyn $crate::vfs::WritableFile>> {
            self.inner.create(path)
        }
    };
    (@ create_log) => {
        fn create_log(
            &self,
            path: &std::path::Path,
            reserve_bytes: u64,
        ) -> $crate::Result<Box<dyn $crate::vfs::WritableFile>> {
            self.inner.create_log(path, reserve_bytes)
        }
    };
    (@ rename) => { $crate::pass_on!(@ rename(from, to) -> ()); };
    (@ link) => { $crate::pass_on!(@ link(from, to) -> ()); };
    (@ remove) => { $crate::pass_on!(@ remove(path) -> ()); };
    (@ truncate) => {
        fn truncate(&self, path: &std::path::Path, len_bytes: u64) -> $crate::Result<()> {
            self.inner.truncate(path, len_bytes)
        }
    };
    (@ rewrite) => {
        fn rewrite(
            &self,
            path: &std::path::Path,
            part: std::ops::Range<u64>,
        ) -> $crate::Result<()> {
            self.inner.rewrite(path, part)
        }
    };
    (@ punch_hole) => {
        fn punch_hole(
            &self,
            path: &std::path::Path,
            offset_bytes: u64,
            len_bytes: u64,
        ) -> $crate::Result<()> {
            self.inner.punch_hole(path, offset_bytes, len_bytes)
        }
    };
    (@ create_dir_all) => { $crate::pass_on!(@ create_dir_all(path) -> bool); };
    (@ remove_dir) => { $crate::pass_on!(@ remove_dir(path) -> ()); };
    (@ sync_dir) => { $crate::pass_on!(@ sync_dir(path) -> ()); };
    (@ list) => { $crate::pass_on!(@ list(path) -> Vec<$crate::vfs::DirEntry>); };
    (@ exists) => { $crate::pass_on!(@ exists(path) -> bool); };
    (@ canonical) => { $crate::pass_on!(@ canonical(path) -> std::path::PathBuf); };
    (@ absolute) => { $crate::pass_on!(@ absolute(path) -> std::path::PathBuf); };
    (@ lock) => { $crate::pass_on!(@ lock(path) -> Box<dyn $crate::vfs::FileLock>); };
    (@ lock_existing) => {
        $crate::pass_on!(@ lock_existing(path) -> Box<dyn $crate::vfs::FileLock>);
    };
    (@ free_bytes) => { $crate::pass_on!(@ free_bytes(path) -> u64); };
    (@ $name:ident($($path:ident),*) -> $out:ty) => {
        fn $name(&self, $($path: &std::path::Path),*) -> $crate::Result<$out> {
            self.inner.$name($($path),*)
        }
    };
}

#[cfg(test)]
mod conformance;
pub mod faulty;
mod mapped_log;
pub mod posix;
pub mod strict;
pub mod throttled;

use crate::error::{Error, Result};
use std::fmt;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// How a file is going to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Small reads anywhere.
    Random,
    /// Front to back, in large pieces.
    Sequential,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name without its directory.
    pub name: String,
    /// True for a directory.
    pub is_dir: bool,
    /// Length in bytes; 0 for a directory.
    pub len_bytes: u64,
}

/// A file system.
pub trait Vfs: Send + Sync + fmt::Debug {
    /// Creates an empty file for appending, replacing any old one of that name.
    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>>;

    /// Creates a log: like [`Vfs::create`], for many small appends.
    ///
    /// `reserve_bytes` is how long it is expected to grow. The file may be longer than what was
    /// appended, filled with zeros, until [`WritableFile::finish`] cuts it.
    fn create_log(&self, path: &Path, reserve_bytes: u64) -> Result<Box<dyn WritableFile>>;

    /// Opens a file for reading. Fails with `NotFound` if there is none.
    fn open(&self, path: &Path, access: Access) -> Result<Arc<dyn ReadableFile>>;

    /// Renames a file, replacing `to` if it exists.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Gives a file a second name. Fails if `to` exists.
    fn link(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Cuts a file to `len_bytes` and syncs it.
    fn truncate(&self, path: &Path, len_bytes: u64) -> Result<()>;

    /// Writes what stands in this part of a file again, so that the next sync makes it durable
    /// whatever came of those before: a system that failed to write pages takes them for written,
    /// and says so to whoever opens the file next.
    fn rewrite(&self, path: &Path, part: Range<u64>) -> Result<()>;

    /// Gives the space of a range back; the range reads as zeros afterwards.
    fn punch_hole(&self, path: &Path, offset_bytes: u64, len_bytes: u64) -> Result<()>;

    /// Creates a directory and those above it. True if this call made it, false if it was there.
    fn create_dir_all(&self, path: &Path) -> Result<bool>;

    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> Result<()>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> Result<()>;

    /// The names in a directory, in no particular order. `NotFound` if there is none.
    fn list(&self, path: &Path) -> Result<Vec<DirEntry>>;

    /// True if a file or directory of this name exists.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// The path of what stands at `path` that goes from the root, without links and `..`.
    /// `NotFound` if nothing does.
    fn canonical(&self, path: &Path) -> Result<PathBuf>;

    /// A path that names the same wherever the process goes: nothing need be there.
    fn absolute(&self, path: &Path) -> Result<PathBuf>;

    /// Takes an exclusive lock, held until the guard is dropped. `Busy` if somebody holds it.
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;

    /// The same lock on a file that is there, also where nothing may be written. `NotFound` if
    /// there is none.
    fn lock_existing(&self, path: &Path) -> Result<Box<dyn FileLock>>;

    /// Bytes that can still be written where `path` lives.
    fn free_bytes(&self, path: &Path) -> Result<u64>;
}

/// A file that is being written, front to back.
pub trait WritableFile: Send + Sync + fmt::Debug {
    /// Adds bytes at the end. On an error an unknown part of them may stand in the file.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Adds several pieces as if they were one.
    fn append_parts(&mut self, parts: &[&[u8]]) -> Result<()> {
        parts.iter().try_for_each(|part| self.append(part))
    }

    /// Makes all appended bytes, and the file's length, durable.
    fn sync(&mut self) -> Result<()>;

    /// Lets go of what only makes appending fast, because little or nothing is to follow: a sync
    /// may cost less then.
    fn release(&mut self) {}

    /// Bytes appended so far.
    fn len_bytes(&self) -> u64;

    /// Bytes of the file that were reserved, and read as zeros until they are reached; 0 if space
    /// is taken as the file grows.
    fn reserved_bytes(&self) -> u64;

    /// Ends writing: gives reserved space back and closes. Does not sync.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// A file that can be read at any place, by many threads.
pub trait ReadableFile: Send + Sync + fmt::Debug {
    /// Fills `buf` from `offset_bytes`; returns how much there was (short only at the end).
    fn read_at(&self, offset_bytes: u64, buf: &mut [u8]) -> Result<usize>;

    /// The file's length now.
    fn len_bytes(&self) -> Result<u64>;
}

/// Holds a lock until dropped.
pub trait FileLock: Send + Sync + fmt::Debug {}

/// Reads a whole file, refusing to allocate more than `limit_bytes`.
///
/// # Errors
/// `Corruption` if the file is longer than the limit.
pub fn read_all(vfs: &dyn Vfs, path: &Path, limit_bytes: u64) -> Result<Vec<u8>> {
    let file = vfs.open(path, Access::Sequential)?;
    let len = file.len_bytes()?;
    if len > limit_bytes {
        return Err(Error::corruption(path, limit_bytes, "file is longer than it can be"));
    }
    let mut bytes = vec![0; len as usize];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Creates a directory and those above it, so that none of them vanishes in a power cut.
///
/// Where the directory exists, its name is made durable in the one above it all the same: whoever
/// made it may not have done so. Where that one may not be read, it is left to them.
///
/// True if this call made it. What it made goes again if it cannot be made durable, those above
/// too.
pub fn create_dir_durably(vfs: &dyn Vfs, path: &Path) -> Result<bool> {
    let mut made = vec![path];
    for above in path.ancestors().skip(1) {
        if above.as_os_str().is_empty() || vfs.exists(above)? {
            break;
        }
        made.push(above);
    }
    let is_new = vfs.create_dir_all(path)?;
    for dir in made.iter().rev() {
        match vfs.sync_dir(parent_of(dir)) {
            Err(Error::Io { source, .. })
                if !is_new && source.kind() == std::io::ErrorKind::PermissionDenied => {}
            Err(error) => {
                // The innermost first; what others have put something into stays.
                for dir in made.iter().filter(|_| is_new) {
                    let _ = vfs.remove_dir(dir);
                }
                return Err(error);
            }
            Ok(()) => {}
        }
    }
    Ok(is_new)
}

/// True if `path`, which need not exist, is the directory `dir` or would be made inside of it.
///
/// Links, relative paths and `..` are followed as the system would. A directory that is mounted at
/// two places counts as two.
///
/// # Errors
/// Of the file system; `NotFound` if `dir` does not exist.
/// # Cost
/// A call of the file system for each part of `path`.
pub fn is_inside(vfs: &dyn Vfs, path: &Path, dir: &Path) -> Result<bool> {
    let here = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    Ok(future(vfs, path)?.starts_with(vfs.canonical(here)?))
}

/// The canonical path that `path` will have once the missing directories on the way were made.
fn future(vfs: &dyn Vfs, path: &Path) -> Result<PathBuf> {
    let mut at = if path.is_absolute() { PathBuf::new() } else { vfs.canonical(Path::new("."))? };
    for part in path.components() {
        match part {
            Component::CurDir => {}
            // What is above is canonical, or will be a plain directory.
            Component::ParentDir => {
                at.pop();
            }
            part => {
                at.push(part);
                match vfs.canonical(&at) {
                    Ok(found) => at = found,
                    Err(error) if error.is_not_found() => {}
                    // Told of the path that the caller knows.
                    Err(Error::Io { op, source, .. }) => {
                        return Err(Error::Io { op, path: path.to_path_buf(), source });
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }
    Ok(at)
}

/// The directory a path is in.
fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Writes a small file so that it is whole or absent after a crash: a temporary name, sync, rename,
/// sync of the directory.
pub fn write_atomic(vfs: &dyn Vfs, path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = write_temporary(vfs, path, bytes)?;
    vfs.rename(&temporary, path)?;
    vfs.sync_dir(parent_of(path))
}

/// The first half of that: a durable file beside `path`, which is to be renamed. What stands at
/// `path` stays.
pub fn write_temporary(vfs: &dyn Vfs, path: &Path, bytes: &[u8]) -> Result<PathBuf> {
    let temporary = path.with_extension("tmp");
    let mut file = vfs.create(&temporary)?;
    file.append(bytes)?;
    file.sync()?;
    file.finish()?;
    Ok(temporary)
}

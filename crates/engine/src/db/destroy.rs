//! Destroying: takes a closed database off the disk.
//!
//! Crash: what is left is still known as a database's, and destroying it again removes the rest.

use super::open::Setup;
use super::repair::evidence::is_ours;
use crate::names::{self, FileKind};
use esker_base::{Error, Result, Vfs};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Removes the closed database in `dir`: its files, and the directory if it is empty then.
///
/// What is not ours stays, and so does what repair has put aside in `lost/`.
///
/// # Errors
/// `Busy`: somebody has it open. `NotFound`: no file of a database is there. Of the disk: some
/// files may be gone already, and destroying it again removes the rest.
/// # Cost
/// A call of the file system for each file.
pub fn destroy(dir: &Path, setup: &Setup) -> Result<()> {
    let vfs = setup.env.vfs.as_ref();
    if !vfs.exists(dir)? {
        return Err(Error::NotFound { path: dir.to_path_buf() });
    }
    // Somebody else's directory is not even given a lock.
    if !is_ours(&setup.env, dir, &files_of_ours(vfs, dir)?)? {
        return Err(Error::NotFound { path: names::current(dir) });
    }
    let lock = vfs.lock(&names::lock(dir))?;
    // Looked at again: whoever had it open until now may have made others.
    let files = files_of_ours(vfs, dir)?;
    // CURRENT first; last what is ours by its name alone, after the lock's file, so that none of
    // both is left alone.
    let mut kinds: Vec<FileKind> =
        files.into_keys().filter(|kind| *kind != FileKind::Lock).collect();
    kinds.sort_by_key(|kind| (*kind != FileKind::Temporary, *kind));
    kinds.insert(kinds.len().saturating_sub(1), FileKind::Lock);
    for kind in kinds {
        match vfs.remove(&path_of(dir, kind)) {
            // Gone already is as good.
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    drop(lock);
    vfs.sync_dir(dir)?;
    if vfs.list(dir)?.is_empty() {
        // It may be a place that others keep: the store is gone from it.
        let _ = vfs.remove_dir(dir);
    }
    Ok(())
}

fn files_of_ours(vfs: &dyn Vfs, dir: &Path) -> Result<BTreeMap<FileKind, u64>> {
    let entries = vfs.list(dir)?;
    let files = entries.iter().filter(|entry| !entry.is_dir);
    Ok(files.filter_map(|entry| Some((names::parse(&entry.name)?, entry.len_bytes))).collect())
}

fn path_of(dir: &Path, kind: FileKind) -> PathBuf {
    match kind {
        FileKind::Current => names::current(dir),
        FileKind::Lock => names::lock(dir),
        FileKind::Manifest(number) => names::manifest(dir, number),
        FileKind::Wal(number) => names::wal(dir, number),
        FileKind::Table(number) => names::table(dir, number),
        FileKind::Values(number) => names::values(dir, number),
        FileKind::Temporary => names::temporary(dir),
    }
}

//! Checkpoints: a second database that shares the tables of the first.
//!
//! Under the right to write a new log is started, so that all older logs change no more; tables and
//! those logs are then linked into the new directory, and a manifest is written that names them as
//! of a close at that moment. Writers wait for the new log and the links only: what must be copied
//! is opened meanwhile, and copied afterwards.
//! Crash: CURRENT comes last; a directory without it is no database.
//! Closing the database ends it, between two files or two pieces of one.

use super::commit::{retired_before, sync_writers};
use super::core::Core;
use crate::names;
use crate::version::VersionSet;
use esker_base::vfs::{Access, ReadableFile, Vfs, WritableFile, create_dir_durably, is_inside};
use esker_base::{Error, Result};
use std::path::{Path, PathBuf};

/// Bytes copied at a time where a file cannot be linked.
const COPY_BYTES: usize = 1 << 20;

/// Makes a copy of the database as it is now.
pub(super) fn checkpoint(core: &Core, dir: &Path) -> Result<()> {
    core.check_writable()?;
    let vfs = core.env.vfs.as_ref();
    check_place(vfs, &core.dir, dir)?;
    if core.is_external() {
        // Without a log the copy holds what is in tables.
        core.flush_epochs()?;
    }
    in_new_dir(core, dir, |made| fill(core, dir, made))
}

/// Makes a directory and fills it with a store, CURRENT last. On an error nothing of it stays,
/// `made` in the order of its making.
///
/// # Errors
/// `InvalidArgument` if there can be no store; of the disk.
pub(super) fn in_new_dir<T>(
    core: &Core,
    dir: &Path,
    fill: impl FnOnce(&mut Vec<PathBuf>) -> Result<T>,
) -> Result<T> {
    let vfs = core.env.vfs.as_ref();
    check_place(vfs, &core.dir, dir)?;
    if !create_dir_durably(vfs, dir)? {
        // Somebody was faster, whose files these are.
        return Err(exists_already(dir));
    }
    let mut made = Vec::new();
    let result = fill(&mut made);
    if result.is_err() {
        made.push(names::current(dir));
        made.push(names::temporary(dir));
        // CURRENT before what it leads to: whatever cannot be removed stays as a directory that is
        // no database.
        for path in made.iter().rev() {
            let _ = vfs.remove(path);
        }
        for entry in vfs.list(dir).unwrap_or_default() {
            let _ = vfs.remove(&dir.join(entry.name));
        }
        let _ = vfs.remove_dir(dir);
    }
    result
}

/// Fails if the checkpoint `dir` of the store in `store` cannot be made where it should: nothing
/// may stand there, and what stands inside of the store could be taken for a part of it.
///
/// # Errors
/// `InvalidArgument`; of the disk.
fn check_place(vfs: &dyn Vfs, store: &Path, dir: &Path) -> Result<()> {
    if is_inside(vfs, dir, store)? {
        let shown = dir.display();
        return Err(Error::invalid(format!(
            "{shown} is the store itself or inside of it: give a new directory elsewhere"
        )));
    }
    if vfs.exists(dir)? { Err(exists_already(dir)) } else { Ok(()) }
}

fn exists_already(dir: &Path) -> Error {
    Error::invalid(format!("{} exists already: give a new directory", dir.display()))
}

fn fill(core: &Core, dir: &Path, made: &mut Vec<PathBuf>) -> Result<()> {
    let vfs = core.env.vfs.as_ref();
    let go_on = || check_open(core);
    // Who opens the copy to read it keeps others from writing to it: where he may not write
    // himself, he needs a file to lock.
    let lock = names::lock(dir);
    made.push(lock.clone());
    vfs.create(&lock)?.finish()?;
    let mut to_copy = Vec::new();
    let (keyspaces, wals, values, map, groups, seq, writers) = {
        let mut commit = core.commit.lock();
        let commit = commit.as_mut().ok_or(Error::Cancelled)?;
        // A log without records is not needed in the copy. Nor is another one here then:
        // checkpoints of a store that nobody writes to would pile them up.
        if commit.has_records() {
            commit.rotate(core)?;
            commit.flush_who_pins(core);
        }
        let versions = core.lock_versions()?;
        let newest = core.current_wal.lock().number;
        let mut wals = versions.wals().clone();
        wals.0.retain(|&number, _| number < newest);
        // Linked or opened while the versions are locked: a flush would remove them. They change no
        // more.
        for &number in wals.0.keys() {
            let (log, target) = (names::wal(&core.dir, number), names::wal(dir, number));
            made.push(target.clone());
            go_on()?;
            if !link(vfs, &log, &target)? {
                to_copy.push((vfs.open(&log, Access::Sequential)?, target));
            }
        }
        let (values, map) = (versions.values().clone(), versions.value_map().clone());
        let (keyspaces, groups) = (versions.keyspaces.clone(), versions.groups().clone());
        let seq = if core.is_external() { versions.newest_seq() } else { commit.last_seq() };
        // Now: a flush that comes next forgets logs that this names, and need not sync them.
        (keyspaces, wals, values, map, groups, seq, retired_before(core, u64::MAX))
    };
    sync_writers(core, writers)?;
    for (log, target) in to_copy {
        copy(vfs, log.as_ref(), &target, go_on)?;
    }
    // The records hold the tables, so that their files stay.
    for table in keyspaces.values().flat_map(|keyspace| keyspace.tables()) {
        let number = table.meta.number;
        let target = names::table(dir, number);
        made.push(target.clone());
        link_or_copy(vfs, &names::table(&core.dir, number), &target, go_on)?;
    }
    // And the map holds the files with values, of which some were linked as logs.
    for meta in values.0.values().filter(|meta| !wals.0.contains_key(&meta.number)) {
        let target = meta.path(dir);
        made.push(target.clone());
        link_or_copy(vfs, &meta.path(&core.dir), &target, go_on)?;
    }
    drop(map);
    vfs.sync_dir(dir)?;
    VersionSet::write_copy(&core.store, dir, &keyspaces, &wals, &values, &groups, seq)
}

/// # Errors
/// `Cancelled` if the store is being closed.
pub(super) fn check_open(core: &Core) -> Result<()> {
    if core.background.stopping() { Err(Error::Cancelled) } else { Ok(()) }
}

/// A hard link, or, where there can be none, a durable copy. `go_on` is asked before every piece of
/// it.
pub(super) fn link_or_copy(
    vfs: &dyn Vfs,
    from: &Path,
    to: &Path,
    go_on: impl Fn() -> Result<()>,
) -> Result<()> {
    go_on()?;
    if link(vfs, from, to)? {
        return Ok(());
    }
    copy_file(vfs, from, to, go_on)
}

/// A durable copy of a file.
pub(super) fn copy_file(
    vfs: &dyn Vfs,
    from: &Path,
    to: &Path,
    go_on: impl Fn() -> Result<()>,
) -> Result<()> {
    copy(vfs, vfs.open(from, Access::Sequential)?.as_ref(), to, go_on)
}

/// A hard link. False where there can be none.
fn link(vfs: &dyn Vfs, from: &Path, to: &Path) -> Result<bool> {
    match vfs.link(from, to) {
        // What stands there is somebody's.
        Err(Error::Io { .. }) if !vfs.exists(to)? => Ok(false),
        done => done.map(|()| true),
    }
}

/// A durable copy. On an error nothing is there.
fn copy(
    vfs: &dyn Vfs,
    source: &dyn ReadableFile,
    to: &Path,
    go_on: impl Fn() -> Result<()>,
) -> Result<()> {
    let target = vfs.create(to)?;
    let copied = copy_into(target, source, go_on);
    if copied.is_err() {
        // Half of it is no use to anybody, and takes room.
        let _ = vfs.remove(to);
    }
    copied
}

fn copy_into(
    mut target: Box<dyn WritableFile>,
    source: &dyn ReadableFile,
    go_on: impl Fn() -> Result<()>,
) -> Result<()> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut offset = 0;
    loop {
        go_on()?;
        let read = source.read_at(offset, &mut buffer)?;
        if read == 0 {
            break;
        }
        target.append(&buffer[..read])?;
        offset += read as u64;
    }
    target.sync()?;
    target.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, Options, Setup};
    use esker_base::Env;
    use esker_base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
    use esker_base::vfs::strict::StrictVfs;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    /// Once it is named the copy may be somebody's, who names another manifest.
    #[test]
    fn a_copy_is_named_once() {
        let vfs = FaultyVfs::new(Arc::new(StrictVfs::new()));
        let env = Env::with_vfs(Arc::new(vfs.clone()), 1);
        let setup = Setup { env, inline_background: true, ..Setup::default() };
        let db = Db::open_with("store", Options::default(), setup.clone()).expect("open");
        db.put(b"key", b"value").expect("put");
        let named = Arc::new(AtomicU64::new(0));
        let seen = named.clone();
        let counts = move |path: &Path| {
            seen.fetch_add(u64::from(path.starts_with("copy")), Ordering::Relaxed);
            false
        };
        vfs.inject(FaultRule::nth(1, &[Op::Rename], Fault::Eio).on(counts));
        db.checkpoint("copy").expect("checkpoint");
        assert_eq!(named.load(Ordering::Relaxed), 1);
        vfs.heal();
        let copy = Db::open_with("copy", Options::default(), setup).expect("open the copy");
        assert_eq!(copy.get(b"key").expect("get").as_deref(), Some(&b"value"[..]));
    }

    #[test]
    fn closing_ends_it_between_two_tables_and_within_one_and_nothing_is_left() {
        // Where links are refused tables are copied.
        for (links, op, in_dir) in [(true, Op::Link, "store"), (false, Op::Append, "copy")] {
            let disk = StrictVfs::new();
            let vfs = FaultyVfs::new(Arc::new(disk.clone()));
            let env = Env::with_vfs(Arc::new(vfs.clone()), 1);
            let setup = Setup { env, inline_background: true, ..Setup::default() };
            let db = Db::open_with("store", Options::default(), setup).expect("open");
            for key in 0..3u8 {
                db.put(&[key], b"v").expect("put");
                db.flush().expect("flush");
            }
            let is_table = |path: &Path| path.extension().is_some_and(|e| e == "tbl");
            if !links {
                let refused = FaultRule::nth(1, &[Op::Link], Fault::Eio).from_then_on();
                vfs.inject(refused.on(is_table));
            }
            let core = db.core().clone();
            let closes = move |path: &Path| {
                let is_there = is_table(path) && path.starts_with(in_dir);
                if is_there {
                    core.background.stop();
                }
                is_there
            };
            let before = vfs.calls(op);
            // Never fails: it only sees when the first table is under way.
            vfs.inject(FaultRule::nth(u64::MAX, &[op], Fault::Eio).on(closes));
            let ended = db.checkpoint("copy").expect_err("closed");
            assert!(matches!(ended, Error::Cancelled), "{ended}");
            assert!(vfs.calls(op) > before, "a table was begun");
            assert!(!vfs.exists(Path::new("copy")).expect("exists"), "{op:?}");
        }
    }

    #[test]
    fn nobody_waits_while_logs_are_copied() {
        let disk = StrictVfs::new();
        let vfs = FaultyVfs::new(Arc::new(disk.clone()));
        let env = Env::with_vfs(Arc::new(vfs.clone()), 1);
        let setup = Setup { env, inline_background: true, ..Setup::default() };
        let db = Db::open_with("store", Options::default(), setup.clone()).expect("open");
        db.put(b"key", b"value").expect("put");
        vfs.inject(FaultRule::nth(1, &[Op::Link], Fault::Eio).from_then_on());
        let core = Arc::downgrade(db.core());
        let copied = Arc::new(AtomicBool::new(false));
        let seen = copied.clone();
        let looks = move |path: &Path| {
            if path.starts_with("copy")
                && path.extension().is_some_and(|end| end == "wal")
                && let Some(core) = core.upgrade()
            {
                seen.store(true, Ordering::Relaxed);
                assert!(core.commit.try_lock().is_some(), "writers wait");
                assert!(core.lock_versions().is_ok(), "flushes would wait");
                // As a flush would do that comes in between.
                let _ = disk.remove(&core.dir.join(path.file_name().expect("a file")));
            }
            false
        };
        vfs.inject(FaultRule::nth(1, &[Op::Append], Fault::Eio).on(looks));
        db.checkpoint("copy").expect("checkpoint");
        assert!(copied.load(Ordering::Relaxed), "a log was copied");
        vfs.heal();
        let copy = Db::open_with("copy", Options::default(), setup).expect("open the copy");
        assert_eq!(copy.get(b"key").expect("get").as_deref(), Some(&b"value"[..]));
    }
}

//! The log after the current one, made ready in the background.
//!
//! Ending one log and beginning the next must not make writers wait for the disk. So the next log
//! is created, its space reserved, its name made durable and told to the manifest, all while the
//! current one is in use; a writer that needs it only copies a header into it.
//!
//! Invariants: (1) numbers of logs ascend in the order in which the logs are used: the number is
//! taken under the lock under which the spare is put down or picked up; (2) a log is named in the
//! manifest before it is begun.
//! Crash: a spare that was not begun is an empty log to recovery.

use super::commit_state::Spare;
use super::core::Core;
use crate::event::Event;
use crate::log::{Blank, LogHeader, LogKind, Writer};
use crate::names;
use crate::options::{Options, memtable_limit_bytes};
use crate::version::{Change, TableStore, VersionEdit};
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, Result, Seq, Vfs};
use std::path::Path;

/// The most that is reserved for the log that is made when the database is opened; it grows as
/// needed.
const FIRST_RESERVE_BYTES: u64 = 1 << 20;

/// The next log is made ready when this part of the current one is written.
const DUE_PART: u64 = 8;

/// Makes a log ready; `None` if this file system does not reserve space.
///
/// # Errors
/// What was left behind is removed when the database is opened next.
fn make(core: &Core) -> Result<Option<Spare>> {
    core.mend_manifest()?;
    let number = core.store.new_number();
    let salt = core.env.entropy.next_u64();
    let path = names::wal(&core.dir, number);
    let vfs = core.env.vfs.as_ref();
    let blank = Blank::create(vfs, &path, next_reserve_bytes(core)).inspect_err(|error| {
        core.poison_if_sync(error);
        remove_unnamed(vfs, &path);
    })?;
    let Some(blank) = blank else {
        vfs.remove(&path)?;
        return Ok(None);
    };
    core.store.sync_dir().inspect_err(|_| remove_unnamed(vfs, &path))?;
    let mut edit = VersionEdit::new();
    edit.push(Change::WalCreated { number, salt });
    let mut versions = core.lock_versions()?;
    versions.commit(edit, None)?;
    Ok(Some(Spare { number, salt, blank }))
}

/// Removes a log that no manifest names. On a full disk there would soon be many of them.
fn remove_unnamed(vfs: &dyn Vfs, path: &Path) {
    // There may be none, and whoever opens the database next removes what stays.
    let _ = vfs.remove(path);
}

/// Gives the spare's space back: the database is closed, or the log that comes next must be a new
/// one. Its file goes with the next open.
pub(super) fn discard(core: &Core) {
    let Some(spare) = core.spare.lock().ready.take() else { return };
    let path = names::wal(&core.dir, spare.number);
    if let Err(error) = spare.blank.finish() {
        core.events.emit(&Event::CleanupFailed { path, error });
    }
}

/// What a log without values is likely to grow to: about as large as a memtable.
fn reserve_bytes(options: &Options) -> u64 {
    memtable_limit_bytes(&options.default_keyspace, options.memtables_limit_bytes())
}

/// The same for the next log, which ends sooner where logs have values.
fn next_reserve_bytes(core: &Core) -> u64 {
    let reserve = reserve_bytes(&core.options);
    match core.value_use.file_bytes.load(Ordering::Relaxed) {
        0 => reserve,
        _ => reserve.min(core.value_use.length_max.load(Ordering::Relaxed)),
    }
}

/// Length at which the log that a database is opened with has the next one made ready. So a store
/// that is hardly written to does not take the space of two.
pub(super) fn first_due_bytes(options: &Options) -> u64 {
    reserve_bytes(options) / DUE_PART
}

/// The same for the logs that follow: early enough for a log that ends soon.
pub(super) fn due_bytes(core: &Core) -> u64 {
    next_reserve_bytes(core) / DUE_PART
}

/// Makes a spare log ready, if there is none.
pub(super) fn prepare_next(core: &Core) -> Result<bool> {
    if core.check_writable().is_err() {
        return Ok(false);
    }
    let mut slot = core.spare.lock();
    let current = Some(core.current_wal.lock().number);
    if !slot.wanted || slot.ready.is_some() || slot.refused_at == current {
        return Ok(false);
    }
    slot.ready = make(core)?;
    slot.refused_at = if slot.ready.is_none() { current } else { None };
    Ok(slot.ready.is_some())
}

/// The log to be used next, with its header in it, and its number.
///
/// Without a spare it is made now; header and name are then durable when this returns.
///
/// # Errors
/// The current log goes on, unless the disk may say that the next one is begun: what it took from
/// then on would be void after a crash.
pub(super) fn begin_next(
    core: &Core,
    spare: Option<Spare>,
    first_seq: Seq,
    current: &mut Writer,
) -> Result<(u64, Writer)> {
    if let Some(spare) = spare {
        let number = spare.number;
        let begun = spare.begin(first_seq);
        // Its header may stand there all the same.
        if begun.as_ref().is_err_and(|error| !matches!(error, Error::NoSpace { .. })) {
            current.give_up();
        }
        return begun.map(|writer| (number, writer));
    }
    core.mend_manifest()?;
    let number = core.store.new_number();
    let reserve = next_reserve_bytes(core);
    let (writer, salt) = create_begun(&core.store, reserve, number, first_seq)
        .inspect_err(|error| core.poison_if_sync(error))?;
    let mut edit = VersionEdit::new();
    edit.push(Change::WalCreated { number, salt }).push(Change::WalBegun { number, first_seq });
    let mut versions = core.lock_versions()?;
    let named = versions.commit(edit, None);
    if named.is_err() && versions.is_in_doubt() {
        current.give_up();
    }
    named.map(|()| (number, writer))
}

/// Creates the log that a database is opened with.
pub(super) fn create_first(
    store: &TableStore,
    options: &Options,
    number: u64,
    first_seq: Seq,
) -> Result<(Writer, u64)> {
    let reserve = reserve_bytes(options).min(FIRST_RESERVE_BYTES);
    create_begun(store, reserve, number, first_seq)
}

/// Creates a log, makes its header and its name durable, and returns its salt too.
fn create_begun(
    store: &TableStore,
    reserve_bytes: u64,
    number: u64,
    first_seq: Seq,
) -> Result<(Writer, u64)> {
    let salt = store.env.entropy.next_u64();
    let header = LogHeader { kind: LogKind::Wal, number, salt, first_seq };
    let path = names::wal(&store.dir, number);
    let vfs = store.env.vfs.as_ref();
    let created = Writer::create(vfs, &path, header, reserve_bytes).and_then(|writer| {
        store.sync_dir()?;
        Ok((writer, salt))
    });
    created.inspect_err(|_| remove_unnamed(vfs, &path))
}

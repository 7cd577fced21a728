//! Recovery: what the logs hold that the tables do not.
//!
//! Logs are read in order. A record is skipped if its keyspace's tables already hold it. Reading
//! ends at the first gap in the sequence numbers: what stands behind a torn tail was never
//! acknowledged as durable, and giving it back without what came before would not be a prefix of
//! what was written.
//!
//! ```text
//! next record starts at f, the last one seen ended at l:
//!   (before the first: l is what tables hold, but the oldest log has to begin where its header says)
//!   f <= l      a copy of what was seen (a log carried over into the next): skip
//!   f == l + 1  apply
//!   f >  l + 1  gap: stop; if a mark says the record was durable, Corruption
//! ```

use super::replayed::{Replayed, Spill, pointer_of};
use crate::event::Event;
use crate::log::{LogKind, Reader};
use crate::names::{self, FileKind};
use crate::value_log::{Place, ValueFileMeta};
use crate::version::{KeyspaceRecord, NamedWal, NamedWals, Recovered, TableStore};
use esker_base::{Env, Error, KeyspaceId, Kind, Result, Seq, batch};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// What the logs have to reach.
pub(super) struct Target {
    /// Newest sequence number in tables.
    pub(super) table_seq: Seq,
    /// If the database was closed in good order: its newest sequence number.
    pub(super) closed_seq: Option<Seq>,
    /// The manifest has given out no number, and so no keyspace id, from here on.
    pub(super) next_number: u64,
    pub(super) manifest_number: u64,
}

impl Target {
    pub(super) fn of(recovered: &Recovered) -> Target {
        Target {
            table_seq: recovered.newest_table_seq(),
            closed_seq: recovered.closed_seq,
            next_number: recovered.next_number,
            manifest_number: recovered.manifest_number,
        }
    }
}

/// The first number above those of all files.
pub(super) fn number_after(files: &[FileKind]) -> u64 {
    let numbers = files.iter().filter_map(|kind| match kind {
        FileKind::Manifest(n) | FileKind::Wal(n) | FileKind::Table(n) | FileKind::Values(n) => {
            Some(n + 1)
        }
        _ => None,
    });
    numbers.max().unwrap_or(1)
}

/// Every file the manifest names must be there, with the length it should have.
pub(super) fn check_files(env: &Env, dir: &Path, recovered: &Recovered) -> Result<()> {
    let lengths: BTreeMap<String, u64> =
        env.vfs.list(dir)?.into_iter().map(|e| (e.name, e.len_bytes)).collect();
    let length = |path: &Path| {
        path.file_name().and_then(|name| name.to_str()).and_then(|name| lengths.get(name)).copied()
    };
    for meta in recovered.tables() {
        let path = names::table(dir, meta.number);
        match length(&path) {
            None => return Err(Error::corruption(path, 0, "the table is missing; run repair")),
            Some(bytes) if bytes != meta.file_bytes => {
                let at = bytes.min(meta.file_bytes);
                return Err(Error::corruption(
                    path,
                    at,
                    "the table has the wrong length; run repair",
                ));
            }
            Some(_) => {}
        }
    }
    for meta in recovered.values.0.values() {
        let path = meta.path(dir);
        // Behind a log's last record there may be a mark, or space that was not given back.
        let may_be_longer = meta.place == Place::Wal;
        match length(&path) {
            Some(bytes) if bytes == meta.file_bytes => {}
            Some(bytes) if bytes > meta.file_bytes && may_be_longer => {}
            Some(bytes) => {
                let at = bytes.min(meta.file_bytes);
                let what = "the file with values has the wrong length; run repair";
                return Err(Error::corruption(path, at, what));
            }
            None => {
                return Err(Error::corruption(
                    path,
                    0,
                    "the file with values is missing; run repair",
                ));
            }
        }
    }
    for &number in recovered.wals.0.keys() {
        let path = names::wal(dir, number);
        if length(&path).is_none() {
            return Err(Error::corruption(path, 0, "the log is missing; run repair"));
        }
    }
    Ok(())
}

/// A log is named in the manifest before it holds a record. One that is not named, newer than all
/// that are, and not empty, means that the manifest has lost its end.
pub(super) fn check_unnamed_logs(
    env: &Env,
    dir: &Path,
    files: &[FileKind],
    recovered: &Recovered,
) -> Result<()> {
    let newest_named = recovered.wals.0.keys().next_back().copied().unwrap_or(0);
    for &kind in files {
        let FileKind::Wal(number) = kind else { continue };
        // One that is kept for its values was named then, and all its records are in tables.
        let known = number <= newest_named || number < recovered.wals.1;
        if known || recovered.values.0.contains_key(&number) {
            continue;
        }
        let path = names::wal(dir, number);
        let has_records = match Reader::open(env.vfs.as_ref(), &path, LogKind::Wal, number, 0) {
            Ok(mut reader) if reader.header().is_none() => reader.has_content()?,
            Ok(mut reader) => reader.next()?.is_some(),
            // Only ever begun by us after the manifest had named it.
            Err(error) if error.is_corruption() => true,
            Err(error) => return Err(error),
        };
        if has_records {
            let what = "the manifest does not know this log, which holds records; run repair";
            return Err(Error::corruption(path, 0, what));
        }
    }
    Ok(())
}

/// Reads the logs.
pub(super) fn replay(
    store: &Arc<TableStore>,
    records: &BTreeMap<KeyspaceId, KeyspaceRecord>,
    wals: &NamedWals,
    target: &Target,
    spill: Spill,
) -> Result<Replayed> {
    let mut replay = Replay {
        store,
        records,
        spill,
        stopped: false,
        before_logs: target.table_seq,
        next_number: target.next_number,
        manifest_number: target.manifest_number,
        starts: Vec::new(),
        contributed: BTreeSet::new(),
        log_seq: None,
        out: Replayed::of_logs(),
    };
    for (&number, wal) in &wals.0 {
        let start = replay.start_of(number, wal)?;
        replay.starts.push(start);
    }
    // A log that begins in what tables hold is there for another keyspace, and all of it was
    // durable before those tables were named.
    let oldest_first = replay.starts.iter().find_map(|start| start.first_seq).unwrap_or(Seq::MAX);
    let overlaps = oldest_first <= target.table_seq;
    if overlaps {
        replay.before_logs = oldest_first.saturating_sub(1);
    }
    for (i, Start { number, .. }) in replay.starts.clone().into_iter().enumerate() {
        if !replay.starts[i].is_begun {
            continue;
        }
        // Records at or above the start of a later log are void, and so are those after a close.
        let later = replay.starts[i + 1..].iter().filter_map(|start| start.first_seq);
        let later = later.chain(target.closed_seq.map(|seq| seq + 1));
        let void_from = later.min().unwrap_or(Seq::MAX);
        replay.log(number, void_from)?;
    }
    let log_seq = replay.log_seq.unwrap_or(replay.before_logs);
    let last_seq = log_seq.max(target.table_seq);
    let falls_short = overlaps && log_seq < target.table_seq;
    if falls_short || target.closed_seq.is_some_and(|closed| last_seq < closed) {
        let path = names::wal(&store.dir, replay.log_of(log_seq + 1));
        return Err(Error::corruption(
            path,
            0,
            "the log ends before its last durable record; run repair",
        ));
    }
    let idle_logs = replay.idle_logs();
    let mut out = replay.out;
    (out.last_seq, out.idle_logs) = (last_seq, idle_logs);
    Ok(out)
}

/// Where a log begins.
#[derive(Clone, Copy, Debug)]
struct Start {
    number: u64,
    /// Records of earlier logs from here on are void. `None` if nobody knows: then no table holds
    /// anything of the log.
    first_seq: Option<Seq>,
    /// It has a header. One without holds nothing that counts.
    is_begun: bool,
}

struct Replay<'a> {
    store: &'a Arc<TableStore>,
    records: &'a BTreeMap<KeyspaceId, KeyspaceRecord>,
    spill: Spill,
    /// A gap was met: nothing more is applied.
    stopped: bool,
    /// The first record follows this sequence number, or begins before it.
    before_logs: Seq,
    next_number: u64,
    manifest_number: u64,
    /// Where each log begins.
    starts: Vec<Start>,
    /// Those of which a record was applied.
    contributed: BTreeSet<u64>,
    /// Newest sequence number read from the logs, once there is one.
    log_seq: Option<Seq>,
    out: Replayed,
}

impl Replay<'_> {
    /// Where a log begins.
    fn start_of(&self, number: u64, named: &NamedWal) -> Result<Start> {
        let path = names::wal(&self.store.dir, number);
        let vfs = self.store.env.vfs.as_ref();
        let reader = Reader::open_named(vfs, &path, number, named.salt)?;
        let begins_at = reader.header().map(|header| header.first_seq);
        if let (Some(header), Some(manifest)) = (begins_at, named.first_seq)
            && header != manifest
        {
            let what = "the log does not begin where the manifest says";
            return Err(Error::corruption(path, 0, what));
        }
        Ok(Start {
            number,
            first_seq: begins_at.or(named.first_seq),
            is_begun: begins_at.is_some(),
        })
    }

    /// The log that should hold this sequence number.
    fn log_of(&self, seq: Seq) -> u64 {
        let holds = |start: &&Start| start.first_seq.is_some_and(|first| first <= seq);
        let holder = self.starts.iter().rfind(holds);
        holder.or(self.starts.first()).map_or(0, |start| start.number)
    }

    /// What opens have left behind that failed while they carried records over: the newest logs, if
    /// several begin at the same sequence number and none of them has anything new. The newest of
    /// them stays, which says of the others' and of older logs' records what is void.
    fn idle_logs(&self) -> Vec<u64> {
        let first_seq = self.starts.last().and_then(|start| start.first_seq);
        if first_seq.is_none() || self.stopped {
            return Vec::new();
        }
        let is_idle =
            |s: &&Start| s.first_seq == first_seq && !self.contributed.contains(&s.number);
        let idle = self.starts.iter().rev().take_while(is_idle);
        idle.skip(1).map(|start| start.number).collect()
    }

    fn log(&mut self, number: u64, void_from: Seq) -> Result<()> {
        let path = names::wal(&self.store.dir, number);
        let vfs = self.store.env.vfs.clone();
        let mut reader = Reader::open(vfs.as_ref(), &path, LogKind::Wal, number, 0)?;
        let mut batches = 0;
        let mut gap_at = None;
        let salt = reader.header().map_or(0, |header| header.salt);
        let mut pointers = false;
        while let Some((offset, payload)) = reader.next()? {
            let damaged = |what| Error::corruption(&path, offset, what);
            let (first, count, ops) = batch::decode(payload).map_err(damaged)?;
            if first >= void_from || count == 0 {
                continue;
            }
            let last = first + u64::from(count) - 1;
            if self.log_seq.is_some_and(|seen| last <= seen) {
                continue;
            }
            // The oldest log may start anywhere in what the tables already hold.
            if self.stopped || first > self.log_seq.unwrap_or(self.before_logs) + 1 {
                self.stopped = true;
                gap_at = gap_at.or(Some(offset));
                continue;
            }
            let mut value_bytes = 0;
            for (i, op) in ops.enumerate() {
                let op = op.map_err(damaged)?;
                value_bytes += value_bytes_of(&op, number).map_err(damaged)?;
                self.apply(op, first + i as u64)?;
            }
            pointers |= value_bytes > 0;
            self.out.carry(first, payload, value_bytes);
            self.log_seq = Some(last);
            self.contributed.insert(number);
            batches += 1;
        }
        if pointers {
            let meta = ValueFileMeta::of_log(number, salt, reader.position_bytes());
            let file = self.store.values.file(&meta);
            self.out.note_log(number, file, reader.durable_bytes());
        }
        if let Some(offset) = gap_at
            && reader.durable_bytes() > offset
        {
            let holder = self.log_of(self.log_seq.unwrap_or(self.before_logs) + 1);
            let (path, at) = match holder == number {
                true => (path, offset),
                false => (names::wal(&self.store.dir, holder), 0),
            };
            let what = "durable records follow after records that are missing; run repair";
            return Err(Error::corruption(path, at, what));
        }
        let torn_bytes = reader.torn_tail().map_or(0, |torn| torn.dropped_bytes);
        self.store.events.emit(&Event::WalReplayed { number, batches, torn_bytes });
        Ok(())
    }

    fn apply(&mut self, op: batch::BatchOp<'_>, seq: Seq) -> Result<()> {
        let Some(record) = self.records.get(&op.keyspace) else {
            // A keyspace that the manifest has no more was dropped after this was written; one that
            // it never had means that the manifest has lost its end.
            if u64::from(op.keyspace.0) < self.next_number {
                return Ok(());
            }
            let what =
                "a log holds records of a keyspace that the manifest does not know; run repair";
            let path = names::manifest(&self.store.dir, self.manifest_number);
            return Err(Error::corruption(path, 0, what));
        };
        if seq <= record.flushed_seq {
            self.out.note_logged(&op, seq);
            return Ok(());
        }
        self.out.insert(self.store, self.records, &op, seq, self.spill)
    }
}

/// Bytes of the record that an operation points to, in the log that both stand in.
fn value_bytes_of(op: &batch::BatchOp<'_>, number: u64) -> Result<u64, &'static str> {
    match pointer_of(op) {
        Some(pointer) if pointer.log == number => Ok(pointer.record_bytes()),
        None if op.kind != Kind::PutPointer => Ok(0),
        _ => Err("a pointer to a value does not lead into its own log"),
    }
}

//! Recovery: what the logs hold that the tables do not.
//!
//! Logs are read in order. A record is skipped if its keyspace's tables already hold it. Reading
//! ends at the first gap in the sequence numbers: what stands behind a torn tail was never acknowledged as
//! durable, and giving it back without what came before would not be a prefix of what was written.
//!
//! ```text
//! next record starts at f, the last one seen ended at l:
//!   f <= l      a copy of what was seen (a log carried over into the next): skip
//!   f == l + 1  apply
//!   f >  l + 1  gap: stop; if a mark says the record was durable, Corruption
//! ```
//!
//! The first record of all may not be after the number that the oldest log says it starts with.

use super::core::{Core, View};
use crate::event::Event;
use crate::flush::flush_memtable;
use crate::log::{LogKind, Reader};
use crate::memtable::Memtable;
use crate::names::{self, FileKind};
use crate::version::{
    Change, KeyspaceRecord, Recovered, TableMeta, TableStore, VersionEdit, VersionSet,
};
use esker_base::checksum::hash64;
use esker_base::sync::atomic::Ordering;
use esker_base::{Env, Error, KeyspaceId, Kind, Result, Seq, Trailer, batch};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Logs with fewer bytes of records than this are carried over into the new log.
const CARRY_BYTES_MAX: u64 = 1 << 20;

/// What the logs have to reach.
pub(super) struct Target {
    /// Newest sequence number in tables.
    pub(super) table_seq: Seq,
    /// If the database was closed in good order: its newest sequence number.
    pub(super) closed_seq: Option<Seq>,
}

/// Where memtables go that fill up during replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spill {
    ToTables,
    /// Nothing may be written.
    ToMemory,
}

/// What was read from the logs.
#[derive(Default)]
pub(super) struct Replayed {
    pub(super) last_seq: Seq,
    keyspaces: BTreeMap<KeyspaceId, ReplayedKeyspace>,
    /// The batches themselves, as long as they are few.
    carried: Option<Vec<Vec<u8>>>,
}

struct ReplayedKeyspace {
    active: Arc<Memtable>,
    /// Full ones, newest first, if they could not be written.
    full: Vec<Arc<Memtable>>,
    /// Tables written so far, a list for each memtable, oldest first.
    tables: Vec<Vec<TableMeta>>,
}

/// The first number above those of all files.
pub(super) fn number_after(files: &[FileKind]) -> u64 {
    let numbers = files.iter().filter_map(|kind| match kind {
        FileKind::Manifest(n) | FileKind::Wal(n) | FileKind::Table(n) => Some(n + 1),
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
    for &number in recovered.wals.keys() {
        let path = names::wal(dir, number);
        if length(&path).is_none() {
            return Err(Error::corruption(path, 0, "the log is missing; run repair"));
        }
    }
    Ok(())
}

/// A log is named in the manifest before it holds a record. One that is not named, newer than all that
/// are, and not empty, means that the manifest has lost its end.
pub(super) fn check_unnamed_logs(
    env: &Env,
    dir: &Path,
    files: &[FileKind],
    recovered: &Recovered,
) -> Result<()> {
    let newest_named = recovered.wals.keys().next_back().copied().unwrap_or(0);
    for &kind in files {
        let FileKind::Wal(number) = kind else { continue };
        if number <= newest_named {
            continue;
        }
        let path = names::wal(dir, number);
        let has_records = match Reader::open(env.vfs.as_ref(), &path, LogKind::Wal, number, 0) {
            Ok(mut reader) => reader.next()?.is_some(),
            // Only ever written by us after its header was durable.
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
    wals: &BTreeMap<u64, u64>,
    target: &Target,
    spill: Spill,
) -> Result<Replayed> {
    let mut replay = Replay {
        store,
        records,
        spill,
        carried_bytes: 0,
        stopped: false,
        first_seq: Seq::MAX,
        log_seq: None,
        end: None,
        out: Replayed { carried: Some(Vec::new()), ..Replayed::default() },
    };
    let numbers: Vec<u64> = wals.keys().copied().collect();
    let mut starts = Vec::new();
    for (&number, &salt) in wals {
        starts.push(replay.first_seq_of(number, salt)?);
    }
    replay.first_seq = starts.first().copied().unwrap_or(0);
    for (i, &number) in numbers.iter().enumerate() {
        // Records at or above the start of a later log are void, and so are those after a close.
        let later = starts[i + 1..].iter().copied().chain(target.closed_seq.map(|seq| seq + 1));
        let void_from = later.min().unwrap_or(Seq::MAX);
        replay.log(number, void_from)?;
    }
    let last_seq = replay.log_seq.unwrap_or(0).max(target.table_seq);
    if let Some(closed) = target.closed_seq
        && last_seq < closed
    {
        let path = names::wal(&store.dir, numbers.last().copied().unwrap_or(0));
        return Err(Error::corruption(
            path,
            0,
            "the log ends before its last durable record; run repair",
        ));
    }
    let mut out = replay.out;
    out.last_seq = last_seq;
    Ok(out)
}

struct Replay<'a> {
    store: &'a Arc<TableStore>,
    records: &'a BTreeMap<KeyspaceId, KeyspaceRecord>,
    spill: Spill,
    carried_bytes: u64,
    /// A gap was met: nothing more is applied.
    stopped: bool,
    /// The oldest log holds this sequence number first, or copies of older records before it.
    first_seq: Seq,
    /// Newest sequence number read from the logs, once there is one.
    log_seq: Option<Seq>,
    /// The log before the present one, and where it ends.
    end: Option<(u64, u64)>,
    out: Replayed,
}

impl Replay<'_> {
    /// The first sequence number that a log may hold.
    fn first_seq_of(&self, number: u64, salt: u64) -> Result<Seq> {
        let path = names::wal(&self.store.dir, number);
        let reader = Reader::open(self.store.env.vfs.as_ref(), &path, LogKind::Wal, number, 0)?;
        match reader.header() {
            // Its header was durable before the manifest named it.
            None => Err(Error::corruption(path, 0, "the log has lost its header; run repair")),
            Some(header) if header.salt != salt => {
                Err(Error::corruption(path, 0, "the log is not the one the manifest names"))
            }
            Some(header) => Ok(header.first_seq),
        }
    }

    fn log(&mut self, number: u64, void_from: Seq) -> Result<()> {
        let path = names::wal(&self.store.dir, number);
        let vfs = self.store.env.vfs.clone();
        let mut reader = Reader::open(vfs.as_ref(), &path, LogKind::Wal, number, 0)?;
        let mut batches = 0;
        let mut gap_at = None;
        let mut end = 0;
        while let Some((offset, payload)) = reader.next()? {
            let damaged = |what| Error::corruption(&path, offset, what);
            end = offset + payload.len() as u64;
            let (first, count, ops) = batch::decode(payload).map_err(damaged)?;
            if first >= void_from || count == 0 {
                continue;
            }
            let last = first + u64::from(count) - 1;
            if self.log_seq.is_some_and(|seen| last <= seen) {
                continue;
            }
            if self.stopped || first > self.log_seq.map_or(self.first_seq, |seen| seen + 1) {
                self.stopped = true;
                gap_at = gap_at.or(Some(offset));
                continue;
            }
            for (i, op) in ops.enumerate() {
                self.apply(op.map_err(damaged)?, first + i as u64)?;
            }
            self.carry(payload);
            self.log_seq = Some(last);
            batches += 1;
        }
        if let Some(offset) = gap_at
            && reader.durable_bytes() > offset
        {
            // What is missing stood at the end of the log before.
            let (number, offset) = self.end.unwrap_or((number, offset));
            let what = "the log ends before records that durable ones follow; run repair";
            return Err(Error::corruption(names::wal(&self.store.dir, number), offset, what));
        }
        if !self.stopped {
            self.end = Some((number, end));
        }
        let torn_bytes = reader.torn_tail().map_or(0, |torn| torn.dropped_bytes);
        self.store.events.emit(&Event::WalReplayed { number, batches, torn_bytes });
        Ok(())
    }

    /// Keeps a batch for the new log, as long as there are few.
    fn carry(&mut self, payload: &[u8]) {
        self.carried_bytes += payload.len() as u64;
        if self.carried_bytes > CARRY_BYTES_MAX {
            self.out.carried = None;
        }
        if let Some(carried) = &mut self.out.carried {
            carried.push(payload.to_vec());
        }
    }

    fn apply(&mut self, op: batch::BatchOp<'_>, seq: Seq) -> Result<()> {
        // A keyspace that the manifest has no more was dropped after this was written.
        let Some(record) = self.records.get(&op.keyspace) else { return Ok(()) };
        if seq <= record.flushed_seq {
            return Ok(());
        }
        let fresh = || Arc::new(Memtable::new(record.options.order.clone(), 0));
        let keyspace = self.out.keyspaces.entry(op.keyspace).or_insert_with(|| ReplayedKeyspace {
            active: fresh(),
            full: Vec::new(),
            tables: Vec::new(),
        });
        match op.kind {
            Kind::DeleteRange => keyspace.active.writer().insert_range(op.key, op.value, seq),
            kind => {
                let trailer = Trailer::new(seq, kind);
                keyspace.active.writer().insert(op.key, hash64(op.key), trailer, op.value);
            }
        }
        if keyspace.active.memory_bytes() >= record.options.memtable_bytes {
            let mem = std::mem::replace(&mut keyspace.active, fresh());
            match self.spill {
                Spill::ToMemory => keyspace.full.insert(0, mem),
                Spill::ToTables => {
                    self.out.carried = None;
                    let tables = flush_memtable(self.store, &record.options, &mem, &[], &|| false)?;
                    keyspace.tables.push(tables);
                }
            }
        }
        Ok(())
    }
}

impl Replayed {
    /// The batches to be copied into the new log, if they are few; otherwise `flush_all` is due.
    pub(super) fn take_carried(&mut self) -> Option<Vec<Vec<u8>>> {
        self.carried.take().filter(|batches| !batches.is_empty())
    }

    /// Writes what is left in memory as tables.
    pub(super) fn flush_all(
        &mut self,
        store: &Arc<TableStore>,
        records: &BTreeMap<KeyspaceId, KeyspaceRecord>,
    ) -> Result<()> {
        for (id, keyspace) in &mut self.keyspaces {
            let Some(record) = records.get(id) else { continue };
            if !keyspace.active.is_empty() {
                let mem = &keyspace.active;
                let tables = flush_memtable(store, &record.options, mem, &[], &|| false)?;
                keyspace.tables.push(tables);
            }
        }
        Ok(())
    }

    /// Adds the tables that were written to an edit.
    pub(super) fn add_tables(&self, edit: &mut VersionEdit, versions: &mut VersionSet) {
        for (&id, keyspace) in &self.keyspaces {
            if keyspace.tables.is_empty() {
                continue;
            }
            for tables in &keyspace.tables {
                let run = versions.new_run_id();
                for meta in tables {
                    edit.push(Change::TableAdded { id, level: 0, run, meta: meta.clone() });
                }
            }
            edit.push(Change::Flushed { id, seq: self.last_seq });
        }
    }

    /// Makes the memtables the active ones of an opened database.
    pub(super) fn adopt_into(self, core: &Core) {
        for (id, replayed) in self.keyspaces {
            let Some(keyspace) = core.keyspace(id) else { continue };
            let bytes = replayed.active.memory_bytes();
            keyspace.counted_bytes.store(bytes, Ordering::Relaxed);
            core.memtable_bytes.fetch_add(bytes, Ordering::Relaxed);
            let sealed = replayed.full.into_iter().map(|mem| {
                Arc::new(super::core::Sealed {
                    memory_bytes: mem.memory_bytes(),
                    mem,
                    first_wal: 0,
                    next_wal: 0,
                    seq: 0,
                })
            });
            let (active, sealed) = (replayed.active, sealed.collect());
            keyspace.update_view(|view| {
                *view = View { active, sealed, version: view.version.clone() };
            });
        }
    }
}

//! Recovery: what the logs hold that the tables do not.
//!
//! Logs are read in order. A record is skipped if its keyspace's tables already hold it. Reading
//! ends at the first gap in the sequence numbers: what stands behind a torn tail was never acknowledged as
//! durable, and giving it back without what came before would not be a prefix of what was written.
//!
//! ```text
//! next record starts at f, the last one seen ended at l:
//!   (before the first: l is what tables hold, but the oldest log has to begin where its header says)
//!   f <= l      a copy of what was seen (a log carried over into the next): skip
//!   f == l + 1  apply
//!   f >  l + 1  gap: stop; if a mark says the record was durable, Corruption
//! ```

use super::core::{Core, View};
use crate::event::Event;
use crate::flush::{Hidden, flush_memtable};
use crate::log::{LogKind, Reader, StoredValue, ValuePointer, Writer};
use crate::memtable::Memtable;
use crate::names::{self, FileKind};
use crate::table::Origin;
use crate::value_log::{LogList, Place, ValueFile, ValueFileMeta};
use crate::version::{
    Change, KeyspaceRecord, NamedWal, NamedWals, Recovered, TableMeta, TableStore, VersionEdit,
    VersionSet,
};
use esker_base::heap::Heap;
use esker_base::sync::atomic::Ordering;
use esker_base::{Batch, Env, Error, KeyspaceId, Kind, Result, Seq, batch};
use std::collections::{BTreeMap, BTreeSet};
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
    /// The logs that pointers in memtables lead into, and where their last whole record ends.
    logs: BTreeMap<u64, ReplayedLog>,
}

/// A log with values that were replayed.
struct ReplayedLog {
    file: Arc<ValueFile>,
    end_bytes: u64,
    /// Up to here it is known to be durable.
    durable_bytes: u64,
}

struct ReplayedKeyspace {
    active: Arc<Memtable>,
    /// Full ones, newest first, if they could not be written.
    full: Vec<Arc<Memtable>>,
    /// Tables written so far, a list for each memtable, oldest first.
    tables: UnnamedTables,
    /// Records up to here are in older tables.
    flushed_seq: Seq,
}

/// Tables that no edit has named. Their files go with it: an open that fails and is tried again leaves none behind.
struct UnnamedTables {
    store: Arc<TableStore>,
    of_memtables: Vec<Vec<TableMeta>>,
}

impl UnnamedTables {
    /// The tables, of which an edit is about to tell.
    fn take(&mut self) -> Vec<Vec<TableMeta>> {
        std::mem::take(&mut self.of_memtables)
    }
}

impl Drop for UnnamedTables {
    fn drop(&mut self) {
        for meta in self.of_memtables.iter().flatten() {
            let path = names::table(&self.store.dir, meta.number);
            // What stays is an orphan, which the next open removes that succeeds.
            let _ = self.store.in_directory(|vfs| vfs.remove(&path));
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

/// A log is named in the manifest before it holds a record. One that is not named, newer than all that
/// are, and not empty, means that the manifest has lost its end.
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
        carried_bytes: 0,
        stopped: false,
        before_logs: target.table_seq,
        next_number: target.next_number,
        manifest_number: target.manifest_number,
        starts: Vec::new(),
        log_seq: None,
        out: Replayed { carried: Some(Vec::new()), ..Replayed::default() },
    };
    for (&number, wal) in &wals.0 {
        let start = replay.start_of(number, wal)?;
        replay.starts.push(start);
    }
    // A log that begins in what tables hold is there for another keyspace, and all of it was durable
    // before those tables were named.
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
    let mut out = replay.out;
    out.last_seq = last_seq;
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
    carried_bytes: u64,
    /// A gap was met: nothing more is applied.
    stopped: bool,
    /// The first record follows this sequence number, or begins before it.
    before_logs: Seq,
    next_number: u64,
    manifest_number: u64,
    /// Where each log begins.
    starts: Vec<Start>,
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
            self.carry(payload, value_bytes);
            self.log_seq = Some(last);
            batches += 1;
        }
        if pointers {
            let meta = ValueFileMeta::of_log(number, salt, reader.position_bytes());
            let (file, end_bytes) = (self.store.values.file(&meta), meta.file_bytes);
            let durable_bytes = reader.durable_bytes();
            self.out.logs.insert(number, ReplayedLog { file, end_bytes, durable_bytes });
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

    /// Keeps a batch for the new log, as long as there are few.
    fn carry(&mut self, payload: &[u8], value_bytes: u64) {
        self.carried_bytes += payload.len() as u64 + value_bytes;
        if self.carried_bytes > CARRY_BYTES_MAX {
            self.out.carried = None;
        }
        if let Some(carried) = &mut self.out.carried {
            carried.push(payload.to_vec());
        }
    }

    fn apply(&mut self, op: batch::BatchOp<'_>, seq: Seq) -> Result<()> {
        let Some(record) = self.records.get(&op.keyspace) else {
            // A keyspace that the manifest has no more was dropped after this was written; one that it
            // never had means that the manifest has lost its end.
            if u64::from(op.keyspace.0) < self.next_number {
                return Ok(());
            }
            let what =
                "a log holds records of a keyspace that the manifest does not know; run repair";
            let path = names::manifest(&self.store.dir, self.manifest_number);
            return Err(Error::corruption(path, 0, what));
        };
        if seq <= record.flushed_seq {
            return Ok(());
        }
        let store = self.store;
        let fresh = || Arc::new(Memtable::new(record.options.order.clone()));
        let keyspace = self.out.keyspaces.entry(op.keyspace).or_insert_with(|| ReplayedKeyspace {
            active: fresh(),
            full: Vec::new(),
            tables: UnnamedTables { store: store.clone(), of_memtables: Vec::new() },
            flushed_seq: record.flushed_seq,
        });
        keyspace.active.writer().apply(&op, seq);
        if keyspace.active.is_full(record.options.memtable_bytes) {
            let mem = std::mem::replace(&mut keyspace.active, fresh());
            match self.spill {
                Spill::ToMemory => keyspace.full.insert(0, mem),
                Spill::ToTables => {
                    self.out.carried = None;
                    let origin = Origin::new(op.keyspace, &record.name);
                    let options = &record.options;
                    let written = flush_memtable(
                        store,
                        options,
                        origin,
                        &mem,
                        &Hidden::by_newer(),
                        None,
                        &|| false,
                    )?;
                    keyspace.tables.of_memtables.push(written.tables);
                }
            }
        }
        Ok(())
    }
}

/// What an operation points to, if it does.
fn pointer_of(op: &batch::BatchOp<'_>) -> Option<ValuePointer> {
    ValuePointer::decode(op.value).filter(|_| op.kind == Kind::PutPointer)
}

/// Bytes of the record that an operation points to, in the log that both stand in.
fn value_bytes_of(op: &batch::BatchOp<'_>, number: u64) -> Result<u64, &'static str> {
    match pointer_of(op) {
        Some(pointer) if pointer.log == number => Ok(pointer.record_bytes()),
        None if op.kind != Kind::PutPointer => Ok(0),
        _ => Err("a pointer to a value does not lead into its own log"),
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
        for (&id, keyspace) in &mut self.keyspaces {
            let Some(record) = records.get(&id) else { continue };
            if !keyspace.active.is_empty() {
                let (mem, origin) = (&keyspace.active, Origin::new(id, &record.name));
                let options = &record.options;
                let written = flush_memtable(
                    store,
                    options,
                    origin,
                    mem,
                    &Hidden::by_newer(),
                    None,
                    &|| false,
                )?;
                keyspace.tables.of_memtables.push(written.tables);
            }
        }
        Ok(())
    }

    /// Copies batches into the new log; their values too, whose memtables then point there.
    pub(super) fn carry_over(
        &mut self,
        store: &Arc<TableStore>,
        batches: &[Vec<u8>],
        wal: &mut Writer,
        number: u64,
    ) -> Result<()> {
        if self.logs.is_empty() {
            return batches.iter().try_for_each(|batch| wal.append(batch));
        }
        let flushed = |id: KeyspaceId| self.keyspaces.get(&id).map(|keyspace| keyspace.flushed_seq);
        let mut memtables = BTreeMap::new();
        for payload in batches {
            let damaged = |what| Error::corruption(names::wal(&store.dir, number), 0, what);
            let (first, _, ops) = batch::decode(payload).map_err(damaged)?;
            let ops = ops.collect::<Result<Vec<_>, _>>().map_err(damaged)?;
            let stored = ops.iter().filter_map(pointer_of).map(|from| {
                let missing = || damaged("a value of a log that is gone");
                let file = &self.logs.get(&from.log).ok_or_else(missing)?.file;
                Ok(file.stored(&Heap::global(), &from)?.1)
            });
            let stored = stored.collect::<Result<Vec<StoredValue>>>()?;
            let values: Vec<(u8, &[u8])> =
                stored.iter().map(|value| (value.codec, value.bytes())).collect();
            let mut places = wal.places(values.iter().map(|(_, stored)| stored.len()));
            let mut copy = Batch::with_capacity(payload.len());
            for (op, seq) in ops.iter().zip(first..) {
                let mut pointer = Vec::new();
                let mut op = *op;
                if let Some(from) = pointer_of(&op) {
                    let offset_bytes = places.next().expect("each pointer's value was read");
                    ValuePointer { log: number, offset_bytes, ..from }.encode(&mut pointer);
                    op.value = &pointer;
                }
                copy.push_op(&op);
                if flushed(op.keyspace).is_some_and(|flushed| seq > flushed) {
                    let old = &self.keyspaces[&op.keyspace].active;
                    let fresh = || Arc::new(Memtable::new(old.order().clone()));
                    memtables.entry(op.keyspace).or_insert_with(fresh).writer().apply(&op, seq);
                }
            }
            drop(places);
            wal.append_with_values(&values, copy.seal(first))?;
        }
        for (id, mem) in memtables {
            if let Some(keyspace) = self.keyspaces.get_mut(&id) {
                keyspace.active = mem;
            }
        }
        let meta = ValueFileMeta::of_log(number, wal.salt(), u64::MAX);
        let file = store.values.file(&meta);
        let replayed = ReplayedLog { file, end_bytes: u64::MAX, durable_bytes: 0 };
        self.logs = BTreeMap::from([(number, replayed)]);
        Ok(())
    }

    /// The new log, if values were copied into it.
    pub(super) fn log_of_values(&self, number: u64) -> Option<Arc<ValueFile>> {
        self.logs.get(&number).map(|log| log.file.clone())
    }

    /// Makes the logs durable that tables point into, cuts off what was torn, and adds them to an edit.
    fn add_logs(
        &self,
        edit: &mut VersionEdit,
        store: &TableStore,
        versions: &VersionSet,
    ) -> Result<()> {
        let tables = self.keyspaces.values().flat_map(|k| k.tables.of_memtables.iter().flatten());
        let pointed_to: BTreeSet<u64> =
            tables.flat_map(|meta| &*meta.references).map(|share| share.log).collect();
        for (number, log) in &self.logs {
            if !pointed_to.contains(number) || versions.value_map().find(*number).is_some() {
                continue;
            }
            let (vfs, path) = (&store.env.vfs, log.file.path());
            // Whoever wrote it may have been told that it cannot be synced; who syncs it now would not.
            vfs.rewrite(path, log.durable_bytes)?;
            vfs.truncate(path, log.end_bytes)?;
            let meta = ValueFileMeta::of_log(*number, log.file.meta.salt, log.end_bytes);
            edit.push(Change::ValuesAdded(meta));
        }
        Ok(())
    }

    /// Adds the tables that were written to an edit, and the logs that they point into.
    pub(super) fn add_tables(
        &mut self,
        edit: &mut VersionEdit,
        store: &TableStore,
        versions: &mut VersionSet,
    ) -> Result<()> {
        self.add_logs(edit, store, versions)?;
        for (&id, keyspace) in &mut self.keyspaces {
            if keyspace.tables.of_memtables.is_empty() {
                continue;
            }
            for tables in keyspace.tables.take() {
                let run = versions.new_run_id();
                for meta in tables {
                    edit.push(Change::TableAdded { id, level: 0, run, meta });
                }
            }
            edit.push(Change::Flushed { id, seq: self.last_seq });
        }
        Ok(())
    }

    /// Makes the memtables the active ones of an opened database.
    pub(super) fn adopt_into(self, core: &Core) {
        let logs = Arc::new(LogList::default());
        self.logs.values().for_each(|log| logs.add(&log.file));
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
                    logs: logs.clone(),
                })
            });
            let (active, sealed, logs) = (replayed.active, sealed.collect(), logs.clone());
            keyspace.update_view(|view| {
                *view = View { active, sealed, logs, ..view.clone() };
            });
        }
    }
}

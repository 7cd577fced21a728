//! What recovery has read from the logs, and how it becomes the store's: copied into the new log,
//! or tables.

use super::core::{Core, View};
use crate::flush::{Hidden, flush_memtable};
use crate::log::{StoredValue, ValuePointer, Writer};
use crate::memtable::Memtable;
use crate::names;
use crate::options::replayed_memtable_bytes;
use crate::table::Origin;
use crate::value_log::{LogList, ValueFile, ValueFileMeta};
use crate::version::{Change, KeyspaceRecord, TableMeta, TableStore, VersionEdit, VersionSet};
use esker_base::heap::Heap;
use esker_base::sync::atomic::Ordering;
use esker_base::{Batch, Error, KeyspaceId, Kind, Result, Seq, batch};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Logs with fewer bytes of records than this are carried over into the new log.
const CARRY_BYTES_MAX: u64 = 1 << 20;

/// Where memtables go that fill up during replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spill {
    /// All memtables together hold no more than in a store that is open.
    ToTables { memtables_bytes_max: u64 },
    /// Nothing may be written.
    ToMemory,
}

/// What was read from the logs.
#[derive(Default)]
pub(super) struct Replayed {
    pub(super) last_seq: Seq,
    /// Of the oldest record, if there is any.
    pub(super) first_seq: Option<Seq>,
    /// By keyspace, the newest pair that tables hold too.
    logged: BTreeMap<KeyspaceId, Seq>,
    keyspaces: BTreeMap<KeyspaceId, ReplayedKeyspace>,
    /// What active memtables hold beyond what they take when they are empty.
    grown_bytes: u64,
    /// The batches themselves, as long as they are few.
    carried: Option<Vec<Vec<u8>>>,
    carried_bytes: u64,
    /// The logs that pointers in memtables lead into, and where their last whole record ends.
    logs: BTreeMap<u64, ReplayedLog>,
    /// Logs that nobody needs: see `Replay::idle_logs`.
    pub(super) idle_logs: Vec<u64>,
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
    grown_bytes: u64,
    /// Full ones, newest first, if they could not be written.
    full: Vec<Arc<Memtable>>,
    /// Tables written so far, a list for each memtable, oldest first.
    tables: UnnamedTables,
    /// Records up to here are in older tables.
    flushed_seq: Seq,
}

/// Tables that no edit has named. Their files go with it: an open that fails and is tried again
/// leaves none behind.
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

/// What an operation points to, if it does.
pub(super) fn pointer_of(op: &batch::BatchOp<'_>) -> Option<ValuePointer> {
    ValuePointer::decode(op.value).filter(|_| op.kind == Kind::PutPointer)
}

impl ReplayedKeyspace {
    fn new(store: &Arc<TableStore>, record: &KeyspaceRecord) -> ReplayedKeyspace {
        ReplayedKeyspace {
            active: Arc::new(Memtable::new(record.options.order.clone())),
            grown_bytes: 0,
            full: Vec::new(),
            tables: UnnamedTables { store: store.clone(), of_memtables: Vec::new() },
            flushed_seq: record.flushed_seq,
        }
    }

    /// Puts another memtable in the place of the active one, which is returned.
    fn seal(&mut self) -> Arc<Memtable> {
        let fresh = Arc::new(Memtable::new(self.active.order().clone()));
        std::mem::replace(&mut self.active, fresh)
    }

    /// Writes a memtable as tables.
    fn write(
        &mut self,
        mem: &Arc<Memtable>,
        id: KeyspaceId,
        record: &KeyspaceRecord,
    ) -> Result<()> {
        let (store, options) = (&self.tables.store, &record.options);
        let (origin, hidden) = (Origin::new(id, &record.name), Hidden::by_newer());
        let written = flush_memtable(store, options, origin, mem, &hidden, None, &|| false)?;
        self.tables.of_memtables.push(written.tables);
        Ok(())
    }
}

impl Replayed {
    /// Nothing so far, of logs that are about to be read.
    pub(super) fn of_logs() -> Replayed {
        Replayed { carried: Some(Vec::new()), ..Replayed::default() }
    }

    /// Notes an operation that tables hold too.
    pub(super) fn note_logged(&mut self, op: &batch::BatchOp<'_>, seq: Seq) {
        if matches!(op.kind, Kind::Put | Kind::PutPointer) {
            let newest = self.logged.entry(op.keyspace).or_default();
            *newest = seq.max(*newest);
        }
    }

    /// Tells the keyspaces what logs hold of what is in their tables.
    pub(super) fn tell_logged(&self, records: &mut BTreeMap<KeyspaceId, KeyspaceRecord>) {
        for (id, record) in records {
            record.logged_seq = self.logged.get(id).copied().unwrap_or(0);
            record.forget_erased(self.first_seq.unwrap_or(Seq::MAX));
        }
    }

    /// Keeps a batch for the new log, as long as there are few.
    pub(super) fn carry(&mut self, first_seq: Seq, payload: &[u8], value_bytes: u64) {
        self.first_seq.get_or_insert(first_seq);
        self.carried_bytes += payload.len() as u64 + value_bytes;
        if self.carried_bytes > CARRY_BYTES_MAX {
            self.carried = None;
        }
        if let Some(carried) = &mut self.carried {
            carried.push(payload.to_vec());
        }
    }

    /// Applies an operation that tables do not hold.
    pub(super) fn insert(
        &mut self,
        store: &Arc<TableStore>,
        records: &BTreeMap<KeyspaceId, KeyspaceRecord>,
        op: &batch::BatchOp<'_>,
        seq: Seq,
        spill: Spill,
    ) -> Result<()> {
        if op.is_empty_range() {
            return Ok(());
        }
        let record = &records[&op.keyspace];
        let options = &record.options;
        let keyspace = self.keyspaces.entry(op.keyspace);
        let keyspace = keyspace.or_insert_with(|| ReplayedKeyspace::new(store, record));
        let before = keyspace.active.memory_bytes();
        keyspace.active.writer().apply(op, None, seq);
        let grown = keyspace.active.memory_bytes() - before;
        keyspace.grown_bytes += grown;
        self.grown_bytes += grown;
        match spill {
            Spill::ToMemory => {
                if keyspace.active.is_full(options.memtable_bytes) {
                    let mem = keyspace.seal();
                    keyspace.full.insert(0, mem);
                }
                Ok(())
            }
            Spill::ToTables { memtables_bytes_max } => {
                if keyspace.active.is_full(replayed_memtable_bytes(memtables_bytes_max)) {
                    return self.spill(op.keyspace, records);
                }
                if self.grown_bytes <= memtables_bytes_max {
                    return Ok(());
                }
                let largest = self.keyspaces.iter().max_by_key(|(_, one)| one.grown_bytes);
                let id = largest.map_or(op.keyspace, |(&id, _)| id);
                self.spill(id, records)
            }
        }
    }

    /// Writes the active memtable of a keyspace as tables.
    fn spill(
        &mut self,
        id: KeyspaceId,
        records: &BTreeMap<KeyspaceId, KeyspaceRecord>,
    ) -> Result<()> {
        self.carried = None;
        let Some(keyspace) = self.keyspaces.get_mut(&id) else { return Ok(()) };
        self.grown_bytes -= std::mem::take(&mut keyspace.grown_bytes);
        let mem = keyspace.seal();
        keyspace.write(&mem, id, &records[&id])
    }

    /// Pointers lead into a log, up to the end of its last whole record.
    pub(super) fn note_log(&mut self, number: u64, file: Arc<ValueFile>, durable_bytes: u64) {
        let end_bytes = file.meta.file_bytes;
        self.logs.insert(number, ReplayedLog { file, end_bytes, durable_bytes });
    }

    /// The batches to be copied into the new log, if they are few; otherwise `flush_all` is due.
    pub(super) fn take_carried(&mut self) -> Option<Vec<Vec<u8>>> {
        self.carried.take().filter(|batches| !batches.is_empty())
    }

    /// Writes what is left in memory as tables.
    pub(super) fn flush_all(
        &mut self,
        records: &BTreeMap<KeyspaceId, KeyspaceRecord>,
    ) -> Result<()> {
        for (&id, keyspace) in &mut self.keyspaces {
            let Some(record) = records.get(&id) else { continue };
            if !keyspace.active.is_empty() {
                let mem = keyspace.active.clone();
                keyspace.write(&mem, id, record)?;
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
                    memtables
                        .entry(op.keyspace)
                        .or_insert_with(fresh)
                        .writer()
                        .apply(&op, None, seq);
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

    /// Makes the logs durable that tables point into, cuts off what was torn, and adds them to an
    /// edit.
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
            // Whoever wrote it may have been told that it cannot be synced; who syncs it now would
            // not.
            vfs.rewrite(path, log.durable_bytes..log.end_bytes)?;
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

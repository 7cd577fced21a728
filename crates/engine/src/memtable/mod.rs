//! Memtable: the newest records, in memory, until they are flushed to a table.
//!
//! Flow: db::write -> Writer;  db::read -> get;  flush and db::scan -> cursors.
//! Records are appended to an [`arena`] and never move. A hash index finds the newest record of a
//! key in one probe; older records of the key hang behind it. Order is made only when somebody asks
//! for it: [`sorted`] sorts what came since the last time and merges the sorted pieces.
//! Invariants: (1) a record is reachable only after all of its bytes are written; (2) nothing
//! is freed or moved before the memtable is dropped; (3) records of a key are linked newest first.
//! Threads: one writer at a time (a lock that its owner never contends for); any number of readers,
//! which take no lock on the way to a key, but where there are range tombstones or keys cannot be
//! hashed.
//! Source: the idea of hashing now and sorting later is FloDB's (EuroSys '17); there the hash
//! part drains into a skip list, here sorted pieces of the arena take the skip list's place.

mod arena;
mod cursor;
mod ranges;
mod sorted;
mod supply;

pub(crate) use cursor::MemCursor;
pub(crate) use supply::Supply;

use crate::range_tombstone::{RangeTombstone, RangeTombstones};
use arena::{Arena, EntryRef};
use esker_base::batch::BatchOp;
use esker_base::checksum::hash64;
use esker_base::pages::{AtomicPages, prefetch};
use esker_base::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use esker_base::sync::{CHECKED, Mutex, MutexGuard};
use esker_base::{Batch, Error, KeyOrder, Kind, Result, Seq, Trailer};
use ranges::Ranges;
use sorted::Sorted;
use std::sync::Arc;

/// The newest records of one keyspace.
pub(crate) struct Memtable {
    order: KeyOrder,
    hashable: bool,
    arena: Arena,
    index: HashIndex,
    sorted: Sorted,
    ranges: Ranges,
    /// Bytes of `ranges`; 0 if there are none.
    range_bytes: AtomicU64,
    write_lock: Mutex<()>,
    entries: AtomicU64,
}

impl Memtable {
    /// An empty memtable with memory of its own, which the next does not get.
    pub(crate) fn new(order: KeyOrder) -> Memtable {
        Memtable::supplied(order, Memtable::supply(0))
    }

    /// Memory for memtables that follow each other; keeps at most so many bytes of it, and a hash
    /// table.
    pub(crate) fn supply(bytes_max: u64) -> Arc<Supply> {
        Arc::new(Arena::supply(bytes_max))
    }

    /// The order of its keys.
    pub(crate) fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// An empty memtable that takes its memory from `supply`, as soon as it needs much.
    pub(crate) fn supplied(order: KeyOrder, supply: Arc<Supply>) -> Memtable {
        Memtable::expecting(order, 0, false, supply)
    }

    /// The memtable that follows this one, and is likely to hold about as many records.
    pub(crate) fn successor(&self, supply: Arc<Supply>) -> Memtable {
        Memtable::expecting(self.order.clone(), self.entries(), self.arena.has_filled_one(), supply)
    }

    /// `fills_chunks`: memory that was made ready for many records is not too much.
    fn expecting(
        order: KeyOrder,
        entries: u64,
        fills_chunks: bool,
        supply: Arc<Supply>,
    ) -> Memtable {
        Memtable {
            hashable: order.is_hashable(),
            order,
            index: HashIndex::new(entries, supply.clone()),
            arena: Arena::new(supply, fills_chunks),
            sorted: Sorted::new(),
            ranges: Ranges::new(),
            range_bytes: AtomicU64::new(0),
            write_lock: Mutex::new(()),
            entries: AtomicU64::new(0),
        }
    }

    /// The right to insert, held by one thread at a time.
    #[inline]
    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer { mem: self, _guard: self.write_lock.lock() }
    }

    /// Pulls the index slot of a key that is going to be inserted towards the processor.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if self.hashable {
            self.index.prefetch(hash);
        }
    }

    /// The newest point record of `key` visible at `seq`. `hash` is the key's `hash64`.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], hash: u64, seq: Seq) -> Option<(Trailer, &[u8])> {
        if !self.hashable {
            return self.get_sorted(key, seq);
        }
        let mut at = self.index.find(hash, |entry| self.arena.key(entry) == key)?;
        loop {
            let trailer = self.arena.trailer(at);
            if trailer.seq() <= seq {
                return Some((trailer, self.arena.value(at)));
            }
            at = self.arena.older(at)?;
        }
    }

    fn get_sorted(&self, key: &[u8], seq: Seq) -> Option<(Trailer, &[u8])> {
        let pieces = self.sorted.pieces(&self.order, &self.arena);
        let newest = pieces
            .iter()
            .filter_map(|piece| {
                let at = piece.lower_bound(&self.order, &self.arena, key, Trailer::seek(seq));
                piece.entry(at).filter(|&e| self.order.same(self.arena.key(e), key))
            })
            .max_by_key(|&e| self.arena.trailer(e))?;
        Some((self.arena.trailer(newest), self.arena.value(newest)))
    }

    /// The newest range tombstone over `key` visible at `seq`.
    #[inline]
    pub(crate) fn covering(&self, key: &[u8], seq: Seq) -> Option<Seq> {
        if !self.has_ranges() {
            return None;
        }
        self.ranges.covering(&self.order, key, seq)
    }

    /// All range tombstones so far, in a few sets.
    pub(crate) fn range_tombstones(&self) -> Vec<Arc<RangeTombstones>> {
        if !self.has_ranges() {
            return Vec::new();
        }
        self.ranges.sets(&self.order)
    }

    /// The same in one set, which is built for it.
    pub(crate) fn united_range_tombstones(&self) -> RangeTombstones {
        self.ranges.united(&self.order)
    }

    /// False spares readers the lock of `ranges`.
    #[inline]
    fn has_ranges(&self) -> bool {
        self.range_bytes.load(Ordering::Acquire) > 0
    }

    /// True if it should take no more batches: it holds so many bytes, or as many long records as
    /// it has names for.
    #[inline]
    pub(crate) fn is_full(&self, bytes_max: u64) -> bool {
        self.memory_bytes() >= bytes_max || self.arena.is_crowded()
    }

    /// Fails if one that is not full may not take this batch.
    ///
    /// # Errors
    /// `InvalidArgument`: too many of its records are longer than 1 MiB, or all of them take too
    /// much memory.
    #[inline]
    pub(crate) fn check_takes(batch: &Batch) -> Result<()> {
        let records = batch.iter().map(|op| op.key.len() + op.value.len());
        if arena::has_names_for(batch.size_bytes(), batch.len(), records) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the batch holds more than {} records longer than 1 MiB, or takes more than {} GiB of \
             memory: write it in parts",
            arena::LONG_RECORDS_MAX,
            arena::BATCH_MEMORY_MAX >> 30
        )))
    }

    /// Bytes that so many records take, whose operations come to so many bytes, about.
    #[inline]
    pub(crate) fn bytes_for(batch_bytes: usize, records: u32) -> u64 {
        (batch_bytes + records as usize * (arena::RECORD_BYTES + size_of::<u64>())) as u64
    }

    /// Bytes it holds in memory.
    #[inline]
    pub(crate) fn memory_bytes(&self) -> u64 {
        let ranges = self.range_bytes.load(Ordering::Relaxed);
        self.arena.used_bytes() + self.index.memory_bytes() + ranges
    }

    /// Point records and range tombstones in it.
    #[inline]
    pub(crate) fn entries(&self) -> u64 {
        self.entries.load(Ordering::Acquire)
    }

    /// True if nothing was inserted.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries() == 0
    }
}

/// Inserts into a memtable. Sequence numbers must grow from call to call.
pub(crate) struct Writer<'a> {
    mem: &'a Memtable,
    _guard: MutexGuard<'a, ()>,
}

impl Writer<'_> {
    /// Adds a point record. `hash` is the key's `hash64`.
    #[inline]
    pub(crate) fn insert(&mut self, key: &[u8], hash: u64, trailer: Trailer, value: &[u8]) {
        let mem = self.mem;
        if mem.hashable {
            let slot = mem.index.slot(hash, |entry| mem.arena.key(entry) == key);
            let entry = mem.arena.append(key, trailer, value, slot.current());
            mem.index.set(slot, hash, entry);
        } else {
            mem.arena.append(key, trailer, value, None);
        }
        self.note();
    }

    /// Adds what an operation of a batch says. `hash` is the key's `hash64`, if that is known.
    #[inline]
    pub(crate) fn apply(&mut self, op: &BatchOp<'_>, hash: Option<u64>, seq: Seq) {
        match op.kind {
            Kind::DeleteRange if op.is_empty_range() => {}
            Kind::DeleteRange => self.insert_range(op.key, op.value, seq),
            kind => {
                let hash = hash.unwrap_or_else(|| hash64(op.key));
                self.insert(op.key, hash, Trailer::new(seq, kind), op.value);
            }
        }
    }

    /// Adds a range tombstone.
    pub(crate) fn insert_range(&mut self, start: &[u8], end: &[u8], seq: Seq) {
        let tombstone = RangeTombstone { start: start.into(), end: end.into(), seq };
        let bytes = self.mem.ranges.insert(&self.mem.order, tombstone);
        self.mem.range_bytes.fetch_add(bytes, Ordering::Release);
        self.note();
    }

    #[inline]
    fn note(&self) {
        // Only the holder of the write lock stores here.
        let entries = &self.mem.entries;
        entries.store(entries.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

// The hash index: an open-addressing table of 64-bit slots, the high 32 bits of the hash and the
// record's name. The place of a slot comes from the top of the same 32 bits, so that growing reads
// the old table front to back and writes the new one front to back, and touches no record.
//
// A reader sees a slot either as it was or as it is; a record is published by the Release store
// into its slot. Tables that were outgrown live until the index is dropped: readers may still be in
// them.

/// Under a model checker the seventh key makes the index grow.
const SLOTS_MIN: usize = if CHECKED { 8 } else { 1 << 10 };

#[derive(Debug)]
struct Slots {
    /// 32 minus the binary logarithm of the number of slots.
    shift: u32,
    slots: AtomicPages,
}

#[derive(Debug)]
struct HashIndex {
    current: AtomicPtr<Slots>,
    /// Every table made, the current one last. Boxed, so that they do not move.
    tables: Mutex<Vec<*mut Slots>>,
    filled: AtomicU64,
    memory_bytes: AtomicU64,
    /// The value of `filled` at which something is due: to say that a larger table will be wanted,
    /// or to grow.
    due: AtomicU64,
    /// What it grows to at once, if a table of that size is ready or nobody makes any ready.
    slots_expected: usize,
    supply: Arc<Supply>,
}

// SAFETY: the raw pointers are owned by this value; shared access goes through atomics only.
unsafe impl Send for HashIndex {}
// SAFETY: as above.
unsafe impl Sync for HashIndex {}

/// Where a key's record goes: found by [`HashIndex::slot`], used by [`HashIndex::set`].
#[derive(Clone, Copy, Debug)]
struct Slot {
    place: usize,
    current: Option<EntryRef>,
}

impl Slot {
    /// The newest record of the key so far.
    #[inline]
    fn current(&self) -> Option<EntryRef> {
        self.current
    }
}

impl Slots {
    /// An empty table. Takes zeros.
    fn new(slots: AtomicPages) -> Slots {
        debug_assert!(slots.len().is_power_of_two() && slots.len() <= 1 << 31);
        Slots { shift: 32 - slots.len().trailing_zeros(), slots }
    }

    #[inline]
    fn home(&self, tag: u32) -> usize {
        (tag >> self.shift) as usize
    }

    #[inline]
    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.slots.len() - 1)
    }

    /// The slot of the key, or the empty slot where it would go.
    #[inline]
    fn probe(&self, tag: u32, mut same_key: impl FnMut(EntryRef) -> bool) -> Slot {
        let mut place = self.home(tag);
        loop {
            let slot = self.slots[place].load(Ordering::Acquire);
            if slot == 0 {
                return Slot { place, current: None };
            }
            let entry = EntryRef(slot as u32);
            if (slot >> 32) as u32 == tag && same_key(entry) {
                return Slot { place, current: Some(entry) };
            }
            place = self.after(place);
        }
    }
}

#[inline]
fn tag_of(hash: u64) -> u32 {
    (hash >> 32) as u32
}

impl HashIndex {
    /// An empty index that expects `entries_hint` keys.
    ///
    /// It is small until there are some: a search in a large table that is nearly empty misses
    /// every cache to find nothing.
    fn new(entries_hint: u64, supply: Arc<Supply>) -> HashIndex {
        let index = HashIndex {
            current: AtomicPtr::new(std::ptr::null_mut()),
            tables: Mutex::new(Vec::new()),
            filled: AtomicU64::new(0),
            memory_bytes: AtomicU64::new(0),
            due: AtomicU64::new(0),
            slots_expected: (entries_hint.min(1 << 28) as usize * 4 / 3).next_power_of_two(),
            supply,
        };
        index.install(Slots::new(AtomicPages::huge(SLOTS_MIN)));
        index
    }

    fn install(&self, table: Slots) {
        self.memory_bytes.fetch_add(table.slots.len() as u64 * 8, Ordering::Relaxed);
        self.due.store(full_at(&table) / 2, Ordering::Relaxed);
        let table = Box::into_raw(Box::new(table));
        self.tables.lock().push(table);
        self.current.store(table, Ordering::Release);
    }

    #[inline]
    fn table(&self) -> &Slots {
        // SAFETY: points to a box that is freed only when the index is dropped.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    /// The newest record of the key with this hash, told by `same_key`.
    #[inline]
    fn find(&self, hash: u64, same_key: impl FnMut(EntryRef) -> bool) -> Option<EntryRef> {
        self.table().probe(tag_of(hash), same_key).current
    }

    #[inline]
    fn prefetch(&self, hash: u64) {
        let table = self.table();
        prefetch(&raw const table.slots[table.home(tag_of(hash))]);
    }

    /// Where the key goes. For the writer; valid until its next `set`.
    #[inline]
    fn slot(&self, hash: u64, same_key: impl FnMut(EntryRef) -> bool) -> Slot {
        self.table().probe(tag_of(hash), same_key)
    }

    /// Publishes `entry` as the newest record of the slot's key. For the writer.
    #[inline]
    fn set(&self, slot: Slot, hash: u64, entry: EntryRef) {
        let table = self.table();
        let word = u64::from(tag_of(hash)) << 32 | u64::from(entry.0);
        table.slots[slot.place].store(word, Ordering::Release);
        if slot.current.is_none() {
            let filled = self.filled.load(Ordering::Relaxed) + 1;
            self.filled.store(filled, Ordering::Relaxed);
            if filled >= self.due.load(Ordering::Relaxed) {
                self.look_ahead(filled);
            }
        }
    }

    /// Half full: the next table will be wanted. Full: it is.
    #[cold]
    fn look_ahead(&self, filled: u64) {
        let table = self.table();
        let full_at = full_at(table);
        if filled >= full_at {
            return self.grow();
        }
        self.due.store(full_at, Ordering::Relaxed);
        self.supply.want_table(self.slots_expected.max(table.slots.len() * 2));
    }

    #[cold]
    fn grow(&self) {
        let old = self.table();
        let doubled = old.slots.len() * 2;
        let wanted = self.slots_expected.max(doubled);
        let ready = self.supply.take_table(wanted);
        let new = Slots::new(ready.unwrap_or_else(|| {
            // A large one would make the writer wait for its memory; it will be ready the next
            // time.
            AtomicPages::huge(if self.supply.is_served() { doubled } else { wanted })
        }));
        for slot in old.slots.iter() {
            let word = slot.load(Ordering::Relaxed);
            if word != 0 {
                let free = new.probe((word >> 32) as u32, |_| false);
                new.slots[free.place].store(word, Ordering::Relaxed);
            }
        }
        self.install(new);
    }

    /// Bytes of all tables, outgrown ones included.
    #[inline]
    fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }
}

/// Keys that fill a table.
fn full_at(table: &Slots) -> u64 {
    table.slots.len() as u64 * 3 / 4 + 1
}

impl Drop for HashIndex {
    fn drop(&mut self) {
        let tables = std::mem::take(&mut *self.tables.lock());
        // SAFETY: made by Box::into_raw in `install` and freed only here.
        let mut tables = tables.into_iter().map(|table| unsafe { Box::from_raw(table) });
        let last = tables.next_back();
        tables.for_each(drop);
        if let Some(last) = last {
            self.supply.give_table(last.slots);
        }
    }
}

impl std::fmt::Debug for Memtable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memtable({} entries, {} bytes)", self.entries(), self.memory_bytes())
    }
}

#[cfg(all(test, esker_loom))]
mod models;
#[cfg(test)]
mod tests;

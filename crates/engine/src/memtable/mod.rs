//! Memtable: the newest records, in memory, until they are flushed to a table.
//!
//! Flow: db::commit -> Writer;  db::read -> get;  flush and db::scan -> cursors.
//! Records are appended to an [`arena`] and never move. A [`hash_index`] finds the newest record of a
//! key in one probe; older records of the key hang behind it. Order is made only when somebody asks
//! for it: [`sorted`] sorts what came since the last time and merges the sorted pieces.
//! Invariants: (1) a record is reachable only after all of its bytes are written; (2) nothing
//! is freed or moved before the memtable is dropped; (3) records of a key are linked newest first.
//! Threads: one writer at a time (a lock that its owner never contends for); any number of readers,
//! which take no lock on the way to a key.
//! Source: the idea of hashing now and sorting later is FloDB's (EuroSys '17); there the hash
//! part drains into a skip list, here sorted pieces of the arena take the skip list's place.

mod arena;
mod cursor;
mod hash_index;
mod ranges;
mod sorted;

pub(crate) use cursor::MemCursor;

use crate::range_tombstone::{RangeTombstone, RangeTombstones};
use arena::Arena;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::sync::{Mutex, MutexGuard};
use esker_base::{KeyOrder, Seq, Trailer};
use hash_index::HashIndex;
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
    write_lock: Mutex<()>,
    entries: AtomicU64,
}

impl Memtable {
    /// An empty memtable that expects about `entries_hint` records.
    pub(crate) fn new(order: KeyOrder, entries_hint: u64) -> Memtable {
        Memtable {
            hashable: order.is_hashable(),
            order,
            arena: Arena::new(),
            index: HashIndex::new(entries_hint),
            sorted: Sorted::new(),
            ranges: Ranges::new(),
            write_lock: Mutex::new(()),
            entries: AtomicU64::new(0),
        }
    }

    /// The right to insert, held by one thread at a time.
    #[inline]
    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer { mem: self, _guard: self.write_lock.lock() }
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
        self.ranges.covering(&self.order, key, seq)
    }

    /// All range tombstones so far.
    pub(crate) fn range_tombstones(&self) -> Arc<RangeTombstones> {
        self.ranges.all(&self.order)
    }

    /// Bytes it holds in memory.
    #[inline]
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.arena.used_bytes() + self.index.memory_bytes() + self.ranges.memory_bytes()
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

    /// Adds a range tombstone.
    pub(crate) fn insert_range(&mut self, start: &[u8], end: &[u8], seq: Seq) {
        self.mem
            .ranges
            .insert(&self.mem.order, RangeTombstone { start: start.into(), end: end.into(), seq });
        self.note();
    }

    #[inline]
    fn note(&self) {
        // Only the holder of the write lock stores here.
        let entries = &self.mem.entries;
        entries.store(entries.load(Ordering::Relaxed) + 1, Ordering::Release);
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

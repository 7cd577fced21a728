//! Hash index: finds the newest record of a key in one probe.
//!
//! An open-addressing table of 64-bit slots: the high 32 bits of the hash, and the record's name.
//! The place of a slot comes from the top of the same 32 bits, so that growing reads the old table
//! front to back and writes the new one front to back, and touches no record.
//!
//! Threads: one writer (the memtable's write lock), any number of readers. A reader sees a slot
//! either as it was or as it is; a record is published by the Release store into its slot.
//! Tables that were outgrown live until the index is dropped, because readers may still be in them.

use super::arena::EntryRef;
use esker_base::pages::AtomicPages;
use esker_base::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use esker_base::sync::{CHECKED, Mutex};

/// Under a model checker the seventh key makes the index grow.
const SLOTS_MIN: usize = if CHECKED { 8 } else { 1 << 10 };

#[derive(Debug)]
struct Table {
    /// 32 minus the binary logarithm of the number of slots.
    shift: u32,
    slots: AtomicPages,
}

#[derive(Debug)]
pub(super) struct HashIndex {
    current: AtomicPtr<Table>,
    /// Every table made, the current one last. Boxed, so that they do not move.
    tables: Mutex<Vec<*mut Table>>,
    filled: AtomicU64,
    memory_bytes: AtomicU64,
}

// SAFETY: the raw pointers are owned by this value; shared access goes through atomics only.
unsafe impl Send for HashIndex {}
// SAFETY: as above.
unsafe impl Sync for HashIndex {}

/// Where a key's record goes: found by [`HashIndex::slot`], used by [`HashIndex::set`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    place: usize,
    current: Option<EntryRef>,
}

impl Slot {
    /// The newest record of the key so far.
    #[inline]
    pub(super) fn current(&self) -> Option<EntryRef> {
        self.current
    }
}

impl Table {
    fn new(slots: usize) -> Table {
        debug_assert!(slots.is_power_of_two() && slots <= 1 << 31);
        Table { shift: 32 - slots.trailing_zeros(), slots: AtomicPages::zeroed(slots) }
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
    /// An index that holds `entries_hint` keys before it grows.
    pub(super) fn new(entries_hint: u64) -> HashIndex {
        let slots = (entries_hint.min(1 << 28) as usize * 4 / 3).next_power_of_two();
        let index = HashIndex {
            current: AtomicPtr::new(std::ptr::null_mut()),
            tables: Mutex::new(Vec::new()),
            filled: AtomicU64::new(0),
            memory_bytes: AtomicU64::new(0),
        };
        index.install(Table::new(slots.max(SLOTS_MIN)));
        index
    }

    fn install(&self, table: Table) {
        self.memory_bytes.fetch_add(table.slots.len() as u64 * 8, Ordering::Relaxed);
        let table = Box::into_raw(Box::new(table));
        self.tables.lock().push(table);
        self.current.store(table, Ordering::Release);
    }

    #[inline]
    fn table(&self) -> &Table {
        // SAFETY: points to a box that is freed only when the index is dropped.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    /// The newest record of the key with this hash, told by `same_key`.
    #[inline]
    pub(super) fn find(
        &self,
        hash: u64,
        same_key: impl FnMut(EntryRef) -> bool,
    ) -> Option<EntryRef> {
        self.table().probe(tag_of(hash), same_key).current
    }

    /// Where the key goes. For the writer; valid until its next `set`.
    #[inline]
    pub(super) fn slot(&self, hash: u64, same_key: impl FnMut(EntryRef) -> bool) -> Slot {
        self.table().probe(tag_of(hash), same_key)
    }

    /// Publishes `entry` as the newest record of the slot's key. For the writer.
    #[inline]
    pub(super) fn set(&self, slot: Slot, hash: u64, entry: EntryRef) {
        let table = self.table();
        let word = u64::from(tag_of(hash)) << 32 | u64::from(entry.0);
        table.slots[slot.place].store(word, Ordering::Release);
        if slot.current.is_none() {
            let filled = self.filled.load(Ordering::Relaxed) + 1;
            self.filled.store(filled, Ordering::Relaxed);
            if filled as usize * 4 > table.slots.len() * 3 {
                self.grow();
            }
        }
    }

    #[cold]
    fn grow(&self) {
        let old = self.table();
        let new = Table::new(old.slots.len() * 2);
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
    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for HashIndex {
    fn drop(&mut self) {
        for &table in self.tables.lock().iter() {
            // SAFETY: made by Box::into_raw in `install` and freed only here.
            drop(unsafe { Box::from_raw(table) });
        }
    }
}

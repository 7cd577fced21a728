//! Slots: the short way from an index entry to its cached data block.
//!
//! Every entry of a decoded index has a slot that may hold the block it leads to, so that a warm
//! read touches one line of slots instead of walking the cache's hash table and lists.
//! Invariants: (1) a block is put into a slot before it is put into the cache under an entry that
//! names the slot, and the cache empties the slot when it drops that entry; so no slot keeps a block
//! for long that the cache does not account for; (2) slots hold only blocks that fill their bytes.
//! Threads: any. Lock order: a cache shard, then a slot; whoever holds a slot takes no other lock.
//!
//! A slot hides use from the cache, which then could not tell hot blocks from cold ones. So the
//! cache counts epochs, a few for each time its contents turn over, and the first hit on a slot in a
//! new epoch is also made on the cache.

use crate::block::Block;
use esker_base::heap::SharedBytes;
use esker_base::pages::prefetch;
use esker_base::sync::{CHECKED, Mutex};
use std::hint::black_box;

/// A place for one block.
#[derive(Debug, Default)]
#[repr(align(32))]
pub(super) struct Slot(Mutex<Resident>);

pub(super) const SLOT_BYTES: usize = 32;
pub(super) const SLOTS_PER_LINE: usize = 64 / SLOT_BYTES;
const _: () = assert!(CHECKED || size_of::<Slot>() == SLOT_BYTES);

#[derive(Debug, Default)]
struct Resident {
    data: Option<SharedBytes>,
    end: u32,
    epoch: u32,
}

/// Where the bytes lie that a search is going to look at, besides the first line.
const SEARCHED_LINES: [usize; 6] = [64, 128, 192, 256, 320, 384];

impl Slot {
    /// Brings the slot near, without waiting for it.
    #[inline]
    pub(super) fn warm(&self) {
        prefetch(&raw const self.0);
    }

    /// The block, and whether this is its first hit in `epoch`.
    #[inline]
    pub(super) fn get(&self, epoch: u32) -> Option<(Block, bool)> {
        let mut resident = self.0.lock();
        let data = resident.data.as_ref()?;
        // The restart table and the keys stand at the front. Loading those lines now, side by side,
        // costs one trip to memory instead of one for each step of the search.
        let mut lines = 0;
        for at in SEARCHED_LINES {
            lines |= data.get(at).copied().unwrap_or(0);
        }
        black_box(lines);
        let block = Block::whole(data.clone(), resident.end);
        let first = resident.epoch != epoch;
        resident.epoch = epoch;
        Some((block, first))
    }

    /// Keeps a block, if it fills its bytes.
    pub(super) fn set(&self, block: &Block, epoch: u32) {
        let Some((data, end)) = block.as_whole() else { return };
        let before = {
            let mut resident = self.0.lock();
            resident.end = end;
            resident.epoch = epoch;
            resident.data.replace(data.clone())
        };
        drop(before);
    }

    /// True if it holds a block.
    #[cfg(test)]
    pub(super) fn is_full(&self) -> bool {
        self.0.lock().data.is_some()
    }

    /// Lets go of the block.
    pub(super) fn clear(&self) {
        let before = self.0.lock().data.take();
        drop(before);
    }
}

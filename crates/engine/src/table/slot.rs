//! Slots: where cached data blocks stand, beside the index entries that lead to them.
//!
//! Every entry of a decoded index has a slot that may hold the block it leads to, so that a warm
//! read touches one line of slots and no hash table. Whether a block was used, and when it left,
//! its slot knows; [queues](crate::cache::Queues) decide by that which stay.
//! Invariant: slots hold only blocks that fill their bytes.
//! Threads: any. Whoever holds a slot takes no other lock.

use crate::block::Block;
use crate::cache::{Answer, Moment, Rule};
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
    /// While it holds a block, how often that was used since it was asked, at most [`USES_MAX`];
    /// else when the last one left the first queue, or 0.
    note: u32,
}

/// More uses are not told from so many.
const USES_MAX: u32 = 3;

/// Where the bytes lie that a search is going to look at, besides the first line.
const SEARCHED_LINES: [usize; 6] = [64, 128, 192, 256, 320, 384];

impl Slot {
    /// Brings the slot near, without waiting for it.
    #[inline]
    pub(super) fn warm(&self) {
        prefetch(&raw const self.0);
    }

    /// Brings near what a search of the block looks at, without waiting for it, nor for others.
    #[inline]
    pub(super) fn warm_block(&self) {
        let Some(resident) = self.0.try_lock() else { return };
        if let Some(data) = &resident.data {
            data.prefetch(0);
            SEARCHED_LINES.iter().for_each(|&at| data.prefetch(at));
        }
    }

    /// Brings near what is written where the block's memory is freed, without waiting for it, nor
    /// for others.
    #[inline]
    pub(super) fn warm_ends(&self) {
        let Some(resident) = self.0.try_lock() else { return };
        if let Some(data) = &resident.data {
            data.prefetch_ends(resident.end as usize);
        }
    }

    /// The block, which counts as a use of it.
    #[inline]
    pub(super) fn get(&self) -> Option<Block> {
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
        if resident.note < USES_MAX {
            resident.note += 1;
        }
        Some(block)
    }

    /// Takes a block, if there is none and it fills its bytes; then, when one left the first queue,
    /// or 0.
    pub(super) fn fill(&self, block: &Block) -> Option<Moment> {
        let (data, end) = block.as_whole()?;
        let mut resident = self.0.lock();
        if resident.data.is_some() {
            return None;
        }
        resident.data = Some(data.clone());
        resident.end = end;
        Some(std::mem::take(&mut resident.note))
    }

    /// Whether the block leaves.
    pub(super) fn ask(&self, rule: Rule) -> Answer<SharedBytes> {
        let mut resident = self.0.lock();
        if resident.data.is_none() {
            return Answer::Gone;
        }
        match (rule, resident.note) {
            (Rule::First(_), 1..) => {
                resident.note = 0;
                return Answer::Stays;
            }
            (Rule::Main, uses @ 1..) => {
                resident.note = uses - 1;
                return Answer::Stays;
            }
            (Rule::First(now), 0) => resident.note = now,
            (Rule::Main, 0) | (Rule::Must, _) => resident.note = 0,
        }
        resident.data.take().map_or(Answer::Gone, Answer::Leaves)
    }

    /// True if it holds a block.
    #[cfg(test)]
    pub(super) fn is_full(&self) -> bool {
        self.0.lock().data.is_some()
    }

    /// Lets go of the block.
    pub(super) fn clear(&self) {
        drop(self.ask(Rule::Must));
    }
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;
    use crate::block::{BlockBuilder, Payload};
    use esker_base::heap::Heap;
    use esker_base::{Kind, Trailer};

    fn block() -> Block {
        let (mut builder, mut bytes) = (BlockBuilder::new(16), Vec::new());
        builder.add(b"key", Trailer::new(1, Kind::Put), &[7; 1_000]);
        builder.finish(&mut bytes);
        let (start, end) = (0, bytes.len());
        let data = SharedBytes::copied(&Heap::global(), &bytes);
        Block::new(Payload { data, start, end }).expect("a block")
    }

    fn stays(slot: &Slot, rule: Rule) -> bool {
        match slot.ask(rule) {
            Answer::Stays => true,
            Answer::Leaves(data) => {
                assert!(data.len() >= 1_000);
                false
            }
            Answer::Gone => panic!("there was a block"),
        }
    }

    #[test]
    fn uses_are_counted_up_to_three_and_taken_off_one_by_one() {
        let (slot, block) = (Slot::default(), block());
        assert!(slot.get().is_none() && matches!(slot.ask(Rule::Must), Answer::Gone));
        assert_eq!(slot.fill(&block), Some(0));
        assert_eq!(slot.fill(&block), None, "there is one");
        (0..9).for_each(|_| assert!(slot.get().is_some()));
        assert_eq!([0; 4].map(|_| stays(&slot, Rule::Main)), [true, true, true, false]);
        assert!(slot.get().is_none());
        assert_eq!(slot.fill(&block), Some(0), "it did not leave the first queue");
    }

    #[test]
    fn in_the_first_queue_one_use_is_enough_and_who_leaves_is_remembered() {
        let (slot, block) = (Slot::default(), block());
        slot.fill(&block);
        (0..3).for_each(|_| assert!(slot.get().is_some()));
        assert!(stays(&slot, Rule::First(5)), "it was used");
        assert!(!stays(&slot, Rule::First(6)), "it begins anew");
        assert_eq!(slot.fill(&block), Some(6));
        assert!(!stays(&slot, Rule::First(9)), "when it left before was no use");
        assert_eq!(slot.fill(&block), Some(9));
        assert!(slot.get().is_some() && !stays(&slot, Rule::Must));
        assert_eq!(slot.fill(&block), Some(0));
        slot.clear();
        assert!(!slot.is_full());
    }
}

//! Memory for memtables: what those that are gone leave behind, and what is made ready for those to
//! come. The thread that does that has the next part of a cache's heap there in time too.
//!
//! Memory from the system must be mapped and zeroed, which costs about as much as copying records
//! into it, and where the system itself must first get it (a virtual machine) many times that. So
//! chunks and hash tables that a memtable leaves behind are kept for the next, up to a limit, and a
//! background thread makes ready what the active memtable says it will want soon; a writer that
//! wants it before it is ready gets its own from the system. The kernel is told that it may take
//! away what memtables left behind: a store that rests costs others little memory.
//!
//! Invariants: (1) what lies here belongs to nobody else; (2) a spare chunk holds garbage that is
//! never read, since arenas read only what was appended; a table that is ready is all zeros; (3) of
//! chunks as of tables, at most one is made ready ahead.
//! Threads: any; the lock is held only to put something down or pick it up.

use esker_base::heap::Heap;
use esker_base::pages::{AtomicPages, Pages};
use esker_base::sync::{Condvar, Mutex};

/// Memory for the memtables of a database.
#[derive(Debug)]
pub(crate) struct Supply {
    state: Mutex<State>,
    /// The thread that makes things ready waits here.
    called: Condvar,
    /// Most chunks that are kept. Nothing at all is kept or made ready if it is 0.
    chunks_max: usize,
    chunk_bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    chunks: Vec<Pages<u8>>,
    /// All zeros.
    table: Option<AtomicPages>,
    /// A table with old slots in it.
    used_table: Option<AtomicPages>,
    wanted: Wanted,
    /// A thread makes ready what is wanted.
    is_served: bool,
    ended: bool,
}

/// What is to be made ready.
#[derive(Clone, Copy, Debug, Default)]
struct Wanted {
    chunk: bool,
    /// Number of slots; 0 if no table is wanted.
    table_slots: usize,
    /// More of the heap.
    heap: bool,
}

impl Supply {
    /// Keeps at most `bytes_max` in chunks of `chunk_bytes`, and a table.
    pub(super) fn new(chunk_bytes: usize, bytes_max: u64) -> Supply {
        let chunks_max = usize::try_from(bytes_max).unwrap_or(usize::MAX) / chunk_bytes;
        Supply { state: Mutex::default(), called: Condvar::new(), chunks_max, chunk_bytes }
    }

    /// Says that a chunk will be wanted soon.
    pub(super) fn want_chunk(&self) {
        self.want(|state| state.wanted.chunk |= state.chunks.is_empty());
    }

    /// Says that a table of so many slots will be wanted soon.
    pub(super) fn want_table(&self, slots: usize) {
        self.want(|state| {
            if state.table.as_ref().is_none_or(|table| table.len() != slots) {
                state.wanted.table_slots = slots;
            }
        });
    }

    /// Says that more of the heap will be wanted soon. True if it will be made ready.
    pub(crate) fn want_heap(&self) -> bool {
        self.want(|state| state.wanted.heap = true)
    }

    /// False if nobody serves.
    fn want(&self, note: impl FnOnce(&mut State)) -> bool {
        if self.chunks_max == 0 {
            return false;
        }
        let mut state = self.state.lock();
        if !state.is_served {
            return false;
        }
        note(&mut state);
        drop(state);
        self.called.notify_one();
        true
    }

    /// True if what is wanted will be made ready.
    pub(super) fn is_served(&self) -> bool {
        self.chunks_max > 0 && self.state.lock().is_served
    }

    /// A spare chunk, if there is one.
    pub(super) fn take_chunk(&self) -> Option<Pages<u8>> {
        if self.chunks_max == 0 {
            return None;
        }
        self.state.lock().chunks.pop()
    }

    /// A table of so many slots, all zeros, if one is ready.
    pub(super) fn take_table(&self, slots: usize) -> Option<AtomicPages> {
        if self.chunks_max == 0 {
            return None;
        }
        self.state.lock().table.take_if(|table| table.len() == slots)
    }

    /// Takes over chunks that an arena leaves behind; what is of another size, or too much, is
    /// freed.
    pub(super) fn give_chunks(&self, mut memory: Vec<Pages<u8>>) {
        memory.retain(|pages| pages.len() == self.chunk_bytes);
        // The kernel is not spoken to under the lock, for which a writer may wait.
        memory.iter_mut().take(self.chunks_max).for_each(Pages::may_be_taken);
        let too_much = {
            let mut state = self.state.lock();
            let room = self.chunks_max.saturating_sub(state.chunks.len());
            let too_much = memory.split_off(room.min(memory.len()));
            // Those that are ready stay on top.
            memory.append(&mut state.chunks);
            state.chunks = memory;
            too_much
        };
        drop(too_much);
    }

    /// Takes over a table that an index leaves behind. Of two, the larger is kept.
    pub(super) fn give_table(&self, mut table: AtomicPages) {
        if self.chunks_max == 0 {
            return;
        }
        table.may_be_taken();
        let mut state = self.state.lock();
        let smaller = match &state.used_table {
            Some(used) if used.len() > table.len() => Some(table),
            _ => state.used_table.replace(table),
        };
        drop(state);
        drop(smaller);
    }

    /// Bytes of spare memory, as far as the kernel has not taken it.
    pub(crate) fn spare_bytes(&self) -> u64 {
        let state = self.state.lock();
        let tables = [&state.table, &state.used_table].into_iter().flatten();
        let slots: usize = tables.map(|table| table.len()).sum();
        (state.chunks.len() * self.chunk_bytes + slots * size_of::<u64>()) as u64
    }

    /// Makes ready what is wanted, as it becomes wanted, until [`Supply::end`]; of this heap too.
    pub(crate) fn serve(&self, heap: &Heap) {
        self.state.lock().is_served = true;
        while let Some(wanted) = self.next_wanted() {
            self.make_ready(wanted);
            if wanted.heap {
                heap.make_ready();
            }
        }
        heap.forget_promise();
    }

    /// Ends [`Supply::serve`], also one that begins later.
    pub(crate) fn end(&self) {
        self.state.lock().ended = true;
        self.called.notify_all();
    }

    /// Waits until something is wanted; `None` at the end.
    fn next_wanted(&self) -> Option<Wanted> {
        let mut state = self.state.lock();
        loop {
            if state.ended {
                state.is_served = false;
                return None;
            }
            let wanted = std::mem::take(&mut state.wanted);
            if wanted.chunk || wanted.table_slots > 0 || wanted.heap {
                return Some(wanted);
            }
            self.called.wait(&mut state);
        }
    }

    fn make_ready(&self, wanted: Wanted) {
        if wanted.table_slots > 0 {
            // One that is ready but has another size is of no use any more.
            let (ready, used) = {
                let mut state = self.state.lock();
                (state.table.take(), state.used_table.take())
            };
            let table = ready_table(wanted.table_slots, [ready, used]);
            self.state.lock().table = Some(table);
        }
        if wanted.chunk {
            let mut chunk = Pages::huge(self.chunk_bytes);
            chunk.populate();
            let mut state = self.state.lock();
            // Others may have left theirs meanwhile.
            if state.chunks.len() < self.chunks_max {
                state.chunks.push(chunk);
            }
        }
    }
}

/// A table of zeros in memory that is there, made of one of `old` if possible.
fn ready_table(slots: usize, old: [Option<AtomicPages>; 2]) -> AtomicPages {
    match old.into_iter().flatten().find(|table| table.len() == slots) {
        Some(mut table) => {
            table.clear();
            table
        }
        None => {
            let mut table = AtomicPages::huge(slots);
            table.populate();
            table
        }
    }
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;
    use esker_base::heap::SharedBytes;
    use esker_base::sync::atomic::Ordering;
    use std::sync::Arc;

    const CHUNK: usize = 256 << 10;

    #[test]
    fn spare_chunks_are_used_again_and_bounded() {
        let supply = Supply::new(CHUNK, 2 * CHUNK as u64 + 5);
        assert!(supply.take_chunk().is_none());
        let full = |byte| {
            let mut pages = Pages::<u8>::zeroed(CHUNK);
            pages.fill(byte);
            pages
        };
        supply.give_chunks(vec![Pages::zeroed(CHUNK + 1), full(1)]);
        assert_eq!(supply.spare_bytes(), CHUNK as u64, "another size is not kept");
        supply.give_chunks(vec![full(2), full(3), full(4)]);
        assert_eq!(supply.spare_bytes(), 2 * CHUNK as u64);
        for _ in 0..2 {
            let mut pages = supply.take_chunk().expect("kept");
            assert!(pages.iter().all(|&b| b <= 2), "as it was left, or taken by the kernel");
            pages.fill(9);
            assert!(pages.iter().all(|&b| b == 9), "and can be written again");
        }
        assert!(supply.take_chunk().is_none());
    }

    #[test]
    fn what_is_wanted_is_made_ready_once() {
        const SLOTS: usize = 1 << 15;
        let supply = Supply::new(CHUNK, 4 * CHUNK as u64);
        let make_ready = || supply.make_ready(supply.next_wanted().expect("not the end"));
        supply.want_chunk();
        supply.want_table(SLOTS);
        assert!(!supply.is_served(), "nobody is there to hear it");
        supply.state.lock().is_served = true;
        supply.want_chunk();
        make_ready();
        assert_eq!(supply.spare_bytes(), CHUNK as u64, "what was said before is not remembered");
        let chunk = supply.take_chunk().expect("ready");
        assert!(chunk.len() == CHUNK && supply.take_chunk().is_none());
        for _ in 0..3 {
            supply.want_table(SLOTS);
            make_ready();
            let table = supply.take_table(SLOTS).expect("ready");
            assert!(table.iter().all(|slot| slot.load(Ordering::Relaxed) == 0));
            table.iter().for_each(|slot| slot.store(7, Ordering::Relaxed));
            supply.give_table(table);
            supply.give_table(AtomicPages::zeroed(SLOTS / 2));
        }
        supply.want_table(2 * SLOTS);
        assert!(supply.take_table(SLOTS).is_none(), "it would be full of old slots");
        make_ready();
        assert_eq!(supply.spare_bytes(), 2 * SLOTS as u64 * 8, "the old one is gone");
        assert_eq!(supply.take_table(2 * SLOTS).map(|table| table.len()), Some(2 * SLOTS));
    }

    #[test]
    fn a_thread_serves_until_the_end() {
        let supply = Supply::new(CHUNK, CHUNK as u64);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| supply.serve(&Heap::global()));
            while supply.take_chunk().is_none() {
                supply.want_chunk();
                std::thread::yield_now();
            }
            supply.end();
            thread.join().expect("ends");
        });
        assert!(!supply.is_served());
        supply.serve(&Heap::global());
    }

    #[test]
    fn nobody_waits_for_a_heap_that_nobody_serves_any_more() {
        let heap = Heap::new(48 << 20);
        let supply = Arc::new(Supply::new(CHUNK, CHUNK as u64));
        let asked = supply.clone();
        heap.listen(move || asked.want_heap());
        let impatient = heap.impatient();
        let passing = |count: usize| {
            let parts: Vec<_> =
                (0..count).map(|_| SharedBytes::copied(&impatient, &[7; 100 << 10])).collect();
            let passing = parts.iter().filter(|part| part.is_in_passing()).count();
            // They stay where they are.
            std::mem::forget(parts);
            passing
        };
        assert_eq!(passing(100), 0, "nobody serves");
        supply.state.lock().is_served = true;
        let most = passing(100);
        assert!(heap.taken_bytes() == 0 || most > 50, "{most}: one who serves would do so");
        supply.end();
        supply.serve(&heap);
        assert_eq!(passing(100), 0);
    }

    #[test]
    fn a_supply_of_nothing_keeps_nothing() {
        let supply = Supply::new(CHUNK, CHUNK as u64 - 1);
        supply.give_chunks(vec![Pages::zeroed(CHUNK)]);
        supply.give_table(AtomicPages::zeroed(1 << 15));
        assert_eq!(supply.spare_bytes(), 0);
        assert!(supply.take_chunk().is_none() && supply.take_table(1 << 15).is_none());
    }
}

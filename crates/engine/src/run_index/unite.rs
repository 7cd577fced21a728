//! Making one index of several sources: digests of runs, and the index that was there before.
//!
//! Sources are merged in the order of their entries. An entry that another one contains is joined
//! to it; then each is cut shorter, to where it differs from its neighbours and a little later.

use super::entry::{Prefix, PrefixBuf, Slots};
use super::index::{EntryCursor, IndexBuilder, RunIndex};
use esker_base::key::shared_prefix_len;
use esker_base::{Error, Result};
use std::sync::Arc;

/// Entries in their order. Those of one source do not contain each other.
pub(crate) trait Entries {
    /// Moves to the first entry, then to the next; false if there is none.
    fn advance(&mut self) -> Result<bool>;

    /// The entry's prefix.
    fn prefix(&self) -> Prefix<'_>;

    /// The runs it names.
    fn slots(&self) -> Slots;

    /// True if the entry stands for `key`.
    fn covers(&self, key: &[u8]) -> bool {
        self.prefix().covers(key)
    }
}

/// An index as a source, its runs renumbered.
pub(crate) struct Renumbered {
    cursor: EntryCursor,
    begun: bool,
    /// What each of its slots is now; nothing if it is left out.
    now: Vec<Slots>,
}

impl Renumbered {
    /// `now[i]` is what slot `i` is now. Slots beyond are left out.
    pub(crate) fn new(index: Arc<RunIndex>, now: Vec<Slots>) -> Renumbered {
        Renumbered { cursor: EntryCursor::new(index), begun: false, now }
    }
}

impl Entries for Renumbered {
    fn advance(&mut self) -> Result<bool> {
        loop {
            match self.begun {
                true => self.cursor.next(),
                false => self.cursor.seek_to_first(),
            }
            self.begun = true;
            if !self.cursor.valid() || self.slots() != 0 {
                return Ok(self.cursor.valid());
            }
        }
    }

    #[inline]
    fn prefix(&self) -> Prefix<'_> {
        self.cursor.prefix()
    }

    fn slots(&self) -> Slots {
        let mut before = self.cursor.slots();
        let mut now = 0;
        while before != 0 {
            now |= self.now.get(before.trailing_zeros() as usize).copied().unwrap_or(0);
            before &= before - 1;
        }
        now
    }
}

/// Bytes that an entry keeps behind the place where it differs from its neighbours. With none, up
/// to a third of the keys that come later would begin as some entry does, be joined to it, and make
/// gets look into one more run. With one it is some in a thousand.
const BYTES_MORE: usize = 1;

/// Cuts entries shorter as soon as the one behind is known.
struct Shortening {
    builder: IndexBuilder,
    /// The newest entry, not given on yet, and what it shares with the one before.
    pending: PrefixBuf,
    slots: Slots,
    shared: usize,
}

impl Shortening {
    fn add(&mut self, prefix: Prefix<'_>, slots: Slots) {
        if self.slots != 0 {
            if self.pending.get().contains(prefix) {
                self.slots |= slots;
                return;
            }
            let shared = shared_prefix_len(&self.pending.bytes, prefix.bytes);
            self.pass_on(shared);
            self.shared = shared;
        }
        self.pending.set(prefix);
        self.slots = slots;
    }

    fn pass_on(&mut self, shared_behind: usize) {
        if self.slots != 0 {
            let shared = self.shared.max(shared_behind);
            let shortened = self.pending.shortened(shared, BYTES_MORE);
            self.builder.add(shortened, self.slots);
        }
    }

    fn finish(mut self) -> RunIndex {
        self.pass_on(0);
        self.builder.finish()
    }
}

/// Entries after which `stop` is asked.
const CHECK_ENTRIES: u64 = 4_096;

/// The index of all entries of `sources`; `None` if it would take more than `bytes_max`.
///
/// # Errors
/// Those of the sources; `Cancelled` if `stop` says so.
/// # Cost
/// About log2(sources) comparisons for each entry; nothing is read but what sources read.
pub(crate) fn unite(
    mut sources: Vec<Box<dyn Entries + '_>>,
    bytes_max: u64,
    stop: &dyn Fn() -> bool,
) -> Result<Option<RunIndex>> {
    let mut heap = Vec::with_capacity(sources.len());
    for (at, source) in sources.iter_mut().enumerate() {
        if source.advance()? {
            heap.push(at);
        }
    }
    for at in (0..heap.len() / 2).rev() {
        sift_down(&sources, &mut heap, at);
    }
    let builder = IndexBuilder::default();
    let mut out = Shortening { builder, pending: PrefixBuf::default(), slots: 0, shared: 0 };
    let mut taken = 0u64;
    while let Some(&top) = heap.first() {
        let source = &mut sources[top];
        out.add(source.prefix(), source.slots());
        if !source.advance()? {
            heap.swap_remove(0);
        }
        sift_down(&sources, &mut heap, 0);
        // Asked each time, since a key may be long.
        if out.builder.heap_bytes() > bytes_max {
            return Ok(None);
        }
        taken += 1;
        if taken.is_multiple_of(CHECK_ENTRIES) && stop() {
            return Err(Error::Cancelled);
        }
    }
    let index = out.finish();
    Ok((index.memory_bytes() <= bytes_max).then_some(index))
}

fn sift_down(sources: &[Box<dyn Entries + '_>], heap: &mut [usize], mut at: usize) {
    let less = |a: usize, b: usize| sources[a].prefix().compare(sources[b].prefix()).is_lt();
    loop {
        let mut child = 2 * at + 1;
        if child >= heap.len() {
            return;
        }
        if child + 1 < heap.len() && less(heap[child + 1], heap[child]) {
            child += 1;
        }
        if !less(heap[child], heap[at]) {
            return;
        }
        heap.swap(at, child);
        at = child;
    }
}

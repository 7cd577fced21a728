//! Merges sorted sources into one, by a binary heap of cursors.
//!
//! Each source has a *rank*: sources of a smaller rank hold newer data. For records of one key, the
//! newer never stands in a source of a larger rank, which is what lets a range tombstone skip
//! whole stretches of the sources ranked behind its own.
//!
//! The heap holds the valid sources, ordered for the present direction. Moving on advances the
//! source on top and sifts it down; where one source goes on winning that is one or two
//! comparisons, and none at all where only one source is left.
//!
//! In bytewise order nearly all comparisons are of integers: beside each source stands its key's
//! *head*, eight bytes from where the sources' keys begin to differ. Keys that do not begin as the
//! others do have the least head or the greatest. Equal heads say nothing, and the keys are
//! compared. As the merge moves on, the place to take heads from is chosen anew.
//! Invariant: of two keys, the smaller one never has the greater head.

use super::lane::{Lane, Lend};
use super::note_comparison;
use crate::block::StoredBlock;
use crate::cursor::{Advance, BlocksRead, Cursor};
use esker_base::key::{prefix_behind, prefix_u64, shared_prefix_len};
use esker_base::{KeyOrder, Result, Trailer};
use std::cmp::Ordering;
use std::ops::Range;

/// A source and how new its data is.
pub(crate) struct Ranked<C> {
    /// 0 is the newest.
    pub(crate) rank: usize,
    pub(crate) cursor: C,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// Heads begin so many bytes before keys differ, so that they serve for a while.
const HEAD_BYTES_SHARED: usize = 6;
/// Comparisons that heads could not decide, after which heads are taken from another place.
const UNDECIDED_MAX: u32 = 16;

/// A valid source.
#[derive(Clone, Copy, Debug)]
struct Entry {
    head: u64,
    source: u32,
}

/// Where heads are taken from: behind what keys begin with. Nothing in custom orders.
#[derive(Debug, Default)]
struct Base {
    bytes: Vec<u8>,
    /// Of a base of up to eight bytes: as an integer, and which bits of a key's first eight bytes
    /// it is.
    prefix: u64,
    mask: u64,
}

impl Base {
    fn set(&mut self, bytes: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.prefix = prefix_u64(bytes);
        let rest = 8 * size_of::<u64>().saturating_sub(bytes.len()) as u32;
        self.mask = u64::MAX.checked_shl(rest).unwrap_or(0);
    }

    /// The eight bytes of a key that follow the base; if it does not begin with that, the least or
    /// the greatest head.
    #[inline]
    fn head(&self, key: &[u8]) -> std::result::Result<u64, u64> {
        let len = self.bytes.len();
        if len <= size_of::<u64>()
            && let Some(first) = key.first_chunk()
            && u64::from_be_bytes(*first) & self.mask == self.prefix
        {
            return Ok(prefix_u64(&key[len..]));
        }
        self.head_of_any(key)
    }

    #[inline(never)]
    fn head_of_any(&self, key: &[u8]) -> std::result::Result<u64, u64> {
        prefix_behind(key, &self.bytes).map_err(|side| if side.is_lt() { 0 } else { u64::MAX })
    }
}

/// A cursor over all records of its sources.
pub(crate) struct MergeCursor<C> {
    order: KeyOrder,
    sources: Vec<Ranked<Lane<C>>>,
    /// The first is where the cursor stands.
    heap: Vec<Entry>,
    direction: Direction,
    base: Base,
    /// Comparisons of different keys that heads did not decide.
    undecided: u32,
    /// Forward: the least head below the top, so that a smaller one stays on top. `None` if there
    /// is no other source in bytewise order.
    rival: Option<u64>,
    /// Of the record on top.
    trailer: Trailer,
    /// Ranks of the sources that switches are counted of.
    counted: Range<usize>,
    /// How often one of these was left for another source.
    switches: u64,
}

impl<C: Lend> MergeCursor<C> {
    /// Merges `sources`. Not valid before the first positioning.
    pub(crate) fn new(order: KeyOrder, sources: Vec<Ranked<C>>) -> MergeCursor<C> {
        let heap = Vec::with_capacity(sources.len());
        let lane = |Ranked { rank, cursor }| Ranked { rank, cursor: Lane::new(cursor) };
        let sources = sources.into_iter().map(lane).collect();
        MergeCursor {
            order,
            sources,
            heap,
            direction: Direction::Forward,
            base: Base::default(),
            undecided: 0,
            rival: None,
            trailer: Trailer(0),
            counted: 0..0,
            switches: 0,
        }
    }

    /// Counts from now on how often a source of one of these ranks is left.
    pub(crate) fn count_switches(&mut self, ranks: Range<usize>) {
        self.counted = ranks;
    }

    /// How often one of those that are counted was left for another source.
    pub(crate) fn switches(&self) -> u64 {
        self.switches
    }

    /// As [`Lend::blocks_read`], of all sources.
    pub(crate) fn blocks_read(&self) -> BlocksRead {
        self.sources.iter().map(|source| source.cursor.blocks_read()).sum()
    }

    /// Rank of the source that the current record comes from. Needs `valid`.
    pub(crate) fn rank(&self) -> usize {
        self.top().rank
    }

    /// As [`Lend::stored_block`]. Needs `valid`.
    #[inline]
    pub(crate) fn stored_block(&self) -> Option<&StoredBlock> {
        self.top().cursor.stored_block()
    }

    /// Forward only: no record of sources ranked behind `rank` comes before `(key, trailer)` any
    /// more.
    pub(crate) fn skip_older(&mut self, rank: usize, key: &[u8], trailer: Trailer) -> Result<()> {
        debug_assert_eq!(self.direction, Direction::Forward);
        self.guarded(|this| {
            let order = &this.order;
            for source in this.sources.iter_mut().filter(|s| s.rank > rank && s.cursor.valid()) {
                if order.less(source.cursor.key(), key) {
                    source.cursor.seek(key, trailer)?;
                }
            }
            this.rebuild();
            Ok(())
        })
    }

    /// Backward only: the same, for records at or after `(key, trailer)`.
    pub(crate) fn skip_older_back(
        &mut self,
        rank: usize,
        key: &[u8],
        trailer: Trailer,
    ) -> Result<()> {
        debug_assert_eq!(self.direction, Direction::Backward);
        self.guarded(|this| {
            let order = &this.order;
            for source in this.sources.iter_mut().filter(|s| s.rank > rank && s.cursor.valid()) {
                if !order.less(source.cursor.key(), key) {
                    source.cursor.seek_before(key, trailer)?;
                }
            }
            this.rebuild();
            Ok(())
        })
    }

    #[inline]
    fn top(&self) -> &Ranked<Lane<C>> {
        &self.sources[self.heap[0].source as usize]
    }

    /// True if source `a` comes before source `b` in the present direction.
    #[inline]
    fn ahead(&mut self, a: Entry, b: Entry) -> bool {
        note_comparison();
        if a.head == b.head {
            return self.ahead_by_key(a.source, b.source);
        }
        (a.head < b.head) == (self.direction == Direction::Forward)
    }

    fn ahead_by_key(&mut self, a: u32, b: u32) -> bool {
        let (x, y) = (&self.sources[a as usize].cursor, &self.sources[b as usize].cursor);
        let by_key = self.order.compare(x.key(), y.key());
        self.undecided = self.undecided.saturating_add(u32::from(by_key != Ordering::Equal));
        let ordering = by_key.then_with(|| y.trailer().cmp(&x.trailer()));
        match self.direction {
            Direction::Forward => ordering == Ordering::Less,
            Direction::Backward => ordering == Ordering::Greater,
        }
    }

    fn rebuild(&mut self) {
        self.heap.clear();
        let valid = self.sources.iter().enumerate().filter(|(_, s)| s.cursor.valid());
        self.heap.extend(valid.map(|(i, _)| Entry { head: 0, source: i as u32 }));
        self.take_heads();
    }

    /// Chooses where heads are taken from, by the source that was on top, and orders the heap by
    /// them.
    #[cold]
    fn take_heads(&mut self) {
        self.undecided = 0;
        if self.order.is_bytewise()
            && let [first, others @ ..] = &self.heap[..]
        {
            let key = |entry: &Entry| self.sources[entry.source as usize].cursor.key();
            let first = key(first);
            let shared = others.iter().map(|other| shared_prefix_len(first, key(other))).max();
            let len = shared.unwrap_or(0).saturating_sub(HEAD_BYTES_SHARED);
            // A whole head is taken faster.
            let len = len.min(first.len().saturating_sub(size_of::<u64>()));
            self.base.set(&first[..len]);
            for entry in &mut self.heap {
                let key = self.sources[entry.source as usize].cursor.key();
                entry.head = self.base.head(key).unwrap_or_else(|beyond| beyond);
            }
        }
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
        self.note_top();
    }

    /// Notes what steps need to know of the record on top and of the next one.
    #[inline]
    fn note_top(&mut self) {
        let Some(top) = self.heap.first() else { return };
        self.trailer = self.sources[top.source as usize].cursor.trailer();
        self.rival = match self.order.is_bytewise() {
            true => self.heap[1..].iter().take(2).map(|rival| rival.head).min(),
            // There are no heads, so that no step can be sure to stay on top.
            false => Some(0),
        };
    }

    #[inline]
    fn sift_down(&mut self, mut at: usize) {
        loop {
            let mut child = 2 * at + 1;
            if child >= self.heap.len() {
                return;
            }
            if child + 1 < self.heap.len() && self.ahead(self.heap[child + 1], self.heap[child]) {
                child += 1;
            }
            if !self.ahead(self.heap[child], self.heap[at]) {
                return;
            }
            self.heap.swap(at, child);
            at = child;
        }
    }

    /// Moves the source on top on, `past_repeats` of its key or only by a record.
    #[inline]
    fn advance_top(&mut self, past_repeats: bool) -> Result<()> {
        let top = self.heap[0].source as usize;
        loop {
            match self.sources[top].cursor.advance() {
                Ok(Some(step)) if past_repeats && step.repeats => {}
                Ok(Some(step)) => {
                    let head = match self.rival {
                        // Nobody asks for the head of the only source.
                        None => 0,
                        Some(rival) => {
                            note_comparison();
                            match self.base.head(step.key) {
                                Ok(head) if head < rival => head,
                                _ => break,
                            }
                        }
                    };
                    self.heap[0].head = head;
                    self.trailer = step.trailer;
                    return Ok(());
                }
                Ok(None) => break,
                Err(error) => {
                    self.heap.clear();
                    return Err(error);
                }
            }
        }
        self.settle_top();
        Ok(())
    }

    /// Counts that the source that was on top was left, if it is to be counted and another one is.
    #[inline]
    fn note_switch(&mut self, before: u32) {
        let is_left = self.heap.first().is_none_or(|top| top.source != before);
        let rank = self.sources[before as usize].rank;
        self.switches += u64::from(is_left && self.counted.contains(&rank));
    }

    /// Restores the heap after the source on top has moved.
    #[inline(never)]
    fn settle_top(&mut self) {
        let before = self.heap[0].source;
        self.settle();
        self.note_switch(before);
    }

    #[inline]
    fn settle(&mut self) {
        if !self.top().cursor.valid() {
            self.heap.swap_remove(0);
        } else if self.heap.len() > 1 && self.order.is_bytewise() {
            match self.base.head(self.top().cursor.key()) {
                Ok(head) if self.undecided < UNDECIDED_MAX => self.heap[0].head = head,
                _ => return self.take_heads(),
            }
        }
        self.sift_down(0);
        self.note_top();
    }

    fn position(
        &mut self,
        direction: Direction,
        mut place: impl FnMut(&mut Lane<C>) -> Result<()>,
    ) -> Result<()> {
        self.direction = direction;
        self.heap.clear();
        for source in &mut self.sources {
            place(&mut source.cursor)?;
        }
        self.rebuild();
        Ok(())
    }

    /// Turns round: every other source goes to the far side of the current record.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let key = self.key().to_vec();
        let trailer = self.trailer();
        let current = self.heap[0].source as usize;
        self.direction = direction;
        self.heap.clear();
        for (i, source) in self.sources.iter_mut().enumerate() {
            if i != current {
                match direction {
                    Direction::Forward => source.cursor.seek(&key, trailer)?,
                    Direction::Backward => source.cursor.seek_before(&key, trailer)?,
                }
            }
        }
        self.rebuild();
        // No two sources hold the same record, so the current one is on top in either direction.
        debug_assert_eq!(self.heap.first().map(|top| top.source as usize), Some(current));
        Ok(())
    }

    /// Runs a step; after an error the cursor is not valid.
    fn guarded(&mut self, step: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let result = step(self);
        if result.is_err() {
            self.heap.clear();
        }
        result
    }
}

impl<C: Lend> MergeCursor<C> {
    /// Forward only: moves to the next record of another key. `scratch` is overwritten.
    #[inline]
    pub(crate) fn next_key(&mut self, scratch: &mut Vec<u8>) -> Result<()> {
        debug_assert_eq!(self.direction, Direction::Forward);
        let Some(top) = self.heap.first() else { return Ok(()) };
        // Whoever else has the key has its head, and one who has it stands right below the top.
        if self.rival.is_some_and(|rival| top.head >= rival) {
            return self.next_key_of_several(scratch);
        }
        self.advance_top(true)
    }

    /// The same where other sources may have records of the key.
    #[inline(never)]
    fn next_key_of_several(&mut self, scratch: &mut Vec<u8>) -> Result<()> {
        if self.order.is_bytewise() {
            let passed = self.pass_key();
            if passed.is_err() {
                self.heap.clear();
            }
            return passed;
        }
        scratch.clear();
        scratch.extend_from_slice(self.key());
        self.next()?;
        while self.valid() && self.order.same(self.key(), scratch) {
            self.next()?;
        }
        Ok(())
    }

    /// In bytewise order: moves every source that stands on the key beyond it, the one on top last.
    fn pass_key(&mut self) -> Result<()> {
        let Entry { head, source: top } = self.heap[0];
        let mut heads_serve = self.undecided < UNDECIDED_MAX;
        for at in (0..self.heap.len()).rev() {
            let entry = self.heap[at];
            let key = |source: u32| self.sources[source as usize].cursor.key();
            if entry.head != head || at > 0 && key(entry.source) != key(top) {
                continue;
            }
            let source = &mut self.sources[entry.source as usize].cursor;
            let next = loop {
                match source.advance()? {
                    Some(step) if step.repeats => {}
                    next => break next,
                }
            };
            match next.map(|step| self.base.head(step.key)) {
                None => {
                    self.heap.swap_remove(at);
                }
                Some(Ok(head)) => self.heap[at].head = head,
                Some(Err(_)) => heads_serve = false,
            }
        }
        if heads_serve {
            for at in (0..self.heap.len() / 2).rev() {
                self.sift_down(at);
            }
            self.note_top();
        } else {
            self.take_heads();
        }
        self.note_switch(top);
        Ok(())
    }
}

impl<C: Lend> Cursor for MergeCursor<C> {
    #[inline]
    fn valid(&self) -> bool {
        !self.heap.is_empty()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.position(Direction::Forward, Lane::seek_to_first)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.position(Direction::Backward, Lane::seek_to_last)
    }

    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        self.position(Direction::Forward, |cursor| cursor.seek(key, trailer))
    }

    fn seek_before(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        self.position(Direction::Backward, |cursor| cursor.seek_before(key, trailer))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.direction == Direction::Backward {
            self.guarded(|merge| merge.turn(Direction::Forward))?;
        }
        self.advance_top(false)
    }

    fn prev(&mut self) -> Result<()> {
        if self.direction == Direction::Forward {
            self.guarded(|merge| merge.turn(Direction::Backward))?;
        }
        let top = self.heap[0].source as usize;
        if let Err(error) = self.sources[top].cursor.prev() {
            self.heap.clear();
            return Err(error);
        }
        self.settle_top();
        Ok(())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.top().cursor.key()
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        self.trailer
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.top().cursor.value()
    }
}

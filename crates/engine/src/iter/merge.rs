//! Merges sorted sources into one, by a binary heap of cursors.
//!
//! Each source has a *rank*: sources of a smaller rank hold newer data. For records of one key, the
//! newer never stands in a source of a larger rank, which is what lets a range tombstone skip
//! whole stretches of the sources ranked behind its own.
//!
//! The heap holds the indices of the valid sources, ordered for the present direction. Moving on
//! advances the source on top and sifts it down; where one source goes on winning that is one or
//! two comparisons, and none at all where only one source is left.

use crate::cursor::Cursor;
use esker_base::{KeyOrder, Result, Trailer};
use std::cmp::Ordering;

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

/// A cursor over all records of its sources.
pub(crate) struct MergeCursor<C> {
    order: KeyOrder,
    sources: Vec<Ranked<C>>,
    /// Indices of valid sources; the first is where the cursor stands.
    heap: Vec<u32>,
    direction: Direction,
}

impl<C: Cursor> MergeCursor<C> {
    /// Merges `sources`. Not valid before the first positioning.
    pub(crate) fn new(order: KeyOrder, sources: Vec<Ranked<C>>) -> MergeCursor<C> {
        let heap = Vec::with_capacity(sources.len());
        MergeCursor { order, sources, heap, direction: Direction::Forward }
    }

    /// Rank of the source that the current record comes from. Needs `valid`.
    pub(crate) fn rank(&self) -> usize {
        self.top().rank
    }

    /// Forward only: no record of sources ranked behind `rank` comes before `(key, trailer)` any more.
    pub(crate) fn skip_older(&mut self, rank: usize, key: &[u8], trailer: Trailer) -> Result<()> {
        debug_assert_eq!(self.direction, Direction::Forward);
        let order = &self.order;
        for source in self.sources.iter_mut().filter(|s| s.rank > rank && s.cursor.valid()) {
            if order.less(source.cursor.key(), key) {
                source.cursor.seek(key, trailer)?;
            }
        }
        self.rebuild();
        Ok(())
    }

    /// Backward only: the same, for records at or after `(key, trailer)`.
    pub(crate) fn skip_older_back(
        &mut self,
        rank: usize,
        key: &[u8],
        trailer: Trailer,
    ) -> Result<()> {
        debug_assert_eq!(self.direction, Direction::Backward);
        let order = &self.order;
        for source in self.sources.iter_mut().filter(|s| s.rank > rank && s.cursor.valid()) {
            if !order.less(source.cursor.key(), key) {
                source.cursor.seek_before(key, trailer)?;
            }
        }
        self.rebuild();
        Ok(())
    }

    #[inline]
    fn top(&self) -> &Ranked<C> {
        &self.sources[self.heap[0] as usize]
    }

    /// True if source `a` comes before source `b` in the present direction.
    #[inline]
    fn ahead(&self, a: u32, b: u32) -> bool {
        let (x, y) = (&self.sources[a as usize].cursor, &self.sources[b as usize].cursor);
        let ordering =
            self.order.compare(x.key(), y.key()).then_with(|| y.trailer().cmp(&x.trailer()));
        match self.direction {
            Direction::Forward => ordering == Ordering::Less,
            Direction::Backward => ordering == Ordering::Greater,
        }
    }

    fn rebuild(&mut self) {
        self.heap.clear();
        let valid = self.sources.iter().enumerate().filter(|(_, s)| s.cursor.valid());
        self.heap.extend(valid.map(|(i, _)| i as u32));
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
    }

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

    /// Restores the heap after the source on top has moved.
    #[inline]
    fn settle_top(&mut self) {
        if !self.top().cursor.valid() {
            self.heap.swap_remove(0);
        }
        if self.heap.len() > 1 {
            self.sift_down(0);
        }
    }

    fn position(
        &mut self,
        direction: Direction,
        mut place: impl FnMut(&mut C) -> Result<()>,
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
        let current = self.heap[0] as usize;
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
        debug_assert_eq!(self.heap.first(), Some(&(current as u32)));
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

impl<C: Cursor> Cursor for MergeCursor<C> {
    #[inline]
    fn valid(&self) -> bool {
        !self.heap.is_empty()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.position(Direction::Forward, C::seek_to_first)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.position(Direction::Backward, C::seek_to_last)
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
        let top = self.heap[0] as usize;
        if let Err(error) = self.sources[top].cursor.next() {
            self.heap.clear();
            return Err(error);
        }
        self.settle_top();
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if self.direction == Direction::Forward {
            self.guarded(|merge| merge.turn(Direction::Backward))?;
        }
        let top = self.heap[0] as usize;
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
        self.top().cursor.trailer()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.top().cursor.value()
    }
}

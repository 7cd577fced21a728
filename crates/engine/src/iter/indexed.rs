//! Several runs as one source, in the order that a run index says.
//!
//! A merge finds the next record by comparing what all its sources stand on. Here the index names
//! the runs that may have the next key, most often one: its cursor moves on, and all that is
//! compared is whether the key is still one that the entry stands for. A run is placed when an
//! entry first names it, so that a short scan touches the runs it needs only.
//! Invariant: a placed source stands on its first record behind what was passed (backward: before
//! it), or on none; `here` are those that stand on a record of the present entry, the first of them
//! on the next.
//! Source: LooseKV, REMIX (FAST '21). Theirs lead from record to record; ours from key to key,
//! since a run may have several records of one, or none any more.

use super::lane::{Lane, Lend};
use super::note_comparison;
use crate::block::BlockCursor;
use crate::cursor::{Advance, BlocksRead, Cursor, Step};
use crate::run_index::{EntryCursor, SLOTS_MAX, Slots};
use esker_base::key::prefix_end;
use esker_base::{Error, Result, Trailer};
use std::cmp::Ordering;

/// Sorts before every record of a key.
const FIRST: Trailer = Trailer(u64::MAX);

/// Entries without a record, after which it is asked where the next record is.
const IN_VAIN_MAX: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

struct Source<C> {
    lane: Lane<C>,
    placed: bool,
}

/// A cursor over all records of runs that an index covers, in bytewise order.
pub(crate) struct IndexedCursor<C> {
    entries: EntryCursor,
    sources: Vec<Source<C>>,
    /// The source that a slot stands for, if any.
    source_of: [Option<u8>; SLOTS_MAX],
    here: Vec<u8>,
    direction: Direction,
    /// Where the cursor was sent; matters for sources that are placed in the first entry.
    target: Option<(Vec<u8>, Trailer)>,
    passed: Vec<u8>,
}

impl<C: Lend> IndexedCursor<C> {
    /// `sources` with the slots that stand for each, none of which stands for two.
    pub(crate) fn new(entries: EntryCursor, sources: Vec<(Slots, C)>) -> IndexedCursor<C> {
        let mut source_of = [None; SLOTS_MAX];
        for (source, (slots, _)) in sources.iter().enumerate() {
            let mut slots = *slots;
            while slots != 0 {
                source_of[slots.trailing_zeros() as usize] = Some(source as u8);
                slots &= slots - 1;
            }
        }
        let source = |(_, cursor)| Source { lane: Lane::new(cursor), placed: false };
        IndexedCursor {
            entries,
            sources: sources.into_iter().map(source).collect(),
            source_of,
            here: Vec::new(),
            direction: Direction::Forward,
            target: None,
            passed: Vec::new(),
        }
    }

    #[inline]
    fn lane(&self) -> &Lane<C> {
        &self.sources[usize::from(self.here[0])].lane
    }

    /// Goes anywhere: nothing is placed any more.
    fn start(&mut self, direction: Direction, target: Option<(&[u8], Trailer)>) {
        self.direction = direction;
        self.target = target.map(|(key, trailer)| (key.to_vec(), trailer));
        self.here.clear();
        self.sources.iter_mut().for_each(|source| source.placed = false);
    }

    /// From the present entry on, finds one that has a record.
    fn enter(&mut self) -> Result<()> {
        let mut in_vain = 0;
        while self.entries.valid() {
            self.gather()?;
            self.target = None;
            if !self.here.is_empty() {
                return Ok(());
            }
            in_vain += 1;
            if in_vain == IN_VAIN_MAX {
                return self.skip();
            }
            self.leave();
        }
        Ok(())
    }

    /// Goes to the entry of the next record that any source has, or ends if none has any: what is
    /// between names runs for keys that they do not have any more, or beyond the bounds of the
    /// scan.
    #[cold]
    fn skip(&mut self) -> Result<()> {
        let mut next: Option<usize> = None;
        for source in 0..self.sources.len() {
            if !self.sources[source].placed {
                self.place(source)?;
            }
            let key = |source: usize| self.sources[source].lane.key();
            let is_nearer = |than: usize| {
                note_comparison();
                match self.direction {
                    Direction::Forward => key(source) < key(than),
                    Direction::Backward => key(source) > key(than),
                }
            };
            if self.sources[source].lane.valid() && next.is_none_or(is_nearer) {
                next = Some(source);
            }
        }
        let Some(next) = next else {
            self.entries.leave();
            return Ok(());
        };
        self.entries.seek(self.sources[next].lane.key());
        self.gather()?;
        if self.here.is_empty() {
            // Only digests that leave keys out lead here, and `verify` finds them.
            return Err(Error::corruption("", 0, "the run index does not know a key of its runs"));
        }
        Ok(())
    }

    #[inline]
    fn leave(&mut self) {
        match self.direction {
            Direction::Forward => self.entries.next(),
            Direction::Backward => self.entries.prev(),
        }
    }

    /// Finds the sources that have records of the present entry.
    #[inline]
    fn gather(&mut self) -> Result<()> {
        self.here.clear();
        let mut slots = self.entries.slots();
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let Some(source) = self.source_of[slot] else { continue };
            if self.here.contains(&source) {
                continue;
            }
            if !self.sources[usize::from(source)].placed {
                self.place(usize::from(source))?;
            }
            let lane = &self.sources[usize::from(source)].lane;
            if lane.valid() && self.entries.covers(lane.key()) {
                self.here.push(source);
            }
        }
        if self.here.len() > 1 {
            self.choose();
        }
        Ok(())
    }

    #[inline(never)]
    fn place(&mut self, source: usize) -> Result<()> {
        let lane = &mut self.sources[source].lane;
        let first = self.entries.first_key();
        match self.direction {
            Direction::Forward => match &self.target {
                Some((key, trailer)) if key.as_slice() >= first => lane.seek(key, *trailer)?,
                _ => lane.seek(first, FIRST)?,
            },
            Direction::Backward => match &self.target {
                Some((key, trailer)) if self.entries.covers(key) => {
                    lane.seek_before(key, *trailer)?;
                }
                _ if self.entries.is_exact() => lane.seek_before(&[first, &[0]].concat(), FIRST)?,
                _ => match prefix_end(first) {
                    Some(end) => lane.seek_before(&end, FIRST)?,
                    None => lane.seek_to_last()?,
                },
            },
        }
        self.sources[source].placed = true;
        Ok(())
    }

    /// Puts the source with the next record first.
    fn choose(&mut self) {
        let lane = |at: usize| &self.sources[usize::from(self.here[at])].lane;
        let mut best = 0;
        for at in 1..self.here.len() {
            let (a, b) = (lane(at), lane(best));
            note_comparison();
            let order = a.key().cmp(b.key()).then_with(|| b.trailer().cmp(&a.trailer()));
            let wanted = match self.direction {
                Direction::Forward => Ordering::Less,
                Direction::Backward => Ordering::Greater,
            };
            if order == wanted {
                best = at;
            }
        }
        self.here.swap(0, best);
    }

    /// The source in front was moved: is there still a record of the entry? If not, goes on to the
    /// next one.
    #[inline]
    fn settle(&mut self) -> Result<()> {
        let lane = self.lane();
        if !lane.valid() || !self.entries.covers(lane.key()) {
            self.here.swap_remove(0);
        }
        match self.here.len() {
            0 => {
                self.leave();
                self.enter()
            }
            1 => Ok(()),
            _ => {
                self.choose();
                Ok(())
            }
        }
    }

    /// Where several sources have records of the entry: `advance`, and whether the key is the same
    /// again.
    #[inline(never)]
    fn advance_several(&mut self) -> Result<bool> {
        let mut passed = std::mem::take(&mut self.passed);
        passed.clear();
        passed.extend_from_slice(self.lane().key());
        let source = usize::from(self.here[0]);
        let moved = self.sources[source].lane.next().and_then(|()| self.settle());
        let repeats = moved.is_ok() && self.valid() && self.key() == passed.as_slice();
        self.passed = passed;
        moved.map(|()| repeats)
    }

    /// Runs a step; after an error the cursor is not valid.
    fn guarded<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let result = step(self);
        if result.is_err() {
            self.here.clear();
        }
        result
    }

    /// Goes the other way from the same record.
    #[cold]
    fn turn_forward(&mut self) -> Result<()> {
        let (key, trailer) = (self.key().to_vec(), self.trailer());
        self.seek(&key, trailer)
    }
}

impl<C: Lend> Advance for IndexedCursor<C> {
    #[inline]
    fn advance(&mut self) -> Result<Option<Step<'_>>> {
        if self.direction == Direction::Backward {
            self.turn_forward()?;
        }
        let repeats = match &self.here[..] {
            &[source] => {
                let lane = &mut self.sources[usize::from(source)].lane;
                match lane.advance() {
                    Ok(Some(step)) if self.entries.covers(step.key) => step.repeats,
                    Ok(_) => {
                        self.here.clear();
                        self.leave();
                        self.guarded(Self::enter)?;
                        false
                    }
                    Err(error) => {
                        self.here.clear();
                        return Err(error);
                    }
                }
            }
            _ => self.guarded(Self::advance_several)?,
        };
        if self.here.is_empty() {
            return Ok(None);
        }
        let lane = self.lane();
        Ok(Some(Step { key: lane.key(), trailer: lane.trailer(), repeats }))
    }
}

impl<C: Lend> Cursor for IndexedCursor<C> {
    #[inline]
    fn valid(&self) -> bool {
        !self.here.is_empty()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.start(Direction::Forward, None);
        self.entries.seek_to_first();
        self.guarded(Self::enter)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.start(Direction::Backward, None);
        self.entries.seek_to_last();
        self.guarded(Self::enter)
    }

    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        self.start(Direction::Forward, Some((key, trailer)));
        self.entries.seek(key);
        self.guarded(Self::enter)
    }

    fn seek_before(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        self.start(Direction::Backward, Some((key, trailer)));
        self.entries.seek_at_or_before(key);
        self.guarded(Self::enter)
    }

    fn next(&mut self) -> Result<()> {
        self.advance()?;
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if self.direction == Direction::Forward {
            let (key, trailer) = (self.key().to_vec(), self.trailer());
            return self.seek_before(&key, trailer);
        }
        let source = usize::from(self.here[0]);
        self.guarded(|cursor| {
            cursor.sources[source].lane.prev()?;
            cursor.settle()
        })
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.lane().key()
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        self.lane().trailer()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.lane().value()
    }
}

impl<C: Lend> Lend for IndexedCursor<C> {
    fn blocks_read(&self) -> BlocksRead {
        self.sources.iter().map(|source| source.lane.blocks_read()).sum()
    }

    fn exchange_leaf(&mut self, _leaf: &mut BlockCursor) -> bool {
        false
    }
}

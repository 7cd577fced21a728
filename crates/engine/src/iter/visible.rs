//! What a reader sees: the newest record of each key at its sequence number, without what is
//! deleted.
//!
//! Forward, the newest visible record of a key comes first, so the cursor stops there and later
//! steps over the older ones. Backward, it comes last, so the cursor must look ahead: it keeps a
//! copy of the record it stands on while the merge below already stands on the key before.
//!
//! Range tombstones: a record is hidden by a visible tombstone over its key that is newer. When a
//! record is hidden, sources ranked behind the tombstone's skip to its end at once.

use super::lane::Lend;
use super::merge::MergeCursor;
use crate::cursor::{BlocksRead, Cursor};
use crate::range_tombstone::{RangeTombstones, Span};
use esker_base::key::SEQ_MAX;
use esker_base::{Error, KeyOrder, Kind, Result, Seq, Trailer};
use std::path::Path;
use std::sync::Arc;

/// The keys that a scan may see: `[start, end)`, `None` being open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) start: Option<Vec<u8>>,
    pub(crate) end: Option<Vec<u8>>,
}

/// Range tombstones that are read when a key asks for them.
pub(crate) trait LazyTombstones: Send + Sync {
    /// Those that may lie over `key`; `None` if these are the ones that were given last.
    ///
    /// # Errors
    /// They cannot be read. Asking again tries again.
    fn over(&mut self, order: &KeyOrder, key: &[u8]) -> Result<Option<Arc<RangeTombstones>>>;
}

/// The range tombstones of a source.
pub(crate) enum Tombstones {
    /// All of them.
    AtHand(Arc<RangeTombstones>),
    Lazy(Box<dyn LazyTombstones>),
}

/// The tombstones of one source, and the last place looked at.
struct TombstoneSource {
    rank: usize,
    /// What gives `set` its contents, if not all are at hand.
    lazy: Option<Box<dyn LazyTombstones>>,
    set: Arc<RangeTombstones>,
    at: usize,
    /// They hide at every moment, those too before they were.
    timeless: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not on a record.
    Nowhere,
    /// The merge stands on the record shown.
    Forward,
    /// The record shown is in `saved_*`; the merge stands before all records of its key.
    Backward,
}

/// A cursor over the keys and values that are visible at a sequence number.
pub(crate) struct VisibleCursor<C> {
    order: KeyOrder,
    merge: MergeCursor<C>,
    tombstones: Vec<TombstoneSource>,
    seq: Seq,
    bounds: Bounds,
    state: State,
    saved_key: Vec<u8>,
    saved_value: Vec<u8>,
    /// The saved value is a pointer.
    saved_is_pointer: bool,
    dir: Arc<Path>,
}

impl<C: Lend> VisibleCursor<C> {
    /// `tombstones`: with the rank of the source they belong to. `dir` is named in errors.
    pub(crate) fn new(
        order: KeyOrder,
        merge: MergeCursor<C>,
        tombstones: Vec<(usize, Tombstones)>,
        seq: Seq,
        bounds: Bounds,
        dir: Arc<Path>,
    ) -> VisibleCursor<C> {
        let tombstones = tombstones.into_iter().filter_map(|(rank, tombstones)| {
            let (lazy, set) = match tombstones {
                Tombstones::AtHand(set) if set.is_empty() => return None,
                Tombstones::AtHand(set) => (None, set),
                Tombstones::Lazy(lazy) => (Some(lazy), Arc::default()),
            };
            Some(TombstoneSource { rank, lazy, set, at: 0, timeless: false })
        });
        let tombstones = tombstones.collect();
        VisibleCursor {
            order,
            merge,
            tombstones,
            seq,
            bounds,
            state: State::Nowhere,
            saved_key: Vec::new(),
            saved_value: Vec::new(),
            saved_is_pointer: false,
            dir,
        }
    }

    /// Hides what was erased, at whatever moment this reads.
    pub(crate) fn leave_out(&mut self, erased: &Arc<RangeTombstones>) {
        if !erased.is_empty() {
            // What is newer may be in any source.
            let (rank, set) = (usize::MAX, erased.clone());
            self.tombstones.push(TombstoneSource { rank, lazy: None, set, at: 0, timeless: true });
        }
    }

    /// As [`MergeCursor::switches`].
    pub(crate) fn switches(&self) -> u64 {
        self.merge.switches()
    }

    /// The blocks of tables that the scan went to.
    pub(crate) fn blocks_read(&self) -> BlocksRead {
        self.merge.blocks_read()
    }

    /// True if the cursor stands on a key.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.state != State::Nowhere
    }

    /// Stands on nothing from here on.
    pub(crate) fn leave(&mut self) {
        self.state = State::Nowhere;
    }

    /// The key. Needs `valid`.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        match self.state {
            State::Backward => &self.saved_key,
            _ => self.merge.key(),
        }
    }

    /// True if what stands for the value is a pointer to it. Needs `valid`.
    #[inline]
    pub(crate) fn is_pointer(&self) -> bool {
        match self.state {
            State::Backward => self.saved_is_pointer,
            _ => self.merge.trailer().0 as u8 == Kind::PutPointer as u8,
        }
    }

    /// The value, or the pointer to it. Needs `valid`.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        match self.state {
            State::Backward => &self.saved_value,
            _ => self.merge.value(),
        }
    }

    /// Moves to the first key of the bounds.
    pub(crate) fn seek_to_first(&mut self) -> Result<()> {
        self.state = State::Nowhere;
        // The bounds stay where they are meanwhile: an order of the user's may unwind.
        match &self.bounds.start {
            Some(start) => self.merge.seek(start, Trailer::seek(self.seq))?,
            None => self.merge.seek_to_first()?,
        }
        self.settle_forward()
    }

    /// Moves to the last key of the bounds.
    pub(crate) fn seek_to_last(&mut self) -> Result<()> {
        self.state = State::Nowhere;
        match &self.bounds.end {
            Some(end) => self.merge.seek_before(end, FIRST)?,
            None => self.merge.seek_to_last()?,
        }
        self.settle_backward()
    }

    /// Moves to the first key at or after `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<()> {
        if self.bounds.start.as_deref().is_some_and(|start| self.order.less(key, start)) {
            return self.seek_to_first();
        }
        self.state = State::Nowhere;
        self.merge.seek(key, Trailer::seek(self.seq))?;
        self.settle_forward()
    }

    /// Moves to the last key before `key`.
    pub(crate) fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        if self.bounds.end.as_deref().is_some_and(|end| self.order.less(end, key)) {
            return self.seek_to_last();
        }
        self.state = State::Nowhere;
        self.merge.seek_before(key, FIRST)?;
        self.settle_backward()
    }

    /// Moves to the following key. Needs `valid`.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<()> {
        match self.state {
            State::Nowhere => return Ok(()),
            State::Forward => {
                self.state = State::Nowhere;
                self.merge.next_key(&mut self.saved_key)?;
            }
            State::Backward => {
                // The merge stands before the key; the next keys start after its oldest record.
                self.state = State::Nowhere;
                self.merge.seek(&self.saved_key, LAST)?;
                self.skip_saved_key()?;
            }
        }
        self.settle_forward()
    }

    /// Moves to the preceding key. Needs `valid`.
    pub(crate) fn prev(&mut self) -> Result<()> {
        match self.state {
            State::Nowhere => return Ok(()),
            State::Forward => {
                self.saved_key.clear();
                self.saved_key.extend_from_slice(self.merge.key());
                self.state = State::Nowhere;
                self.merge.seek_before(&self.saved_key, FIRST)?;
            }
            State::Backward => self.state = State::Nowhere,
        }
        self.settle_backward()
    }

    /// Steps over the records of `saved_key`.
    fn skip_saved_key(&mut self) -> Result<()> {
        while self.merge.valid() && self.order.same(self.merge.key(), &self.saved_key) {
            self.merge.next()?;
        }
        Ok(())
    }

    /// From wherever the merge stands, goes forward to a visible key and stands there.
    #[inline]
    fn settle_forward(&mut self) -> Result<()> {
        while self.merge.valid() {
            if let Some(end) = &self.bounds.end
                && !self.order.less(self.merge.key(), end)
            {
                break;
            }
            let trailer = self.merge.trailer();
            if trailer.seq() > self.seq {
                self.merge.next()?;
                continue;
            }
            if !self.tombstones.is_empty()
                && let Some((source, at)) = self.hidden_by(trailer.seq())?
            {
                self.leave_hidden_forward(source, at)?;
                continue;
            }
            match trailer.kind() {
                Some(Kind::Put | Kind::PutPointer) => {
                    self.state = State::Forward;
                    return Ok(());
                }
                Some(Kind::Delete) => self.merge.next_key(&mut self.saved_key)?,
                _ => return Err(self.unknown_kind()),
            }
        }
        Ok(())
    }

    /// The tombstone that hides the merge's record, as (source, fragment).
    fn hidden_by(&mut self, record_seq: Seq) -> Result<Option<(usize, usize)>> {
        let key = self.merge.key();
        for (i, source) in self.tombstones.iter_mut().enumerate() {
            if let Some(lazy) = &mut source.lazy
                && let Some(set) = lazy.over(&self.order, key)?
            {
                (source.set, source.at) = (set, 0);
            }
            let at = source.locate(&self.order, key);
            let Some(fragment) = source.set.fragments().get(at) else { continue };
            let seen_at = if source.timeless { SEQ_MAX } else { self.seq };
            if self.order.compare(&fragment.start, key).is_le()
                && source.set.newest_at(at, seen_at).is_some_and(|seq| seq > record_seq)
            {
                return Ok(Some((i, at)));
            }
        }
        Ok(None)
    }

    /// Leaves a hidden record: older sources go to the end of the tombstone, the others one step.
    fn leave_hidden_forward(&mut self, source: usize, at: usize) -> Result<()> {
        let TombstoneSource { rank, set, .. } = &self.tombstones[source];
        let end = set.fragments()[at].end.clone();
        let rank = *rank;
        if self.merge.rank() > rank {
            return self.merge.skip_older(rank, &end, FIRST);
        }
        self.merge.next()
    }

    /// From wherever the merge stands, goes backward to a visible key and keeps a copy of it.
    fn settle_backward(&mut self) -> Result<()> {
        while self.merge.valid() {
            if let Some(start) = &self.bounds.start
                && self.order.less(self.merge.key(), start)
            {
                break;
            }
            if self.collect_key_backward()? {
                self.state = State::Backward;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads all records of the merge's key, oldest first, and leaves it. True if the key is
    /// visible.
    fn collect_key_backward(&mut self) -> Result<bool> {
        self.saved_key.clear();
        self.saved_key.extend_from_slice(self.merge.key());
        let mut found = false;
        while self.merge.valid() && self.order.same(self.merge.key(), &self.saved_key) {
            let trailer = self.merge.trailer();
            if trailer.seq() <= self.seq {
                if !self.tombstones.is_empty()
                    && let Some((source, at)) = self.hidden_by(trailer.seq())?
                {
                    found = false;
                    if self.leave_hidden_backward(source, at)? {
                        continue;
                    }
                } else {
                    match trailer.kind() {
                        Some(kind @ (Kind::Put | Kind::PutPointer)) => {
                            found = true;
                            self.saved_is_pointer = kind == Kind::PutPointer;
                            // The order may take different bytes for one key; show the newest.
                            self.saved_key.clear();
                            self.saved_key.extend_from_slice(self.merge.key());
                            self.saved_value.clear();
                            self.saved_value.extend_from_slice(self.merge.value());
                        }
                        Some(Kind::Delete) => found = false,
                        _ => return Err(self.unknown_kind()),
                    }
                }
            }
            self.merge.prev()?;
        }
        Ok(found)
    }

    /// Sends older sources before the start of the tombstone. False if the record's own source is
    /// not among them.
    fn leave_hidden_backward(&mut self, source: usize, at: usize) -> Result<bool> {
        let TombstoneSource { rank, set, .. } = &self.tombstones[source];
        let start = set.fragments()[at].start.clone();
        let rank = *rank;
        // At the start itself nothing is gained, and records of newer sources may still follow.
        if self.merge.rank() <= rank {
            return Ok(false);
        }
        self.merge.skip_older_back(rank, &start, FIRST)?;
        Ok(true)
    }

    #[cold]
    fn unknown_kind(&mut self) -> Error {
        self.state = State::Nowhere;
        Error::Incompatible {
            path: self.dir.to_path_buf(),
            what: "a record is of a kind that this version does not read".to_owned(),
        }
    }
}

/// Sorts before every record of a key.
const FIRST: Trailer = Trailer(u64::MAX);
/// Sorts after every record of a key, or is the oldest possible one.
const LAST: Trailer = Trailer(0);

impl TombstoneSource {
    /// Index of the first fragment that ends after `key`, starting from the last place looked at.
    #[inline]
    fn locate(&mut self, order: &KeyOrder, key: &[u8]) -> usize {
        let fragments = self.set.fragments();
        let ends_after = |f: &Span| order.less(key, &f.end);
        let here = self.at;
        let begins_here = here == 0 || !ends_after(&fragments[here - 1]);
        if begins_here && fragments.get(here).is_none_or(ends_after) {
            return here;
        }
        if begins_here && fragments.get(here + 1).is_none_or(ends_after) {
            self.at = here + 1;
        } else {
            self.at = self.set.position(order, key);
        }
        self.at
    }
}

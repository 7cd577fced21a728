//! Cursors over the sorted pieces of a memtable.

use super::Memtable;
use super::arena::EntryRef;
use super::sorted::Piece;
use crate::cursor::{Advance, Cursor, Step};
use esker_base::{Result, Trailer};
use std::sync::Arc;

/// How far ahead of a forward scan records are pulled into the cache.
const PREFETCH_DISTANCE: usize = 8;

/// And how far ahead the rest of those that are longer than a line.
const REST_DISTANCE: usize = 4;

impl Memtable {
    /// Cursors that together hold all point records inserted so far. Sorts what is not sorted yet.
    pub(crate) fn cursors(self: &Arc<Memtable>) -> Vec<MemCursor> {
        self.sorted
            .pieces(&self.order, &self.arena)
            .iter()
            .map(|piece| MemCursor::new(self.clone(), piece.clone()))
            .collect()
    }

    /// One cursor over all point records. For a memtable that takes no more writes.
    pub(crate) fn sealed_cursor(self: &Arc<Memtable>) -> MemCursor {
        let piece = self.sorted.whole(&self.order, &self.arena, self.entries() as usize);
        MemCursor::new(self.clone(), piece)
    }
}

/// A cursor over one piece.
pub(crate) struct MemCursor {
    mem: Arc<Memtable>,
    piece: Arc<Piece>,
    /// Index of the current record; the length of the piece if there is none.
    at: usize,
}

impl MemCursor {
    pub(super) fn new(mem: Arc<Memtable>, piece: Arc<Piece>) -> MemCursor {
        let at = piece.len();
        MemCursor { mem, piece, at }
    }

    #[inline]
    fn entry(&self) -> EntryRef {
        self.piece.entry(self.at).expect("the cursor is valid")
    }

    fn lower_bound(&self, key: &[u8], trailer: Trailer) -> usize {
        self.piece.lower_bound(&self.mem.order, &self.mem.arena, key, trailer)
    }

    /// Moves to the record before index `end`, or to none.
    fn stand_before(&mut self, end: usize) {
        self.at = end.checked_sub(1).unwrap_or(self.piece.len());
    }
}

impl Cursor for MemCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.at < self.piece.len()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.at = 0;
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.stand_before(self.piece.len());
        Ok(())
    }

    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        self.at = self.lower_bound(key, trailer);
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        self.stand_before(self.lower_bound(key, trailer));
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.at += 1;
        if let Some(ahead) = self.piece.entry(self.at + PREFETCH_DISTANCE) {
            self.mem.arena.prefetch(ahead);
        }
        if let Some(ahead) = self.piece.entry(self.at + REST_DISTANCE) {
            self.mem.arena.prefetch_rest(ahead);
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.stand_before(self.at);
        Ok(())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.mem.arena.key(self.entry())
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        self.mem.arena.trailer(self.entry())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.mem.arena.value(self.entry())
    }
}

impl Advance for MemCursor {
    #[inline]
    fn advance(&mut self) -> Result<Option<Step<'_>>> {
        let before = self.piece.entry(self.at);
        self.next()?;
        let Some(entry) = self.piece.entry(self.at) else { return Ok(None) };
        let arena = &self.mem.arena;
        let key = arena.key(entry);
        let repeats = before.is_some_and(|before| arena.key(before) == key);
        Ok(Some(Step { key, trailer: arena.trailer(entry), repeats }))
    }
}

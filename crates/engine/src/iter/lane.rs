//! A source of a merge, which walks blocks itself.
//!
//! Between a merge and the block where a source stands there are several layers: a run, its table,
//! the index of that. A lane takes the innermost cursor out of them when it moves forward, makes
//! its steps with it, and puts it back where the block ends or anything else is asked.
//! Invariant: while `lent`, `leaf` stands on a record, and `cursor` is asked for nothing else.

use crate::block::{BlockCursor, StoredBlock};
use crate::cursor::{Advance, BlocksRead, Cursor, Step};
use esker_base::{Result, Trailer};

/// A source that can give the cursor over its present block away.
pub(crate) trait Lend: Advance {
    /// Exchanges that cursor with `leaf`; false, and nothing is exchanged, if there is none to
    /// give.
    ///
    /// Until it is exchanged back, nothing else may be asked of the source but what it read.
    fn exchange_leaf(&mut self, leaf: &mut BlockCursor) -> bool;

    /// The block of the present record as it stands in its file, if it has no other record and that
    /// was kept.
    fn stored_block(&self) -> Option<&StoredBlock> {
        None
    }

    /// The blocks of tables that it went to since it was made. May be asked at any time.
    fn blocks_read(&self) -> BlocksRead {
        BlocksRead::default()
    }
}

/// A source, and its innermost cursor while that is lent.
pub(super) struct Lane<C> {
    cursor: C,
    leaf: BlockCursor,
    lent: bool,
}

impl<C: Lend> Lane<C> {
    pub(super) fn new(cursor: C) -> Lane<C> {
        Lane { cursor, leaf: BlockCursor::new(), lent: false }
    }

    /// The source with everything in its place.
    fn whole(&mut self) -> &mut C {
        if self.lent {
            self.cursor.exchange_leaf(&mut self.leaf);
            self.lent = false;
        }
        &mut self.cursor
    }

    /// As [`Lend::stored_block`].
    #[inline]
    pub(super) fn stored_block(&self) -> Option<&StoredBlock> {
        // A block that was lent has another record.
        if self.lent { None } else { self.cursor.stored_block() }
    }

    /// As [`Lend::blocks_read`].
    pub(super) fn blocks_read(&self) -> BlocksRead {
        self.cursor.blocks_read()
    }

    /// A step that leaves the block, or was never inside one.
    #[inline(never)]
    fn advance_source(&mut self) -> Result<Option<Step<'_>>> {
        self.whole().advance()
    }
}

impl<C: Lend> Advance for Lane<C> {
    #[inline]
    fn advance(&mut self) -> Result<Option<Step<'_>>> {
        if !self.lent && self.cursor.valid() {
            self.lent = self.cursor.exchange_leaf(&mut self.leaf);
        }
        if self.lent && self.leaf.advance_within() {
            return Ok(self.leaf.step());
        }
        self.advance_source()
    }
}

impl<C: Lend> Cursor for Lane<C> {
    #[inline]
    fn valid(&self) -> bool {
        self.lent || self.cursor.valid()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.whole().seek_to_first()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.whole().seek_to_last()
    }

    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        self.whole().seek(key, trailer)
    }

    fn seek_before(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        self.whole().seek_before(key, trailer)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.advance()?;
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.whole().prev()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        if self.lent { self.leaf.key() } else { self.cursor.key() }
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        if self.lent { self.leaf.trailer() } else { self.cursor.trailer() }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        if self.lent { self.leaf.value() } else { self.cursor.value() }
    }
}

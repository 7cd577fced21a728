//! The cursor: how every ordered source of records is walked.
//!
//! Memtables, blocks, tables, runs and merges of them all have the same face, so that they can be
//! stacked. A cursor stands on a record or on none (`valid`). Records are ordered as internal keys:
//! user key ascending, then trailer descending (newest first).

use esker_base::{Result, Trailer};

/// Walks records in internal-key order.
///
/// After an error the cursor is not valid; it may be positioned anew.
pub trait Cursor {
    /// True if the cursor stands on a record.
    fn valid(&self) -> bool;

    /// Moves to the first record.
    fn seek_to_first(&mut self) -> Result<()>;

    /// Moves to the last record.
    fn seek_to_last(&mut self) -> Result<()>;

    /// Moves to the first record at or after `(key, trailer)`.
    ///
    /// `Trailer::seek(s)` finds the newest record of `key` visible at `s`, or whatever follows.
    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()>;

    /// Moves to the last record before `(key, trailer)`.
    fn seek_before(&mut self, key: &[u8], trailer: Trailer) -> Result<()>;

    /// Moves to the following record. Needs `valid`.
    fn next(&mut self) -> Result<()>;

    /// Moves to the preceding record. Needs `valid`.
    fn prev(&mut self) -> Result<()>;

    /// The user key. Needs `valid`; good until the cursor moves.
    fn key(&self) -> &[u8];

    /// Sequence number and kind. Needs `valid`.
    fn trailer(&self) -> Trailer;

    /// The value. Needs `valid`; good until the cursor moves.
    fn value(&self) -> &[u8];
}

/// How many blocks a cursor has gone to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlocksRead {
    /// All of them.
    pub walked: u64,
    /// Those that were not in the cache.
    pub loaded: u64,
}

impl std::ops::Add for BlocksRead {
    type Output = BlocksRead;

    fn add(self, more: BlocksRead) -> BlocksRead {
        let BlocksRead { walked, loaded } = self;
        BlocksRead { walked: walked + more.walked, loaded: loaded + more.loaded }
    }
}

impl std::iter::Sum for BlocksRead {
    fn sum<I: Iterator<Item = BlocksRead>>(parts: I) -> BlocksRead {
        parts.fold(BlocksRead::default(), std::ops::Add::add)
    }
}

/// The record that a step forward led to.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The user key.
    pub key: &'a [u8],
    /// Sequence number and kind.
    pub trailer: Trailer,
    /// The user key is, byte for byte, that of the record the step came from.
    pub repeats: bool,
}

/// A cursor that says at once where a step forward led, which costs less than to ask for each part.
pub trait Advance: Cursor {
    /// As `next`; `None` if no record follows.
    fn advance(&mut self) -> Result<Option<Step<'_>>>;
}

//! Digest: the beginnings of a table's keys, from which an index is made without reading the table.
//!
//! A key is cut where it differs from its neighbours in the table, and a little later, so that it
//! also differs from keys of other tables. The first and the last key stand whole: what comes
//! before and after them in other tables of the run is not known.
//! Format: docs/format/table.md.

use super::entry::{Coded, Prefix, PrefixBuf, Slots, put_coded, shorten};
use super::unite::Entries;
use esker_base::key::shared_prefix_len;
use esker_base::{Error, Result};
use std::ops::Range;

/// Bytes of a block from which the next one is begun.
const BLOCK_BYTES: usize = 64 << 10;

/// Bytes that a key keeps behind the place where it differs from its neighbours. A store may hold
/// many times the keys of one table: three bytes tell apart the keys of a table in a store of some
/// thousand times its keys.
const BYTES_MORE: usize = 3;

/// Gathers the digest of the table that is being built.
#[derive(Debug, Default)]
pub(crate) struct DigestBuilder {
    bytes: Vec<u8>,
    /// Where the blocks before the one at hand end.
    ends: Vec<usize>,
    /// The newest key, and what it shares with the one before; not coded before the next one is
    /// known.
    pending: Vec<u8>,
    shared: usize,
    /// As it was coded last; empty at the start of a block.
    coded: PrefixBuf,
    keys: u64,
}

impl DigestBuilder {
    /// Adds a key after all before it.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8]) {
        if self.keys > 0 {
            let shared = shared_prefix_len(&self.pending, key);
            let whole = Prefix { bytes: &self.pending, exact: true };
            let first = self.keys == 1;
            let prefix = match first {
                true => whole,
                false => shorten(whole, self.shared.max(shared) + 1 + BYTES_MORE),
            };
            put(&mut self.bytes, &mut self.coded, prefix);
            self.shared = shared;
            let start = self.ends.last().copied().unwrap_or(0);
            if self.bytes.len() - start >= BLOCK_BYTES {
                self.ends.push(self.bytes.len());
                self.coded.bytes.clear();
            }
        }
        self.pending.clear();
        self.pending.extend_from_slice(key);
        self.keys += 1;
    }

    /// Bytes so far.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The blocks, in their order. There is one at least.
    pub(crate) fn finish(&mut self) -> impl Iterator<Item = &[u8]> {
        if self.keys > 0 {
            let prefix = Prefix { bytes: &self.pending, exact: true };
            put(&mut self.bytes, &mut self.coded, prefix);
        }
        if self.ends.last() != Some(&self.bytes.len()) {
            self.ends.push(self.bytes.len());
        }
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let ranges = starts.zip(&self.ends).map(|(start, &end)| Range { start, end });
        ranges.map(|range| &self.bytes[range])
    }
}

fn put(out: &mut Vec<u8>, coded: &mut PrefixBuf, prefix: Prefix<'_>) {
    put_coded(out, shared_prefix_len(&coded.bytes, prefix.bytes), prefix);
    coded.set(prefix);
}

/// Where a digest is read from.
pub(crate) trait DigestSource {
    /// Puts the next block into `block`, which is empty. False if there is none.
    fn next_block(&mut self, block: &mut Vec<u8>) -> Result<bool>;

    /// The error that says so of the block read last.
    fn damaged(&self, what: &'static str) -> Error;
}

/// Walks digests of tables that follow each other, block by block.
pub(crate) struct DigestCursor<S> {
    source: S,
    block: Vec<u8>,
    at: usize,
    prefix: PrefixBuf,
    begun: bool,
    slots: Slots,
}

impl<S: DigestSource> DigestCursor<S> {
    /// Stands before the first entry. Every entry names `slots`.
    pub(crate) fn new(source: S, slots: Slots) -> DigestCursor<S> {
        let prefix = PrefixBuf::default();
        DigestCursor { source, block: Vec::new(), at: 0, prefix, begun: false, slots }
    }

    /// Decodes the entry at hand.
    #[inline]
    fn step(&mut self) -> std::result::Result<(), &'static str> {
        let mut input = &self.block[self.at..];
        let coded = Coded::take(&mut input).ok_or("digest does not decode")?;
        if self.at == 0 {
            let whole = Prefix { bytes: coded.rest, exact: coded.exact };
            if coded.shared > 0 || self.begun && self.prefix.get().compare(whole).is_ge() {
                return Err("digest is out of order");
            }
            self.prefix.set(whole);
        } else {
            // What is shared is all that could be, so that the next byte decides.
            let ascends = match self.prefix.bytes.get(coded.shared) {
                Some(byte) => coded.rest.first() > Some(byte),
                None => !coded.rest.is_empty(),
            };
            if !ascends || !coded.follow(&mut self.prefix) {
                return Err("digest is out of order");
            }
        }
        self.at = self.block.len() - input.len();
        self.begun = true;
        Ok(())
    }
}

impl<S: DigestSource> Entries for DigestCursor<S> {
    fn advance(&mut self) -> Result<bool> {
        while self.at == self.block.len() {
            self.block.clear();
            self.at = 0;
            if !self.source.next_block(&mut self.block)? {
                return Ok(false);
            }
        }
        self.step().map_err(|what| self.source.damaged(what))?;
        Ok(true)
    }

    #[inline]
    fn prefix(&self) -> Prefix<'_> {
        self.prefix.get()
    }

    #[inline]
    fn slots(&self) -> Slots {
        self.slots
    }
}

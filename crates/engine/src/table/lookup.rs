//! Point lookups in a table.
//!
//! Flow: top index -> filter of the partition -> index of the partition -> data block. A lookup
//! comes in two halves, so that one in many tables can have the memory of all of them fetched
//! before it waits for any.

use super::filter::{FilterLine, Probes};
use super::reader::TableReader;
use crate::stats::TableCounter;
use crate::value::Value;
use esker_base::key::SEQ_MAX;
use esker_base::pages::prefetch;
use esker_base::{Result, Seq, Trailer};
use std::sync::Arc;

/// Where in a table a lookup goes on.
#[derive(Clone, Copy, Debug)]
pub struct Spot<'t> {
    /// As many as there are if no partition can hold the key.
    partition: usize,
    /// Of the partition's filter, if that is pinned.
    line: Option<FilterLine<'t>>,
}

impl Spot<'_> {
    /// True if a filter that is at hand says that the key is not there.
    #[inline]
    pub fn is_denied(&self, probes: &mut Probes) -> bool {
        self.line.is_some_and(|line| !probes.may_be_in(line))
    }
}

/// What records are looked for from, the newest that may be seen; `None` if none may be.
#[inline]
fn seek_trailer(seq: Seq, seq_override: Option<Seq>) -> Option<Trailer> {
    match seq_override {
        None => Some(Trailer::seek(seq)),
        Some(all) => (all <= seq).then_some(Trailer::seek(SEQ_MAX)),
    }
}

impl TableReader {
    /// The newest point record of `key` with a sequence number of at most `seq`.
    ///
    /// `hash` is `checksum::hash64(key)`. With `seq_override` every record of the table reads as
    /// that sequence number (an ingested table, which holds one record a key). Range tombstones are
    /// the caller's business.
    ///
    /// # Errors
    /// `Corruption` naming the block, `Io`.
    /// # Cost
    /// Warm: a cache line of filter, two binary searches, one block. No allocation in bytewise
    /// order. Cold: up to three reads.
    pub fn get(
        &self,
        key: &[u8],
        hash: u64,
        seq: Seq,
        seq_override: Option<Seq>,
    ) -> Result<Option<(Trailer, Value)>> {
        let mut probes = Probes::new(hash);
        let spot = self.approach(key, &probes, seq, seq_override);
        self.get_at(&spot, key, &mut probes, seq, seq_override)
    }

    /// The first half of [`TableReader::get`]: finds the partition, and has the line of its filter
    /// and the head of its index fetched from memory, without waiting for them.
    #[inline]
    pub fn approach(
        &self,
        key: &[u8],
        probes: &Probes,
        seq: Seq,
        seq_override: Option<Seq>,
    ) -> Spot<'_> {
        let Some(trailer) = seek_trailer(seq, seq_override) else {
            return Spot { partition: self.top.partitions.len(), line: None };
        };
        let partition = self.top.separators.lower_bound(&self.order, key, trailer);
        let mut line = None;
        if let Some(pins) = self.pins.get(partition) {
            if let Some(filter) = pins.filter.get().filter(|_| self.asks_filters) {
                line = filter.line(probes);
            }
            if let Some(index) = pins.index.get() {
                prefetch(Arc::as_ptr(index));
            }
        }
        Spot { partition, line }
    }

    /// The second half of [`TableReader::get`], for what was approached.
    ///
    /// # Errors
    /// As [`TableReader::get`].
    pub fn get_at(
        &self,
        spot: &Spot<'_>,
        key: &[u8],
        probes: &mut Probes,
        seq: Seq,
        seq_override: Option<Seq>,
    ) -> Result<Option<(Trailer, Value)>> {
        let partition = spot.partition;
        let Some(handles) = self.top.partitions.get(partition) else { return Ok(None) };
        let Some(trailer) = seek_trailer(seq, seq_override) else { return Ok(None) };
        let counters = self.counters.local();
        let filtered = self.asks_filters && handles.filter.is_some();
        if filtered {
            counters.add(TableCounter::FilterChecks, 1);
            // Both are far away, and are fetched side by side.
            if let Some(index) = self.pins.get(partition).and_then(|pins| pins.index.get()) {
                index.warm();
            }
            let may_contain = match spot.line {
                Some(line) => probes.may_be_in(line),
                None => self.may_contain(partition, probes, key)?,
            };
            if !may_contain {
                counters.add(TableCounter::FilterNegatives, 1);
                return Ok(None);
            }
        }
        let found = {
            let index = self.index_held(partition)?;
            let at = index.find(&self.order, key, trailer);
            if at >= index.len() {
                return Err(self.index_mismatch(partition));
            }
            let block = match self.cached_data(&index, at) {
                Some(block) => {
                    counters.add(TableCounter::BlockCacheHits, 1);
                    block
                }
                None => {
                    counters.add(TableCounter::BlockCacheMisses, 1);
                    let block = self.load_data(index.handle(at))?;
                    self.cache_data(&index, at, &block);
                    block
                }
            };
            let found = block.get(&self.order, key, trailer);
            found.map_err(|d| self.damaged(index.handle(at), d))?
        };
        match found {
            Some((trailer, value)) => {
                let trailer = seq_override.map_or(trailer, |all| trailer.with_seq(all));
                Ok(Some((trailer, value)))
            }
            None => {
                if filtered {
                    counters.add(TableCounter::FilterFalsePositives, 1);
                }
                Ok(None)
            }
        }
    }
}

//! References: which values of which logs the records of a table point to.
//!
//! Whoever moves the values of a log asks the tables that point into it which of them still do, and
//! need not look for their keys. Sorted by log and place, in small blocks, so that the part about a
//! few logs is read alone.
//! Format: docs/format/table.md.
//! Source: the liveness blocks of Pebble's tables; ours name places instead of counting them, so
//! that values need no numbers.

use super::reader::TableReader;
use crate::block::Damage;
use crate::log::ValuePointer;
use esker_base::Result;
use esker_base::coding::{put_varint, take_varint};
use esker_base::key::SEQ_MAX;
use std::collections::HashMap;

/// Bytes of a block from which the next one is begun.
const BLOCK_BYTES: usize = 8 << 10;

/// Offsets take so many bits of a gathered reference: files with values are far shorter.
const OFFSET_BITS: u32 = 40;

/// How much of a log a table points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogShare {
    /// Number of the log.
    pub log: u64,
    /// Bytes of the records there.
    pub bytes: u64,
}

/// Gathers the references of the table that is being built: eight bytes for each.
#[derive(Debug, Default)]
pub(super) struct ReferenceBuilder {
    /// Which of `shares` the log is, and the offset.
    packed: Vec<u64>,
    shares: Vec<LogShare>,
    by_log: HashMap<u64, usize>,
    newest: usize,
}

impl ReferenceBuilder {
    pub(super) fn add(&mut self, pointer: &ValuePointer) {
        assert!(pointer.offset_bytes >> OFFSET_BITS == 0, "a file with values is below 1 TiB");
        if self.shares.get(self.newest).is_none_or(|share| share.log != pointer.log) {
            let shares = &mut self.shares;
            self.newest = *self.by_log.entry(pointer.log).or_insert_with(|| {
                shares.push(LogShare { log: pointer.log, bytes: 0 });
                shares.len() - 1
            });
        }
        self.shares[self.newest].bytes += pointer.record_bytes();
        self.packed.push((self.newest as u64) << OFFSET_BITS | pointer.offset_bytes);
    }

    /// What is pointed to of each log, ascending; and the blocks, each with the log it begins with.
    pub(super) fn finish(mut self) -> (Vec<LogShare>, Vec<(u64, Vec<u8>)>) {
        let mut order: Vec<usize> = (0..self.shares.len()).collect();
        order.sort_unstable_by_key(|&nth| self.shares[nth].log);
        let mut rank = vec![0u64; order.len()];
        for (to, &from) in order.iter().enumerate() {
            rank[from] = to as u64;
        }
        let offset_mask = (1u64 << OFFSET_BITS) - 1;
        for packed in &mut self.packed {
            *packed =
                rank[(*packed >> OFFSET_BITS) as usize] << OFFSET_BITS | *packed & offset_mask;
        }
        self.packed.sort_unstable();
        self.packed.dedup();
        let shares: Vec<LogShare> = order.iter().map(|&nth| self.shares[nth]).collect();
        let mut blocks: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut before = None;
        for &packed in &self.packed {
            let (log, offset) =
                (shares[(packed >> OFFSET_BITS) as usize].log, packed & offset_mask);
            if blocks.last().is_none_or(|(_, block)| block.len() >= BLOCK_BYTES) {
                blocks.push((log, Vec::with_capacity(BLOCK_BYTES + 16)));
                before = None;
            }
            let block = &mut blocks.last_mut().expect("just made").1;
            match before {
                Some((same, from)) if same == log => put_varint(block, offset - from),
                _ => {
                    // No value stands at the very beginning of a file, and none twice at a place.
                    put_varint(block, 0);
                    put_varint(block, log);
                    put_varint(block, offset);
                }
            }
            before = Some((log, offset));
        }
        (shares, blocks)
    }
}

/// Calls `found` with log and offset of each reference of a block, in order.
///
/// # Errors
/// The block does not decode.
pub(super) fn decode_block(
    mut block: &[u8],
    mut found: impl FnMut(u64, u64),
) -> std::result::Result<(), &'static str> {
    const BROKEN: &str = "a block of references does not decode";
    let bounded = |number: &u64| *number <= SEQ_MAX;
    let mut at: Option<(u64, u64)> = None;
    while !block.is_empty() {
        let step = take_varint(&mut block).filter(bounded).ok_or(BROKEN)?;
        let next = match (step, at) {
            (0, _) => {
                let log = take_varint(&mut block).filter(bounded).ok_or(BROKEN)?;
                let offset = take_varint(&mut block).filter(bounded).ok_or(BROKEN)?;
                (log, offset)
            }
            (step, Some((log, offset))) => (log, offset + step),
            (_, None) => return Err(BROKEN),
        };
        if at.is_some_and(|before| before >= next) || !bounded(&next.1) {
            return Err(BROKEN);
        }
        found(next.0, next.1);
        at = Some(next);
    }
    Ok(())
}

impl TableReader {
    /// Calls `found` with the log and the place of each value that the table points to in the logs
    /// from `first` to `last`, in order.
    ///
    /// # Errors
    /// `Corruption` naming the block; `Io`.
    /// # Cost
    /// Reads the blocks that speak of these logs.
    pub(crate) fn references(
        &self,
        first: u64,
        last: u64,
        mut found: impl FnMut(u64, u64),
    ) -> Result<()> {
        let blocks = &self.properties().references;
        let after = blocks.partition_point(|block| block.log < first);
        // The one before may go on into this log.
        let from = after.saturating_sub(1);
        for block in blocks[from..].iter().take_while(|block| block.log <= last) {
            let payload = self.read(block.handle)?;
            let decoded = decode_block(payload.bytes(), |log, offset| {
                if (first..=last).contains(&log) {
                    found(log, offset);
                }
            });
            decoded.map_err(|what| self.damaged(block.handle, Damage(what)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointers() -> Vec<ValuePointer> {
        let mut state = 7u64;
        let mut all = Vec::new();
        for nth in 0..20_000u64 {
            state = esker_base::checksum::mix64(state.wrapping_add(nth));
            let log = [3, 9, 10, 4_000][(state % 4) as usize];
            let offset_bytes = 40 + nth * 1_009;
            all.push(ValuePointer { log, offset_bytes, stored_bytes: 1_000 });
        }
        // Keys come in another order than values.
        all.sort_by_key(|p| esker_base::checksum::mix64(p.offset_bytes));
        all
    }

    #[test]
    fn what_comes_back_is_what_was_added_in_order() {
        let mut builder = ReferenceBuilder::default();
        let mut all = pointers();
        all.iter().for_each(|pointer| builder.add(pointer));
        all.sort();
        let (shares, blocks) = builder.finish();
        assert!(blocks.len() > 3, "{} blocks", blocks.len());
        let mut found = Vec::new();
        for (first, block) in &blocks {
            let begins_at = found.len();
            decode_block(block, |log, offset| found.push((log, offset))).expect("decodes");
            assert_eq!(found[begins_at].0, *first);
        }
        let expected: Vec<_> = all.iter().map(|p| (p.log, p.offset_bytes)).collect();
        assert_eq!(found, expected);
        let logs: Vec<u64> = shares.iter().map(|share| share.log).collect();
        assert_eq!(logs, [3, 9, 10, 4_000]);
        assert_eq!(shares.iter().map(|share| share.bytes).sum::<u64>(), 20_000 * 1_009);
    }

    #[test]
    fn no_bytes_make_decoding_panic_or_go_backwards() {
        let mut builder = ReferenceBuilder::default();
        pointers().iter().take(40).for_each(|pointer| builder.add(pointer));
        let (_, blocks) = builder.finish();
        let good = &blocks[0].1;
        for at in 0..good.len() {
            for flip in [1u8, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] ^= flip;
                let mut last = (0, 0);
                let _ = decode_block(&bad, |log, offset| {
                    assert!((log, offset) > last);
                    last = (log, offset);
                });
            }
        }
        assert!(decode_block(&[1], |_, _| ()).is_err(), "no log to begin with");
    }
}

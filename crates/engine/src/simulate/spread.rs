//! How records are spread over the key space: what tables hold, and what is left when they are
//! merged.
//!
//! Keys are numbers below 2^53, which floating point holds exactly. A table holds its records
//! evenly between its first and its last key; so a merge is a walk over the places where tables
//! begin and end.

use crate::version::{Table, TableMeta};
use std::sync::Arc;

/// Keys of the space.
pub(super) const KEYS: u64 = 1 << 53;

/// A table on paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) first: u64,
    /// The last key that belongs to it.
    pub(super) last: u64,
    pub(super) records: f64,
}

/// What keys there are, and how large tables are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    /// Different keys in the whole space; `None` if no key comes twice.
    pub(super) distinct: Option<f64>,
    /// Records after which a new table is started.
    pub(super) records_max: f64,
}

pub(super) fn key(number: u64) -> Box<[u8]> {
    number.to_be_bytes().into()
}

/// The number that [`key`] wrote.
fn number(key: &[u8]) -> u64 {
    key.try_into().map_or(0, u64::from_be_bytes)
}

impl Piece {
    /// A table of records of so many bytes: of large ones it may hold a part.
    pub(super) fn of(table: &Arc<Table>, record_bytes: u64) -> Piece {
        let TableMeta { smallest, largest, file_bytes, .. } = &table.meta;
        let records = *file_bytes as f64 / record_bytes as f64;
        Piece { first: number(smallest), last: number(largest), records }
    }

    /// The first key after it.
    fn end(&self) -> f64 {
        self.last as f64 + 1.0
    }

    /// Records for each key of its range.
    fn density(&self) -> f64 {
        self.records / (self.end() - self.first as f64)
    }
}

impl Spread {
    /// Records that so many writes over `share` of the key space leave, when keys that come again
    /// replace each other.
    pub(super) fn left(&self, writes: f64, share: f64) -> f64 {
        match self.distinct {
            None => writes,
            Some(distinct) => {
                let keys = (distinct * share).max(1.0);
                keys * (1.0 - (-writes / keys).exp())
            }
        }
    }

    /// The tables that these make when they are merged.
    pub(super) fn merge(&self, inputs: &[Piece]) -> Vec<Piece> {
        let mut cutter = Cutter { records_max: self.records_max, open: None, done: Vec::new() };
        let mut begins: Vec<&Piece> = inputs.iter().collect();
        begins.sort_by_key(|piece| piece.first);
        let mut begins = begins.into_iter().peekable();
        let mut active: Vec<&Piece> = Vec::new();
        let mut at = 0.0;
        loop {
            active.retain(|piece| piece.end() > at);
            if active.is_empty() {
                let Some(next) = begins.peek() else { break };
                at = next.first as f64;
            }
            while let Some(next) = begins.next_if(|piece| piece.first as f64 <= at) {
                active.push(next);
            }
            let ends = active.iter().map(|piece| piece.end());
            let next = begins.peek().map(|piece| piece.first as f64);
            let end = ends.chain(next).fold(f64::INFINITY, f64::min);
            cutter.add(at, end, self.merged(&active, end - at));
            at = end;
        }
        cutter.finish()
    }

    /// Records of `active` tables in a stretch of so many keys, each key once.
    fn merged(&self, active: &[&Piece], width: f64) -> f64 {
        let parts = active.iter().map(|piece| piece.density() * width);
        match self.distinct {
            None => parts.sum(),
            Some(distinct) => {
                let keys = distinct * (width / KEYS as f64);
                let absent: f64 = parts.map(|part| 1.0 - (part / keys).min(1.0)).product();
                keys * (1.0 - absent)
            }
        }
    }
}

/// Cuts a run into tables.
struct Cutter {
    records_max: f64,
    /// Where the present table starts, where it ends so far, and its records.
    open: Option<(f64, f64, f64)>,
    done: Vec<Piece>,
}

impl Cutter {
    /// So many records between two places that follow the last.
    fn add(&mut self, mut from: f64, to: f64, mut records: f64) {
        while to > from {
            let (start, held) = self.open.map_or((from, 0.0), |(start, _, held)| (start, held));
            let room = self.records_max - held;
            if records <= room {
                self.open = Some((start, to, held + records));
                return;
            }
            // Whole keys only, and at least one, so that every table has a range of its own.
            let cut = (from + (to - from) * (room / records)).ceil().max(from + 1.0).min(to);
            let share = (cut - from) / (to - from) * records;
            self.open = Some((start, cut, held + share));
            self.close();
            records -= share;
            from = cut;
        }
    }

    fn close(&mut self) {
        if let Some((start, end, records)) = self.open.take() {
            self.done.push(Piece { first: start as u64, last: end as u64 - 1, records });
        }
    }

    fn finish(mut self) -> Vec<Piece> {
        self.close();
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(first: u64, last: u64, records: f64) -> Piece {
        Piece { first, last, records }
    }

    fn total(pieces: &[Piece]) -> f64 {
        pieces.iter().map(|piece| piece.records).sum()
    }

    #[test]
    fn keys_that_come_once_add_up() {
        let spread = Spread { distinct: None, records_max: 100.0 };
        let merged = spread.merge(&[
            piece(0, 999, 300.0),
            piece(500, 1_499, 200.0),
            piece(5_000, 5_099, 50.0),
        ]);
        assert!((total(&merged) - 550.0).abs() < 1e-6, "{merged:?}");
        assert_eq!(merged.len(), 6, "five full ones and the rest: {merged:?}");
        assert!(merged[..5].iter().all(|piece| (piece.records - 100.0).abs() < 1.0));
        assert!(merged.windows(2).all(|pair| pair[0].last < pair[1].first), "{merged:?}");
        assert_eq!((merged[0].first, merged[5].last), (0, 5_099));
        // Twice as many lie where both are: a fifth of a table to each key, and a half.
        assert_eq!((merged[0].last, merged[1].first), (333, 334));
    }

    #[test]
    fn keys_that_come_again_replace_each_other() {
        let spread = Spread { distinct: Some(1_000.0), records_max: 1e9 };
        let half = |first, last| piece(first, last, 500.0);
        let merged = spread.merge(&[half(0, KEYS - 1), half(0, KEYS - 1)]);
        assert!((total(&merged) - 750.0).abs() < 1e-6, "half of each half is new: {merged:?}");
        // All there are, in half of the space: the other table brings nothing new there.
        let merged = spread.merge(&[half(0, KEYS / 2 - 1), half(0, KEYS - 1)]);
        assert!((total(&merged) - 750.0).abs() < 1e-6, "{merged:?}");
        assert!((spread.left(1e9, 1.0) - 1_000.0).abs() < 1e-6);
        assert!((spread.left(10.0, 1.0) - 10.0).abs() < 0.1);
    }

    #[test]
    fn tables_of_few_keys_have_ranges_of_their_own() {
        let spread = Spread { distinct: None, records_max: 1.0 };
        let merged = spread.merge(&[piece(7, 9, 30.0), piece(12, 12, 5.0)]);
        assert!(merged.windows(2).all(|pair| pair[0].last < pair[1].first), "{merged:?}");
        assert!(merged.len() <= 4 && (total(&merged) - 35.0).abs() < 1e-6, "{merged:?}");
    }

    #[test]
    fn numbers_are_keys_in_their_order() {
        assert!(key(255) < key(256) && number(&key(KEYS - 1)) == KEYS - 1);
    }
}

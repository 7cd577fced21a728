//! Pieces of a file that values are read from in the order in which they stand.

use crate::log::{RECORD_HEADER_BYTES, ValueSource};
use esker_base::Result;
use std::ops::Range;

/// The most that is read at once, but for a single value that is longer.
pub(super) const PIECE_BYTES_MAX: u64 = 1 << 20;

/// What lies between two values is read along if it is no longer than this.
const GAP_BYTES_MAX: u64 = 64 << 10;

/// Read behind the beginning of the last value of a piece, whose length is not known yet.
const TAIL_BYTES: u64 = 16 << 10;

/// A part of a file that was read.
#[derive(Debug, Default)]
pub(super) struct Piece {
    at: u64,
    pub(super) bytes: Vec<u8>,
}

impl Piece {
    /// The bytes of the file from `at`, if so many are here.
    pub(super) fn window(&self, at: u64, len: u64) -> Option<&[u8]> {
        let start = usize::try_from(at.checked_sub(self.at)?).ok()?;
        let end = start.checked_add(usize::try_from(len).ok()?)?;
        self.bytes.get(start..end)
    }

    /// Reads so many bytes from `at`, or as many as there are. Empty after an error.
    pub(super) fn fill(&mut self, source: &ValueSource<'_>, at: u64, len: u64) -> Result<()> {
        let mut len = len.min(source.file_bytes.saturating_sub(at));
        if len > PIECE_BYTES_MAX {
            // A length from the disk is believed as far as the file goes.
            len = len.min(source.file.len_bytes()?.saturating_sub(at));
        }
        self.bytes.resize(len as usize, 0);
        let read = source.file.read_at(at, &mut self.bytes).inspect_err(|_| self.bytes.clear())?;
        self.bytes.truncate(read);
        self.at = at;
        Ok(())
    }

    /// Reads so many bytes, or where these cannot be read as many as are needed: what is wrong may
    /// lie between values, or in one that nobody asks for.
    fn fill_ahead(
        &mut self,
        source: &ValueSource<'_>,
        at: u64,
        (wanted, needed): (u64, u64),
    ) -> Result<()> {
        match self.fill(source, at, wanted.max(needed)) {
            Err(_) if wanted > needed => self.fill(source, at, needed),
            filled => filled,
        }
    }

    /// The codec of the value at `places[nth]`, and where its stored bytes are in this piece. Reads
    /// on if they are not.
    pub(super) fn find(
        &mut self,
        source: &ValueSource<'_>,
        places: &[u64],
        nth: usize,
    ) -> Result<(u8, Range<usize>)> {
        let at = places[nth];
        let header_bytes = RECORD_HEADER_BYTES as u64;
        if self.window(at, header_bytes).is_none() {
            self.fill_ahead(source, at, (piece_bytes(&places[nth..]), header_bytes))?;
        }
        let len = self.window(at, header_bytes).and_then(ValueSource::record_bytes);
        let len = len.filter(|len| at.checked_add(*len).is_some_and(|e| e <= source.file_bytes));
        let Some(len) = len else { return Err(source.damaged(at, "a value is cut short")) };
        if self.window(at, len).is_none() {
            self.fill_ahead(source, at, (piece_bytes(&places[nth..]), len))?;
        }
        self.record(source, at, len)
    }

    /// The codec of the value whose record of this length begins at `at`, and where its stored
    /// bytes are in this piece.
    ///
    /// # Errors
    /// `Corruption` if that is not in this piece, or no value.
    pub(super) fn record(
        &self,
        source: &ValueSource<'_>,
        at: u64,
        len: u64,
    ) -> Result<(u8, Range<usize>)> {
        let record = self.window(at, len);
        let record = record.ok_or_else(|| source.damaged(at, "a value is cut short"))?;
        let codec = source.check(at, record)?;
        let start = (at - self.at) as usize;
        Ok((codec, start + RECORD_HEADER_BYTES..start + len as usize))
    }
}

/// How much is read from the first of these places: up to the last that follows closely.
fn piece_bytes(places: &[u64]) -> u64 {
    debug_assert!(places.is_sorted(), "places ascend");
    let Some(&first) = places.first() else { return 0 };
    let mut last = first;
    for &place in &places[1..] {
        if place - last > GAP_BYTES_MAX || place - first > PIECE_BYTES_MAX - TAIL_BYTES {
            break;
        }
        last = place;
    }
    last - first + TAIL_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_ends_at_a_gap_or_when_it_is_long() {
        assert_eq!(piece_bytes(&[40]), TAIL_BYTES);
        assert_eq!(piece_bytes(&[40, 5_040, 10_040]), 10_000 + TAIL_BYTES);
        assert_eq!(piece_bytes(&[40, 5_040, 5_041 + GAP_BYTES_MAX]), 5_000 + TAIL_BYTES);
        let many: Vec<u64> = (0..1_000).map(|nth| 40 + nth * 5_000).collect();
        let bytes = piece_bytes(&many);
        assert!(bytes <= PIECE_BYTES_MAX && bytes > PIECE_BYTES_MAX - 5_000, "{bytes}");
    }
}

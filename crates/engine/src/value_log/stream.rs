//! Reading values in the order of their keys, one after the other, ahead where they stand in that order too.

use super::file::{OpenedFile, ValueFile};
use super::piece::{PIECE_BYTES_MAX, Piece};
use crate::block::expand_into;
use crate::log::ValuePointer;
use esker_base::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// A value that begins so closely behind the one before is read as if it followed: a batch lies between.
const GAP_BYTES_MAX: u64 = 4 << 10;

/// What is read at once where a value follows the one before, to begin with.
const AHEAD_BYTES_MIN: u64 = 64 << 10;

/// Reads values for a cursor.
///
/// Values that were written in the order of their keys are read in pieces that double as long as that goes on; others one by
/// one. So no more than as much again is read in vain.
#[derive(Debug, Default)]
pub(crate) struct ValueStream {
    /// The file that was read last.
    file: Option<(Arc<ValueFile>, Arc<OpenedFile>)>,
    piece: Piece,
    /// Where the value that was read last ends.
    end: u64,
    /// Bytes that were read at once, if that was ahead.
    ahead_bytes: u64,
    /// Where in the piece the value is, unless it was compressed.
    range: Range<usize>,
    /// What was compressed, at the front of what was there before.
    expanded: Vec<u8>,
    expanded_bytes: Option<usize>,
}

impl ValueStream {
    /// Reads the value that a pointer into this file leads to.
    ///
    /// What is read ahead may be newer than what the cursor sees, and never what it is going to ask for: that was there before
    /// the cursor was.
    ///
    /// # Errors
    /// As [`ValueFile::read`].
    pub(crate) fn read(&mut self, file: &Arc<ValueFile>, to: &ValuePointer) -> Result<()> {
        let opened = match &self.file {
            Some((known, opened)) if Arc::ptr_eq(known, file) => opened.clone(),
            _ => {
                let opened = file.opened()?;
                self.piece.clear();
                (self.end, self.ahead_bytes) = (u64::MAX, 0);
                self.file.insert((file.clone(), opened)).1.clone()
            }
        };
        let at = file.place_in(&opened, to)?;
        let source = file.source(&opened);
        let bytes = source.whole_bytes(at, to.stored_bytes)? as u64;
        if self.piece.window(at, bytes).is_none() {
            let follows = at.checked_sub(self.end).is_some_and(|gap| gap <= GAP_BYTES_MAX);
            let twice = (2 * self.ahead_bytes).clamp(AHEAD_BYTES_MIN, PIECE_BYTES_MAX);
            self.ahead_bytes = if follows { twice } else { 0 };
            let read = self.piece.fill(&source, at, bytes.max(self.ahead_bytes));
            if read.is_err() || self.piece.window(at, bytes).is_none() {
                // What is wrong may lie behind the value.
                self.ahead_bytes = 0;
                self.piece.fill(&source, at, bytes)?;
            }
        }
        self.end = at + bytes;
        let (codec, range) = self.piece.record(&source, at, bytes)?;
        self.expanded_bytes = match codec {
            0 => None,
            _ => {
                let stored = &self.piece.bytes[range.clone()];
                let expanded = expand_into(codec, stored, &mut self.expanded);
                Some(expanded.map_err(|damage| Error::corruption(file.path(), at, damage.0))?)
            }
        };
        self.range = range;
        Ok(())
    }

    /// The value that was read last.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        match self.expanded_bytes {
            Some(bytes) => &self.expanded[..bytes],
            None => self.piece.bytes.get(self.range.clone()).unwrap_or(&[]),
        }
    }
}

//! Reading many values of one file in the order in which they stand, in large pieces.

use super::file::{OpenedFile, ValueFile};
use super::piece::Piece;
use crate::block::expand;
use esker_base::heap::{Heap, SharedBytes};
use esker_base::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

impl ValueFile {
    /// Calls `found` with each of the values that were written to `log` at these places, which
    /// ascend: the place, the codec, and the bytes as they are stored.
    ///
    /// # Errors
    /// As [`ValueFile::read`]; of `found`.
    /// # Cost
    /// Reads in large pieces, front to back.
    pub(crate) fn read_all(
        self: &Arc<ValueFile>,
        log: u64,
        froms: &[u64],
        mut found: impl FnMut(u64, u8, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let opened = self.opened()?;
        let places = froms.iter().map(|&from| self.find(&opened, log, from));
        let places = places.collect::<Result<Vec<u64>>>()?;
        let source = self.source(&opened);
        let mut piece = Piece::default();
        for (nth, &from) in froms.iter().enumerate() {
            let (codec, range) = piece.find(&source, &places, nth)?;
            found(from, codec, &piece.bytes[range])?;
        }
        Ok(())
    }

    /// Reads values in the order in which they stand.
    pub(crate) fn sweep(self: &Arc<ValueFile>) -> Result<Sweep> {
        Ok(Sweep::new(self.clone(), self.opened()?))
    }
}

/// Reads values of one file for a scan.
pub(crate) struct Sweep {
    file: Arc<ValueFile>,
    opened: Arc<OpenedFile>,
    piece: Piece,
    /// Where in the piece the value is, unless it was compressed.
    range: Range<usize>,
    expanded: Option<SharedBytes>,
}

impl Sweep {
    pub(super) fn new(file: Arc<ValueFile>, opened: Arc<OpenedFile>) -> Sweep {
        Sweep { file, opened, piece: Piece::default(), range: 0..0, expanded: None }
    }

    /// Reads the value at `places[nth]`; places ascend, and are asked for in order.
    ///
    /// # Errors
    /// `Corruption` naming file and place; `Io`.
    pub(crate) fn read(&mut self, places: &[u64], nth: usize) -> Result<()> {
        let source = self.file.source(&self.opened);
        let (codec, range) = self.piece.find(&source, places, nth)?;
        self.file.count_read(range.len() as u64);
        self.expanded = None;
        if codec != 0 {
            let expanded = expand(&Heap::global(), codec, &self.piece.bytes[range.clone()]);
            let damaged = |what| Error::corruption(self.file.path(), places[nth], what);
            self.expanded = Some(expanded.map_err(|damage| damaged(damage.0))?);
        }
        self.range = range;
        Ok(())
    }

    /// The value that was read last.
    pub(crate) fn value(&self) -> &[u8] {
        match &self.expanded {
            Some(bytes) => bytes,
            None => &self.piece.bytes[self.range.clone()],
        }
    }
}

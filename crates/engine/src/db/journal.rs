//! Where batches are logged before they are in memtables: the store's own log, or nowhere.

use crate::log::{HEADER_BYTES, Writer};
use esker_base::Result;

/// Where batches are logged.
pub(super) enum Journal {
    Wal(Writer),
    /// Whoever applies requests has them in a log of its own.
    External,
}

impl Journal {
    /// The log that is written.
    #[inline]
    pub(super) fn wal(&mut self) -> Option<&mut Writer> {
        match self {
            Journal::Wal(writer) => Some(writer),
            Journal::External => None,
        }
    }

    /// True if it takes no more records.
    #[inline]
    pub(super) fn is_broken(&self) -> bool {
        match self {
            Journal::Wal(writer) => writer.is_broken(),
            Journal::External => false,
        }
    }

    /// True if a log holds a record, or a part of one.
    pub(super) fn has_records(&self) -> bool {
        match self {
            Journal::Wal(writer) => {
                writer.is_broken() || writer.records_end() > HEADER_BYTES as u64
            }
            Journal::External => false,
        }
    }

    #[inline]
    pub(super) fn append(&mut self, record: &[u8]) -> Result<()> {
        self.wal().map_or(Ok(()), |writer| writer.append(record))
    }

    /// Bytes of the log.
    #[inline]
    pub(super) fn len_bytes(&self) -> u64 {
        match self {
            Journal::Wal(writer) => writer.len_bytes(),
            Journal::External => 0,
        }
    }

    pub(super) fn sync(&mut self) -> Result<()> {
        self.wal().map_or(Ok(()), Writer::sync)
    }

    /// Ends the log: all of it is durable when this returns.
    pub(super) fn close(self) -> Result<()> {
        let Journal::Wal(mut writer) = self else { return Ok(()) };
        writer.sync_last()?;
        writer.finish()
    }
}

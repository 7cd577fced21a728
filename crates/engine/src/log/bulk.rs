//! Writes a log in large pieces: one that counts for nothing before it is finished.

use super::format::{LogHeader, RecordType, record_header};
use esker_base::vfs::WritableFile;
use esker_base::{Result, Vfs};
use std::path::Path;

/// Bytes gathered before they are handed to the file.
const WRITE_BYTES: usize = 1 << 20;

/// Writes one log, front to back. Until [`BulkWriter::finish`] has returned, the file is worth
/// nothing.
#[derive(Debug)]
pub(crate) struct BulkWriter {
    file: Box<dyn WritableFile>,
    salt: u64,
    /// Where the first byte of `out` will stand.
    written_bytes: u64,
    out: Vec<u8>,
}

impl BulkWriter {
    /// Creates the file. Nothing of it is durable before the end.
    pub(crate) fn create(vfs: &dyn Vfs, path: &Path, header: LogHeader) -> Result<BulkWriter> {
        let file = vfs.create(path)?;
        Ok(BulkWriter { file, salt: header.salt, written_bytes: 0, out: header.encode() })
    }

    /// Bytes so far.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.written_bytes + self.out.len() as u64
    }

    /// Adds a value as `codec` left it. Returns where its record begins.
    pub(crate) fn append_value(&mut self, codec: u8, stored: &[u8]) -> Result<u64> {
        self.append(RecordType::Value { codec }, stored)
    }

    /// Adds a record that is no value. Returns where it begins.
    pub(crate) fn append_data(&mut self, payload: &[u8]) -> Result<u64> {
        self.append(RecordType::Data, payload)
    }

    fn append(&mut self, kind: RecordType, payload: &[u8]) -> Result<u64> {
        let at = self.len_bytes();
        let header = record_header(self.salt, at, kind, payload);
        self.out.extend_from_slice(&header);
        if payload.len() < WRITE_BYTES {
            self.out.extend_from_slice(payload);
        } else {
            self.file.append_parts(&[&self.out, payload])?;
            self.written_bytes = at + (header.len() + payload.len()) as u64;
            self.out.clear();
        }
        if self.out.len() >= WRITE_BYTES {
            self.write_out()?;
        }
        Ok(at)
    }

    fn write_out(&mut self) -> Result<()> {
        self.file.append(&self.out)?;
        self.written_bytes += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }

    /// Makes all of it durable and closes the file; its name is up to the caller. Returns its
    /// length.
    pub(crate) fn finish(mut self) -> Result<u64> {
        self.write_out()?;
        self.file.sync()?;
        let file_bytes = self.file.len_bytes();
        assert!(file_bytes == self.written_bytes, "a log is as long as was written");
        self.file.finish()?;
        Ok(file_bytes)
    }
}

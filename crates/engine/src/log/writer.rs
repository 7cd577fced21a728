//! Appends records to a log.

use super::format::{LogHeader, RecordType, mark_payload, record_header};
use esker_base::vfs::WritableFile;
use esker_base::{Result, Vfs};
use std::path::Path;

/// Writes one log, front to back.
///
/// After an error of `append` the file may end in half a record: nothing more may be appended, the
/// owner starts a new log. After an error of `sync` nothing is known about what was appended.
#[derive(Debug)]
pub(crate) struct Writer {
    file: Box<dyn WritableFile>,
    salt: u64,
    /// Length at the last sync.
    durable_bytes: u64,
}

impl Writer {
    /// Creates the file and makes its header durable. The caller syncs the directory.
    pub(crate) fn create(
        vfs: &dyn Vfs,
        path: &Path,
        header: LogHeader,
        reserve_bytes: u64,
    ) -> Result<Writer> {
        let mut file = vfs.create_log(path, reserve_bytes)?;
        file.append(&header.encode())?;
        file.sync()?;
        let durable_bytes = file.len_bytes();
        Ok(Writer { file, salt: header.salt, durable_bytes })
    }

    /// Adds a record. It survives the death of the process when this returns.
    #[inline]
    pub(crate) fn append(&mut self, payload: &[u8]) -> Result<()> {
        self.append_record(RecordType::Data, payload)
    }

    #[inline]
    fn append_record(&mut self, kind: RecordType, payload: &[u8]) -> Result<()> {
        let header = record_header(self.salt, self.file.len_bytes(), kind, payload);
        self.file.append_parts(&[&header, payload])
    }

    /// Makes every record so far durable. To be followed by `mark`.
    ///
    /// # Errors
    /// Nobody knows what is on the disk now.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.file.sync()?;
        self.durable_bytes = self.file.len_bytes();
        Ok(())
    }

    /// Notes in the log how far it is durable.
    ///
    /// # Errors
    /// As for `append`: what was synced is durable all the same, but the log takes no more records.
    pub(crate) fn mark(&mut self) -> Result<()> {
        self.append_record(RecordType::Mark, &mark_payload(self.durable_bytes))
    }

    /// Bytes in the file, header and marks included.
    #[inline]
    pub(crate) fn len_bytes(&self) -> u64 {
        self.file.len_bytes()
    }

    /// Length of the file at the last sync.
    pub(crate) fn durable_bytes(&self) -> u64 {
        self.durable_bytes
    }

    /// True if every record is durable (a mark behind the last sync need not be).
    pub(crate) fn is_durable(&self) -> bool {
        let mark = (super::format::RECORD_HEADER_BYTES + super::format::MARK_PAYLOAD_BYTES) as u64;
        self.file.len_bytes() <= self.durable_bytes + mark
    }

    /// Gives reserved space back and closes the file.
    pub(crate) fn finish(self) -> Result<()> {
        self.file.finish()
    }
}

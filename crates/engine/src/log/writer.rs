//! Appends records to a log.

use super::format::{
    HEADER_BYTES, LogHeader, RECORD_HEADER_BYTES, RecordType, mark_payload, record_header,
};
use esker_base::vfs::WritableFile;
use esker_base::{Error, Result, Vfs};
use std::path::Path;

/// A log file whose space is reserved, and which holds nothing, not even a header.
#[derive(Debug)]
pub(crate) struct Blank {
    file: Box<dyn WritableFile>,
}

impl Blank {
    /// Creates the file and makes its reserved space durable. The caller syncs the directory.
    ///
    /// `None` if no space can be reserved: then a blank could not be told from a log that was cut.
    pub(crate) fn create(vfs: &dyn Vfs, path: &Path, reserve_bytes: u64) -> Result<Option<Blank>> {
        let mut file = vfs.create_log(path, reserve_bytes)?;
        if file.reserved_bytes() < HEADER_BYTES as u64 {
            return Ok(None);
        }
        file.sync()?;
        Ok(Some(Blank { file }))
    }

    /// Appends the header, which becomes durable with the first sync.
    pub(crate) fn begin(mut self, header: LogHeader) -> Result<Writer> {
        self.file.append(&header.encode())?;
        let end_bytes = self.file.len_bytes();
        let records_end = end_bytes;
        let (file, salt) = (self.file, header.salt);
        Ok(Writer {
            file,
            salt,
            end_bytes,
            records_end,
            durable_bytes: 0,
            durable: false,
            broken: false,
            sync_error: None,
        })
    }

    /// Gives reserved space back, but for the header's place.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.file.append(&[0; HEADER_BYTES])?;
        self.file.finish()
    }
}

/// Writes one log, front to back.
///
/// After an error of `append` the file may end in half a record: the log is broken, nothing more
/// may be appended, the owner starts a new log. A broken log can still be synced; no mark may
/// follow, since it would vouch for the half record. After an error of `sync` nothing is known
/// about what was appended, and a system says so once only: the log gives that error whenever it is
/// to be synced from then on.
#[derive(Debug)]
pub(crate) struct Writer {
    file: Box<dyn WritableFile>,
    salt: u64,
    /// Where the last whole record ends.
    end_bytes: u64,
    /// The same, of records that are no marks.
    records_end: u64,
    /// How far the last sync reached.
    durable_bytes: u64,
    /// Header and records are durable; a mark behind the last sync need not be.
    durable: bool,
    /// An append failed.
    broken: bool,
    /// A sync failed.
    sync_error: Option<Error>,
}

impl Writer {
    /// Creates the file and makes its header durable. The caller syncs the directory.
    pub(crate) fn create(
        vfs: &dyn Vfs,
        path: &Path,
        header: LogHeader,
        reserve_bytes: u64,
    ) -> Result<Writer> {
        let mut writer = Blank { file: vfs.create_log(path, reserve_bytes)? }.begin(header)?;
        writer.sync_header()?;
        Ok(writer)
    }

    /// Makes the header durable, of a log that holds nothing else yet.
    pub(crate) fn sync_header(&mut self) -> Result<()> {
        self.sync_records()
    }

    /// Adds a record. It survives the death of the process when this returns.
    #[inline]
    pub(crate) fn append(&mut self, payload: &[u8]) -> Result<()> {
        self.append_record(RecordType::Data, payload)?;
        self.note_records();
        Ok(())
    }

    /// Takes note that records were added which are no marks.
    #[inline]
    fn note_records(&mut self) {
        self.records_end = self.end_bytes;
        self.durable = false;
    }

    /// Where the values will stand that [`Writer::append_with_values`] adds next, each with the
    /// length it is stored in.
    pub(crate) fn places<'a>(
        &self,
        stored: impl Iterator<Item = usize> + 'a,
    ) -> impl Iterator<Item = u64> + 'a {
        stored.scan(self.end_bytes, |end, bytes| {
            let at = *end;
            *end += (RECORD_HEADER_BYTES + bytes) as u64;
            Some(at)
        })
    }

    /// Adds values, each with the codec that made it what it is, and the record that points to
    /// them, by one append.
    ///
    /// What a crash leaves of values without that record is nobody's.
    pub(crate) fn append_with_values(
        &mut self,
        values: &[(u8, &[u8])],
        payload: &[u8],
    ) -> Result<()> {
        assert!(!self.broken, "a record for a log that ends in half a record");
        let records = values.iter().map(|&(codec, stored)| (RecordType::Value { codec }, stored));
        let mut at = self.end_bytes;
        let headed: Vec<([u8; RECORD_HEADER_BYTES], &[u8])> = records
            .chain([(RecordType::Data, payload)])
            .map(|(kind, payload)| {
                let header = record_header(self.salt, at, kind, payload);
                at += (RECORD_HEADER_BYTES + payload.len()) as u64;
                (header, payload)
            })
            .collect();
        let parts: Vec<&[u8]> =
            headed.iter().flat_map(|(header, payload)| [header.as_slice(), payload]).collect();
        self.broken = true;
        self.file.append_parts(&parts)?;
        self.broken = false;
        self.end_bytes = self.file.len_bytes();
        assert!(self.end_bytes == at, "a record stands where it was said to");
        self.note_records();
        Ok(())
    }

    #[inline]
    fn append_record(&mut self, kind: RecordType, payload: &[u8]) -> Result<()> {
        assert!(!self.broken, "a record for a log that ends in half a record");
        let header = record_header(self.salt, self.end_bytes, kind, payload);
        self.broken = true;
        self.file.append_parts(&[&header, payload])?;
        self.broken = false;
        self.end_bytes = self.file.len_bytes();
        Ok(())
    }

    /// Makes every record so far durable, and then marks how far that is, unless all of them were:
    /// who syncs for ever without writing does not make the log longer.
    ///
    /// A mark that cannot be written is no error: the records are durable, and the log is broken.
    pub(crate) fn sync(&mut self) -> Result<()> {
        let has_new = !self.durable;
        self.sync_records()?;
        if has_new && !self.broken {
            let _ = self.append_mark();
        }
        Ok(())
    }

    /// The same for a log that must take more: a mark that cannot be written is an error.
    pub(crate) fn sync_and_go_on(&mut self) -> Result<()> {
        self.sync_records()?;
        self.append_mark()
    }

    fn sync_records(&mut self) -> Result<()> {
        if let Some(error) = &self.sync_error {
            return Err(error.clone());
        }
        self.file.sync().inspect_err(|error| self.sync_error = Some(error.clone()))?;
        self.durable_bytes = self.end_bytes;
        self.durable = true;
        Ok(())
    }

    /// Marks how far the last sync reached.
    fn append_mark(&mut self) -> Result<()> {
        self.append_record(RecordType::Mark, &mark_payload(self.durable_bytes))
    }

    /// What its records are bound to.
    pub(crate) fn salt(&self) -> u64 {
        self.salt
    }

    /// Has it take nothing more, as after a failed append.
    pub(crate) fn give_up(&mut self) {
        self.broken = true;
    }

    /// True if nothing more may be appended.
    #[inline]
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Bytes in the file, header and marks included.
    #[inline]
    pub(crate) fn len_bytes(&self) -> u64 {
        self.file.len_bytes()
    }

    /// Where the last whole record ends that is no mark: a mark behind it may not be durable when
    /// all else is.
    pub(crate) fn records_end(&self) -> u64 {
        self.records_end
    }

    /// Length of the file at the last sync.
    pub(crate) fn durable_bytes(&self) -> u64 {
        self.durable_bytes
    }

    /// True if every record is durable (a mark behind the last sync need not be).
    #[cfg(test)]
    pub(crate) fn is_durable(&self) -> bool {
        self.durable
    }

    /// Makes every record durable where one is not, and costs less than [`Writer::sync`]: no record
    /// follows.
    pub(crate) fn sync_last(&mut self) -> Result<()> {
        if self.durable {
            return Ok(());
        }
        self.file.release();
        self.sync()
    }

    /// Gives reserved space back and closes the file.
    pub(crate) fn finish(self) -> Result<()> {
        self.file.finish()
    }
}

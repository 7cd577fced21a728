//! Reads a log back and tells a torn tail from damage.
//!
//! A record that fails its check ends the log. If some mark behind it says that the place was
//! durable, the bytes were once safely stored and have changed since: that is damage. Otherwise
//! they never were durable: the tail is torn, and nobody was promised it.

use super::format::{
    FIRST_SEQ_AT, HEADER_BYTES, HeaderFault, LogHeader, LogKind, MARK_MAGIC, MARK_PAYLOAD_BYTES,
    RECORD_HEADER_BYTES, RecordType, mark_offset, may_become_header, parse_header,
};
use esker_base::pages::LINE_BYTES;
use esker_base::vfs::{Access, ReadableFile};
use esker_base::{Error, Result, Vfs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How much is read from the file at a time.
pub(super) const READ_BYTES: usize = 256 << 10;

/// What a disk writes whole.
const SECTOR_BYTES: usize = 512;

/// The part of a log that was never durable and cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TornTail {
    /// Where the first unreadable record starts.
    pub(crate) offset_bytes: u64,
    /// Bytes from there to the last byte that is not zero.
    pub(crate) dropped_bytes: u64,
}

/// A record that is no mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) offset_bytes: u64,
    /// Of a value: what compressed it. `None` for everything else.
    pub(crate) codec: Option<u8>,
    pub(crate) payload: &'a [u8],
}

/// Yields the records of a log in order.
#[derive(Debug)]
pub(crate) struct Reader {
    file: Arc<dyn ReadableFile>,
    path: PathBuf,
    header: Option<LogHeader>,
    file_bytes: u64,
    /// File offset of `buf[0]`.
    buf_offset: u64,
    buf: Vec<u8>,
    /// File offset of the next record.
    pos: u64,
    /// Where the first record stands that cannot be read, once it was met.
    readable_end: u64,
    torn: Option<TornTail>,
    /// The furthest offset that a mark has vouched for so far.
    durable_bytes: u64,
}

impl Reader {
    /// Opens a log and reads its header. The log is known from elsewhere to be durable up to
    /// `durable_bytes` (0 if nothing is known).
    ///
    /// A log that was being created when power failed has no header and nothing behind it; such a
    /// log is empty, and `header` returns `None`.
    ///
    /// # Errors
    /// `Corruption`: the header is damaged, or is not of this kind and number. `Incompatible`: a
    /// newer version made the log.
    pub(crate) fn open(
        vfs: &dyn Vfs,
        path: &Path,
        kind: LogKind,
        number: u64,
        durable_bytes: u64,
    ) -> Result<Reader> {
        let mut reader = Reader::unread(vfs, path, durable_bytes)?;
        let file_bytes = reader.file_bytes;
        let head = reader.window(0, HEADER_BYTES)?;
        match LogHeader::decode(head) {
            Ok(header) if header.kind == kind && header.number == number => {
                reader.header = Some(header);
                Ok(reader)
            }
            Ok(_) => Err(Error::corruption(path, 0, "the log belongs to another file name")),
            Err(fault) => {
                let newer = matches!(fault, HeaderFault::Newer(_));
                let foreign = !may_become_header(head);
                if newer || foreign || durable_bytes > 0 || reader.has_content()? {
                    return Err(fault.at(path));
                }
                reader.pos = file_bytes;
                Ok(reader)
            }
        }
    }

    /// Opens a write-ahead log that the manifest names: with a header, or made ready and not begun.
    ///
    /// Of a log that was begun and never synced, a power cut may leave everything but the
    /// beginning. It counts as not begun.
    ///
    /// # Errors
    /// `Corruption`: the header is damaged, or was durable and is gone, or is another log's.
    /// `Incompatible`: a newer version made the log.
    pub(crate) fn open_named(vfs: &dyn Vfs, path: &Path, number: u64, salt: u64) -> Result<Reader> {
        let mut reader = Reader::unread(vfs, path, 0)?;
        let what = match LogHeader::decode(reader.window(0, HEADER_BYTES)?) {
            Ok(header) if header.kind != LogKind::Wal || header.number != number => {
                "the log belongs to another file name"
            }
            Ok(header) if header.salt != salt => "the log is not the one the manifest names",
            Ok(header) => {
                reader.header = Some(header);
                return Ok(reader);
            }
            Err(fault @ HeaderFault::Newer(_)) => return Err(fault.at(path)),
            Err(_) if reader.file_bytes < HEADER_BYTES as u64 => "the log is cut short; run repair",
            Err(fault) if !reader.may_be_unbegun(number, salt)? => fault.what(),
            Err(_) if reader.mark_behind(salt, 0, reader.file_bytes)? => {
                "the log has lost its header; run repair"
            }
            Err(_) => return Ok(reader),
        };
        Err(Error::corruption(path, 0, what))
    }

    /// True if the file has the beginning of the header it should have, down to nothing of it, and
    /// then zeros.
    ///
    /// Sectors are written whole, but perhaps at a moment when the header was half copied.
    pub(super) fn may_be_unbegun(&mut self, number: u64, salt: u64) -> Result<bool> {
        let expected = LogHeader { kind: LogKind::Wal, number, salt, first_seq: 0 }.encode();
        let sector = self.window(0, SECTOR_BYTES)?;
        let end = sector.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let known = end.min(FIRST_SEQ_AT);
        Ok(end < HEADER_BYTES
            && sector.len() >= HEADER_BYTES
            && sector[..known] == expected[..known])
    }

    /// A reader that has not looked at the header.
    pub(super) fn unread(vfs: &dyn Vfs, path: &Path, durable_bytes: u64) -> Result<Reader> {
        let file = vfs.open(path, Access::Sequential)?;
        Ok(Reader {
            file_bytes: file.len_bytes()?,
            file,
            path: path.to_path_buf(),
            header: None,
            buf_offset: 0,
            buf: Vec::new(),
            pos: HEADER_BYTES as u64,
            readable_end: u64::MAX,
            torn: None,
            durable_bytes,
        })
    }

    /// True if anything but zeros stands behind the header's place.
    pub(crate) fn has_content(&mut self) -> Result<bool> {
        Ok(self.end_of_content(HEADER_BYTES as u64)? > HEADER_BYTES as u64)
    }

    /// Length of the file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// The file header; `None` if the log was never completely created.
    pub(crate) fn header(&self) -> Option<LogHeader> {
        self.header
    }

    /// The torn tail, once the end was reached; `None` if the log ends cleanly.
    pub(crate) fn torn_tail(&self) -> Option<TornTail> {
        self.torn
    }

    /// The furthest offset that a mark has vouched for so far.
    pub(crate) fn durable_bytes(&self) -> u64 {
        self.durable_bytes
    }

    /// Where the record begins that [`Reader::next`] would read; where the readable part ends, once
    /// that is reached.
    pub(crate) fn position_bytes(&self) -> u64 {
        self.pos.min(self.readable_end)
    }

    /// The next record's offset and payload, values passed over, or `None` at the end.
    ///
    /// # Errors
    /// `Corruption`: a record that was durable cannot be read.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        loop {
            match self.step()? {
                None => return Ok(None),
                Some((RecordType::Data, at, len)) => {
                    return Ok(Some((at, self.window(at + RECORD_HEADER_BYTES as u64, len)?)));
                }
                Some(_) => {}
            }
        }
    }

    /// The next record that is no mark, or `None` at the end.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub(crate) fn next_of_all(&mut self) -> Result<Option<Entry<'_>>> {
        loop {
            let Some((kind, at, len)) = self.step()? else { return Ok(None) };
            let codec = match kind {
                RecordType::Mark => continue,
                RecordType::Data => None,
                RecordType::Value { codec } => Some(codec),
            };
            let payload = self.window(at + RECORD_HEADER_BYTES as u64, len)?;
            return Ok(Some(Entry { offset_bytes: at, codec, payload }));
        }
    }

    /// Goes on by a record: what it is, where it begins, and the length of its payload.
    fn step(&mut self) -> Result<Option<(RecordType, u64, usize)>> {
        let Some(header) = self.header else { return Ok(None) };
        let at = self.pos;
        let Some((kind, len)) = self.check_record(header.salt, at)? else {
            self.end_at(header.salt, at)?;
            return Ok(None);
        };
        let payload_at = at + RECORD_HEADER_BYTES as u64;
        self.pos = payload_at + len as u64;
        if kind == RecordType::Mark {
            let durable = mark_offset(self.window(payload_at, len)?);
            self.durable_bytes = self.durable_bytes.max(durable.unwrap_or(0));
        }
        Ok(Some((kind, at, len)))
    }

    /// Type and payload length of the record at `at`, if it is whole and sound.
    pub(super) fn check_record(
        &mut self,
        salt: u64,
        at: u64,
    ) -> Result<Option<(RecordType, usize)>> {
        let raw = parse_header(self.window(at, RECORD_HEADER_BYTES)?);
        let Some((raw, kind)) = raw.and_then(|raw| Some((raw, raw.kind()?))) else {
            return Ok(None);
        };
        let payload_at = at + RECORD_HEADER_BYTES as u64;
        // The length is bounded by the file before anything is read or allocated for it.
        if u64::from(raw.len) > self.file_bytes.saturating_sub(payload_at) {
            return Ok(None);
        }
        let payload = self.window(payload_at, raw.len as usize)?;
        Ok(raw.fits(salt, at, payload).then_some((kind, raw.len as usize)))
    }

    /// Decides what the unreadable place at `at` is.
    fn end_at(&mut self, salt: u64, at: u64) -> Result<()> {
        self.pos = self.file_bytes;
        self.readable_end = at;
        self.header = None;
        // What was reserved and not written to is zero, and so is all that is left of most logs.
        let content_end = self.end_of_content(at)?;
        if self.durable_bytes > at || self.mark_behind(salt, at, content_end)? {
            return Err(Error::corruption(&self.path, at, "a durable log record cannot be read"));
        }
        if content_end <= at {
            return Ok(());
        }
        self.torn = Some(TornTail { offset_bytes: at, dropped_bytes: content_end - at });
        Ok(())
    }

    /// True if a sound mark somewhere after `at` says that `at` was durable. Behind `content_end`
    /// all is zero, so none begins there.
    fn mark_behind(&mut self, salt: u64, at: u64, content_end: u64) -> Result<bool> {
        let mark_bytes = RECORD_HEADER_BYTES + MARK_PAYLOAD_BYTES;
        let mut from = at;
        while from < content_end {
            let window = self.window(from, READ_BYTES)?;
            if window.len() < mark_bytes {
                break;
            }
            let places = window.len() - mark_bytes + 1;
            // What is in the window is looked at before it moves. Of what is no mark, no sum is
            // asked for: that would be one of as many bytes as it claims to have.
            let magic = find_all(&window[RECORD_HEADER_BYTES..], MARK_MAGIC);
            let marks = magic.take_while(|&i| i < places).filter(|&i| {
                parse_header(&window[i..]).is_some_and(|raw| {
                    raw.kind() == Some(RecordType::Mark) && raw.len as usize == MARK_PAYLOAD_BYTES
                })
            });
            let marks: Vec<u64> = marks.map(|i| from + i as u64).collect();
            for mark in marks {
                if self.check_record(salt, mark)?.is_some() {
                    let payload_at = mark + RECORD_HEADER_BYTES as u64;
                    let durable = mark_offset(self.window(payload_at, MARK_PAYLOAD_BYTES)?);
                    if durable.is_some_and(|durable| durable > at) {
                        return Ok(true);
                    }
                }
            }
            from += places as u64;
        }
        Ok(false)
    }

    /// Offset after the last byte at or behind `from` that is not zero; `from` if there is none.
    pub(super) fn end_of_content(&mut self, from: u64) -> Result<u64> {
        let (mut at, mut end) = (from, from);
        while at < self.file_bytes {
            let window = self.window(at, READ_BYTES)?;
            if window.is_empty() {
                break;
            }
            if let Some(last) = last_that_is_not_zero(window) {
                end = at + last as u64 + 1;
            }
            at += window.len() as u64;
        }
        Ok(end)
    }

    /// A few bytes at `offset`; fewer only at the end of the file. What was read ahead stays.
    pub(super) fn peek(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let room = self.file_bytes.saturating_sub(offset).min(bytes.len() as u64) as usize;
        self.file.read_at(offset, &mut bytes[..room])
    }

    /// Up to `len` bytes at `offset`; fewer only at the end of the file.
    pub(super) fn window(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let have_end = self.buf_offset + self.buf.len() as u64;
        let want_end = offset.saturating_add(len as u64).min(self.file_bytes);
        if offset < self.buf_offset || want_end > have_end {
            let room = self.file_bytes.saturating_sub(offset);
            let want = (len.max(READ_BYTES) as u64).min(room) as usize;
            self.buf.resize(want, 0);
            let read = self.file.read_at(offset, &mut self.buf)?;
            self.buf.truncate(read);
            self.buf_offset = offset;
        }
        let start = ((offset - self.buf_offset) as usize).min(self.buf.len());
        let end = (start + len).min(self.buf.len());
        Ok(&self.buf[start..end])
    }
}

/// Where the last byte stands that is not zero. Bytes are looked at by the line, for which the
/// compiler takes wide registers.
fn last_that_is_not_zero(bytes: &[u8]) -> Option<usize> {
    let mut end = bytes.len();
    for line in bytes.rchunks(LINE_BYTES) {
        end -= line.len();
        if line.iter().fold(0, |all, byte| all | byte) != 0 {
            return line.iter().rposition(|&byte| byte != 0).map(|place| end + place);
        }
    }
    None
}

/// Where a needle stands.
fn find_all<'a>(haystack: &'a [u8], needle: &'a [u8; 8]) -> impl Iterator<Item = usize> + 'a {
    haystack.windows(needle.len()).enumerate().filter(move |(_, w)| w == needle).map(|(i, _)| i)
}

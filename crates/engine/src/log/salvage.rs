//! Reads a log past damage: for repair and for dumps, never for opening.
//!
//! Records carry checksums that are bound to their place, so that behind unreadable bytes the next
//! record is found by trying every offset. Each stretch passed over is reported as a gap.
//! Invariant: no bytes of a file make this panic, or take more than a bounded multiple of its
//! length.

use super::format::{
    HEADER_BYTES, HeaderFault, LogHeader, RECORD_HEADER_BYTES, RecordType, mark_offset,
    parse_header,
};
use super::reader::{READ_BYTES, Reader};
use esker_base::{Result, Vfs};
use std::path::Path;

/// Bytes that may be summed in search of records, beyond a multiple of the file's length.
const SEARCH_BYTES: u64 = 256 << 20;

/// The same behind one damaged record that says where it ends, and is right if a record is where it
/// says.
const KNOWN_END_SEARCH_BYTES: u64 = 64 << 20;

/// Records that claim to be longer than this are summed at once only if something follows them that
/// may be a record, or if they end where all does: in the middle of a large value one byte in a
/// few thousand looks like the start of a record, of half of the file on average.
const SUMMED_BYTES: u64 = 64 << 10;

/// What each look at what follows counts for: about what it takes.
const LOOK_BYTES: u64 = 4 << 10;

/// Which records a search sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claims {
    /// Short ones, and those that end where another may begin, or all ends.
    Likely,
    /// The others.
    Unlikely,
}

/// A stretch of a log that holds no readable record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) offset_bytes: u64,
    pub(crate) bytes: u64,
    /// Nothing readable follows, as far as was looked.
    pub(crate) is_tail: bool,
}

/// What comes next in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// A record for the log's user.
    Record { offset_bytes: u64, end_bytes: u64, payload: &'a [u8] },
    /// A value, compressed by `codec`.
    Value { offset_bytes: u64, end_bytes: u64, codec: u8, stored: &'a [u8] },
    /// A mark: everything before `durable_bytes` had been synced.
    Mark { offset_bytes: u64, end_bytes: u64, durable_bytes: u64 },
    /// Bytes that cannot be read.
    Gap(Gap),
}

/// Yields all that is readable of a log.
#[derive(Debug)]
pub(crate) struct Salvager {
    reader: Reader,
    header: Result<LogHeader, HeaderFault>,
    /// What records are bound to; `None` if neither the header nor the caller knows.
    salt: Option<u64>,
    pos: u64,
    /// Nothing but zeros stands from here on, as of the last gap.
    content_end: u64,
    /// What may still be spent on searching.
    search_bytes: u64,
    header_reported: bool,
}

impl Salvager {
    /// Opens a log. `salt` is used if the header is unreadable.
    ///
    /// # Errors
    /// Of the file system only.
    pub(crate) fn open(vfs: &dyn Vfs, path: &Path, salt: Option<u64>) -> Result<Salvager> {
        let mut reader = Reader::unread(vfs, path, 0)?;
        let header = LogHeader::decode(reader.window(0, HEADER_BYTES)?);
        let search_bytes = SEARCH_BYTES.saturating_add(reader.file_bytes().saturating_mul(16));
        Ok(Salvager {
            salt: header.as_ref().map_or(salt, |header| Some(header.salt)),
            header,
            reader,
            pos: HEADER_BYTES as u64,
            content_end: 0,
            search_bytes,
            header_reported: false,
        })
    }

    /// The header, or what is wrong with it.
    pub(crate) fn header(&self) -> Result<LogHeader, HeaderFault> {
        self.header
    }

    /// True if nothing but zeros stands behind the header's place.
    pub(crate) fn is_blank(&mut self) -> Result<bool> {
        Ok(!self.reader.has_content()?)
    }

    /// True if this is a log that was made ready and never begun.
    pub(crate) fn is_unbegun(&mut self, number: u64, salt: u64) -> Result<bool> {
        Ok(self.is_blank()? && self.reader.may_be_unbegun(number, salt)?)
    }

    /// The next piece, or `None` at the end.
    ///
    /// # Errors
    /// Of the file system only.
    pub(crate) fn next(&mut self) -> Result<Option<Piece<'_>>> {
        if self.header.is_err() && !self.header_reported {
            self.header_reported = true;
            return self.header_gap();
        }
        let Some(salt) = self.salt else { return Ok(None) };
        let at = self.pos;
        let Some((kind, len)) = self.reader.check_record(salt, at)? else {
            return self.gap(salt, at);
        };
        let payload_at = at + RECORD_HEADER_BYTES as u64;
        let end_bytes = payload_at + len as u64;
        self.pos = end_bytes;
        let payload = self.reader.window(payload_at, len)?;
        let offset_bytes = at;
        Ok(Some(match kind {
            RecordType::Data => Piece::Record { offset_bytes, end_bytes, payload },
            RecordType::Value { codec } => {
                Piece::Value { offset_bytes, end_bytes, codec, stored: payload }
            }
            RecordType::Mark => {
                let durable_bytes = mark_offset(payload).unwrap_or(0);
                Piece::Mark { offset_bytes, end_bytes, durable_bytes }
            }
        }))
    }

    /// The unreadable header; all of the file if nothing can be read without it.
    fn header_gap(&mut self) -> Result<Option<Piece<'_>>> {
        let header_end = (HEADER_BYTES as u64).min(self.reader.file_bytes());
        let content_end = self.reader.end_of_content(0)?;
        let (bytes, is_tail) = match self.salt {
            Some(_) => (header_end, content_end <= header_end),
            None => (content_end, true),
        };
        if bytes == 0 {
            return Ok(None);
        }
        Ok(Some(Piece::Gap(Gap { offset_bytes: 0, bytes, is_tail })))
    }

    /// Passes over what cannot be read at `at`.
    fn gap(&mut self, salt: u64, at: u64) -> Result<Option<Piece<'_>>> {
        let content_end = self.reader.end_of_content(at)?;
        if content_end <= at {
            self.pos = self.reader.file_bytes();
            return Ok(None);
        }
        self.content_end = content_end;
        let next = match self.by_length(salt, at)? {
            None => self.search(salt, at + 1, content_end, Claims::Likely, self.search_bytes)?,
            next @ Some(end) => {
                let most = KNOWN_END_SEARCH_BYTES;
                self.search(salt, at + 1, end, Claims::Likely, most)?.or(next)
            }
        };
        let (end, most) = match next {
            Some(end) => (end, KNOWN_END_SEARCH_BYTES),
            None => (content_end, self.search_bytes),
        };
        let found = self.search(salt, at + 1, end, Claims::Unlikely, most)?.or(next);
        self.pos = found.unwrap_or(self.reader.file_bytes());
        let bytes = found.unwrap_or(content_end) - at;
        Ok(Some(Piece::Gap(Gap { offset_bytes: at, bytes, is_tail: found.is_none() })))
    }

    /// Where the record at `at` says that it ends, if a sound one begins there: then it is likely
    /// that only what it holds is damaged. To search a large value in full takes more than may be
    /// spent.
    fn by_length(&mut self, salt: u64, at: u64) -> Result<Option<u64>> {
        let header = self.reader.window(at, RECORD_HEADER_BYTES)?;
        let Some(raw) = parse_header(header) else { return Ok(None) };
        let next = at + RECORD_HEADER_BYTES as u64 + u64::from(raw.len);
        // It is summed for this, as long as it claims to be.
        let claimed = parse_header(self.reader.window(next, RECORD_HEADER_BYTES)?);
        let left = claimed.and_then(|raw| self.search_bytes.checked_sub(u64::from(raw.len)));
        let Some(left) = left else { return Ok(None) };
        self.search_bytes = left;
        Ok(self.reader.check_record(salt, next)?.map(|_| next))
    }

    /// The first sound record in `from..end`, if no more than `most_bytes` must be summed to find
    /// it.
    fn search(
        &mut self,
        salt: u64,
        mut from: u64,
        end: u64,
        which: Claims,
        most_bytes: u64,
    ) -> Result<Option<u64>> {
        let mut left = most_bytes.min(self.search_bytes);
        while from < end {
            let file_bytes = self.reader.file_bytes();
            let window = self.reader.window(from, READ_BYTES)?;
            let len = window.len();
            if len < RECORD_HEADER_BYTES {
                return Ok(None);
            }
            let candidates: Vec<(u64, u64)> = (0..=len - RECORD_HEADER_BYTES)
                .filter_map(|i| {
                    RecordType::from_byte(window[i + RECORD_HEADER_BYTES - 1])?;
                    let raw = parse_header(&window[i..])?;
                    let at = from + i as u64;
                    let record_end = at + RECORD_HEADER_BYTES as u64 + u64::from(raw.len);
                    (at < end && record_end <= file_bytes).then_some((at, u64::from(raw.len)))
                })
                .collect();
            for (at, payload_bytes) in candidates {
                if payload_bytes <= SUMMED_BYTES {
                    if which == Claims::Unlikely {
                        continue;
                    }
                } else {
                    let Some(rest) = left.checked_sub(LOOK_BYTES) else { return Ok(None) };
                    left = rest;
                    self.search_bytes -= LOOK_BYTES;
                    let follows =
                        self.may_follow(at + RECORD_HEADER_BYTES as u64 + payload_bytes)?;
                    if follows != (which == Claims::Likely) {
                        continue;
                    }
                }
                let cost = payload_bytes + if payload_bytes > 4096 { READ_BYTES as u64 } else { 0 };
                let Some(rest) = left.checked_sub(cost) else { return Ok(None) };
                left = rest;
                self.search_bytes -= cost;
                if self.reader.check_record(salt, at)?.is_some() {
                    return Ok(Some(at));
                }
            }
            from += (len - RECORD_HEADER_BYTES + 1) as u64;
        }
        Ok(None)
    }

    /// True if a record may begin here, or if what ends here may be the last one. Its own last
    /// bytes may be zeros too.
    fn may_follow(&self, at: u64) -> Result<bool> {
        if at >= self.content_end {
            return Ok(at - self.content_end <= SUMMED_BYTES);
        }
        let file_bytes = self.reader.file_bytes();
        let mut header = [0; RECORD_HEADER_BYTES];
        self.reader.peek(at, &mut header)?;
        let is_known = RecordType::from_byte(header[RECORD_HEADER_BYTES - 1]).is_some();
        let end = |len: u32| at + RECORD_HEADER_BYTES as u64 + u64::from(len);
        Ok(is_known && parse_header(&header).is_some_and(|raw| end(raw.len) <= file_bytes))
    }
}

#[cfg(test)]
mod tests;

//! Byte layout of logs. Described in docs/format/log.md.

use esker_base::checksum::{bind, crc32c, mix64};
use esker_base::coding::{put_u32, put_u64, take_bytes, take_u8, take_u32, take_u64};
use esker_base::{Error, Seq};
use std::path::Path;

const MAGIC: &[u8; 8] = b"ESKERLOG";
const VERSION: u8 = 1;

/// Length of the file header.
pub(crate) const HEADER_BYTES: usize = 40;

/// Length of the part of a record before its payload: checksum, length, type.
pub(crate) const RECORD_HEADER_BYTES: usize = 9;

/// Starts the payload of a mark, so that marks can be found behind damage.
pub(super) const MARK_MAGIC: &[u8; 8] = b"\xf1syncd\xa5\x1b";

/// Payload of a mark: its magic and the durable length.
pub(super) const MARK_PAYLOAD_BYTES: usize = 16;

/// What the records of a log are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum LogKind {
    /// Sealed batches.
    Wal = 1,
    /// Version edits.
    Manifest = 2,
    /// Values that were moved, and where they stood.
    Values = 3,
}

/// What a record is. The byte 0 is never used: reserved space reads as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordType {
    /// A payload for the log's user.
    Data,
    /// Everything before the offset in the payload is durable.
    Mark,
    /// A value that a batch behind it points to, as some codec left it.
    Value { codec: u8 },
}

const DATA: u8 = 1;
const MARK: u8 = 2;
/// Types from here on are values, whose codec is what is left.
const VALUE: u8 = 16;

/// The greatest number of a codec.
pub(crate) const CODEC_MAX: u8 = 2;

impl RecordType {
    #[inline]
    pub(super) fn byte(self) -> u8 {
        match self {
            RecordType::Data => DATA,
            RecordType::Mark => MARK,
            RecordType::Value { codec } => VALUE + codec,
        }
    }

    pub(super) fn from_byte(byte: u8) -> Option<RecordType> {
        match byte {
            DATA => Some(RecordType::Data),
            MARK => Some(RecordType::Mark),
            VALUE..=u8::MAX if byte - VALUE <= CODEC_MAX => {
                Some(RecordType::Value { codec: byte - VALUE })
            }
            _ => None,
        }
    }
}

/// The first bytes of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogHeader {
    pub(crate) kind: LogKind,
    /// The number in the file's name.
    pub(crate) number: u64,
    /// Random; binds every record to this file.
    pub(crate) salt: u64,
    /// Records of earlier logs at or above this sequence number are void. 0 in a manifest.
    pub(crate) first_seq: Seq,
}

/// Why a header cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    /// Its bytes are not what was written.
    Damage(&'static str),
    /// It is sound, and of this format, which is newer than any that is known here.
    Newer(u8),
}

impl HeaderFault {
    /// What is wrong, in short.
    pub(crate) fn what(self) -> &'static str {
        match self {
            HeaderFault::Damage(what) => what,
            HeaderFault::Newer(_) => "the log was made by a newer version",
        }
    }

    /// What to tell of the log at `path`.
    pub(crate) fn at(self, path: &Path) -> Error {
        match self {
            HeaderFault::Damage(what) => Error::corruption(path, 0, what),
            HeaderFault::Newer(version) => Error::Incompatible {
                path: path.to_path_buf(),
                what: format!(
                    "it was made by a newer version of Esker, in log format {version} where this one \
                     knows {VERSION}: use that version"
                ),
            },
        }
    }
}

/// Where the first sequence number stands in the header.
pub(super) const FIRST_SEQ_AT: usize = 28;

impl LogHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[VERSION, self.kind as u8, 0, 0]);
        put_u64(&mut out, self.number);
        put_u64(&mut out, self.salt);
        put_u64(&mut out, self.first_seq);
        let crc = crc32c(&out);
        put_u32(&mut out, crc);
        debug_assert_eq!(out.len(), HEADER_BYTES);
        out
    }

    /// The header in `bytes`.
    pub(super) fn decode(bytes: &[u8]) -> Result<LogHeader, HeaderFault> {
        use HeaderFault::Damage;
        let whole = bytes.get(..HEADER_BYTES).ok_or(Damage("log header is cut short"))?;
        let mut input = whole;
        if take_bytes(&mut input, 8) != Some(MAGIC) {
            return Err(Damage("not a log: the magic number is missing"));
        }
        let crc = u32::from_le_bytes([whole[36], whole[37], whole[38], whole[39]]);
        if crc != crc32c(&whole[..HEADER_BYTES - 4]) {
            return Err(Damage("log header fails its checksum"));
        }
        let fields = (|| {
            let (version, kind) = (take_u8(&mut input)?, take_u8(&mut input)?);
            take_bytes(&mut input, 2)?;
            Some((
                version,
                kind,
                take_u64(&mut input)?,
                take_u64(&mut input)?,
                take_u64(&mut input)?,
            ))
        })();
        let (version, kind, number, salt, first_seq) =
            fields.ok_or(Damage("log header is cut short"))?;
        match version {
            VERSION => {}
            0 => return Err(Damage("log header has a format that no version writes")),
            newer => return Err(HeaderFault::Newer(newer)),
        }
        let kind = match kind {
            1 => LogKind::Wal,
            2 => LogKind::Manifest,
            3 => LogKind::Values,
            _ => return Err(Damage("the log is of an unknown kind")),
        };
        Ok(LogHeader { kind, number, salt, first_seq })
    }
}

/// False if the file can be no log of ours, not even one whose header a power cut left half
/// written.
pub(super) fn may_become_header(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(MAGIC.len())];
    let end = head.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    MAGIC.starts_with(&head[..end])
}

/// The nine bytes before a payload that will stand at `offset`.
#[inline]
pub(super) fn record_header(
    salt: u64,
    offset: u64,
    kind: RecordType,
    payload: &[u8],
) -> [u8; RECORD_HEADER_BYTES] {
    let len = payload.len() as u32;
    let crc = record_checksum(salt, offset, kind.byte(), len, payload);
    let mut header = [0; RECORD_HEADER_BYTES];
    header[..4].copy_from_slice(&crc.to_le_bytes());
    header[4..8].copy_from_slice(&len.to_le_bytes());
    header[8] = kind.byte();
    header
}

/// Checksum of a record: its payload, bound to file, offset, length and type.
#[inline]
fn record_checksum(salt: u64, offset: u64, kind: u8, len: u32, payload: &[u8]) -> u32 {
    let shape = mix64(u64::from(len) << 8 | u64::from(kind));
    bind(crc32c(payload), salt ^ shape, offset)
}

/// A record header taken apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawHeader {
    pub(super) crc: u32,
    pub(super) len: u32,
    kind: u8,
}

impl RawHeader {
    /// What the record is; `None` if no version writes such.
    pub(super) fn kind(&self) -> Option<RecordType> {
        RecordType::from_byte(self.kind)
    }

    /// True if this is the header of a record with this payload at this place.
    #[inline]
    pub(super) fn fits(&self, salt: u64, offset: u64, payload: &[u8]) -> bool {
        payload.len() == self.len as usize
            && record_checksum(salt, offset, self.kind, self.len, payload) == self.crc
    }
}

pub(super) fn parse_header(bytes: &[u8]) -> Option<RawHeader> {
    let mut input = bytes;
    let crc = take_u32(&mut input)?;
    let len = take_u32(&mut input)?;
    let kind = take_u8(&mut input)?;
    Some(RawHeader { crc, len, kind })
}

/// The durable length that a mark's payload states.
pub(super) fn mark_offset(payload: &[u8]) -> Option<u64> {
    let mut input = payload;
    if take_bytes(&mut input, 8)? != MARK_MAGIC {
        return None;
    }
    let offset = take_u64(&mut input)?;
    input.is_empty().then_some(offset)
}

pub(super) fn mark_payload(durable_bytes: u64) -> [u8; MARK_PAYLOAD_BYTES] {
    let mut payload = [0; MARK_PAYLOAD_BYTES];
    payload[..8].copy_from_slice(MARK_MAGIC);
    payload[8..].copy_from_slice(&durable_bytes.to_le_bytes());
    payload
}

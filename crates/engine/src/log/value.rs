//! Values as records of logs: what points to them, and reading one.

use super::format::{RECORD_HEADER_BYTES, RecordType, parse_header};
use esker_base::coding::{put_varint, take_varint, take_varint_u32};
use esker_base::heap::{Heap, SharedBytes};
use esker_base::key::SEQ_MAX;
use esker_base::vfs::ReadableFile;
use esker_base::{Error, Result};
use std::path::Path;

/// Stands in memtables and tables where the value would.
///
/// It names the log that the value was written to, for ever: where the value stands by now, if it
/// was moved, the version knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ValuePointer {
    /// Number of the log.
    pub(crate) log: u64,
    /// Where in it the record begins.
    pub(crate) offset_bytes: u64,
    /// Length of the value as it is stored.
    pub(crate) stored_bytes: u32,
}

impl ValuePointer {
    /// Appends the encoded form: three varints.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.log);
        put_varint(out, self.offset_bytes);
        put_varint(out, u64::from(self.stored_bytes));
    }

    /// The pointer that these bytes are, all of them; `None` if they are none.
    #[inline]
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<ValuePointer> {
        let pointer = ValuePointer {
            log: take_varint(&mut bytes)?,
            offset_bytes: take_varint(&mut bytes)?,
            stored_bytes: take_varint_u32(&mut bytes)?,
        };
        let bounded = pointer.log <= SEQ_MAX && pointer.offset_bytes <= SEQ_MAX;
        (bytes.is_empty() && bounded).then_some(pointer)
    }

    /// Bytes of the file that the value takes.
    #[inline]
    pub(crate) fn record_bytes(&self) -> u64 {
        RECORD_HEADER_BYTES as u64 + u64::from(self.stored_bytes)
    }
}

/// A value as it is stored: a window of the bytes that were read.
#[derive(Clone, Debug)]
pub(crate) struct StoredValue {
    pub(crate) codec: u8,
    pub(crate) data: SharedBytes,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl StoredValue {
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }
}

/// A log that values are read from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueSource<'a> {
    pub(crate) file: &'a dyn ReadableFile,
    pub(crate) path: &'a Path,
    /// What its records are bound to.
    pub(crate) salt: u64,
    /// No record ends behind this.
    pub(crate) file_bytes: u64,
}

impl ValueSource<'_> {
    /// Reads the value whose record begins at `at`, by one system call, and checks it.
    ///
    /// # Errors
    /// `Corruption` if no such value stands there; `Io`.
    pub(crate) fn read(&self, heap: &Heap, at: u64, stored_bytes: u32) -> Result<StoredValue> {
        let whole = self.whole_bytes(at, stored_bytes)?;
        let (data, codec) = SharedBytes::filled(heap, whole, |out| self.read_record(at, out));
        Ok(StoredValue { codec: codec?, start: RECORD_HEADER_BYTES, end: data.len(), data })
    }

    /// Length of a whole record that may stand at `at`.
    pub(crate) fn whole_bytes(&self, at: u64, stored_bytes: u32) -> Result<usize> {
        let whole = RECORD_HEADER_BYTES as u64 + u64::from(stored_bytes);
        if at.checked_add(whole).is_none_or(|end| end > self.file_bytes) {
            return Err(self.damaged(at, "a value would lie beyond the end of the file"));
        }
        match u32::try_from(whole) {
            Ok(whole) => Ok(whole as usize),
            Err(_) => Err(self.damaged(at, "a value would be longer than a value can be")),
        }
    }

    fn read_record(&self, at: u64, out: &mut [u8]) -> Result<u8> {
        if self.file.read_at(at, out)? != out.len() {
            return Err(self.damaged(at, "a value is cut short"));
        }
        self.check(at, out)
    }

    /// The codec of the value whose whole record these bytes are, as they stand at `at`.
    ///
    /// # Errors
    /// `Corruption` if they are not.
    pub(crate) fn check(&self, at: u64, record: &[u8]) -> Result<u8> {
        let found = parse_header(record).and_then(|raw| match raw.kind()? {
            RecordType::Value { codec } => Some((raw, codec)),
            RecordType::Data | RecordType::Mark => None,
        });
        match found {
            Some((raw, codec)) if raw.fits(self.salt, at, &record[RECORD_HEADER_BYTES..]) => {
                Ok(codec)
            }
            _ => Err(self.damaged(at, "a value fails its checksum")),
        }
    }

    /// Checks that these bytes are the whole record at `at`, which is no value.
    ///
    /// # Errors
    /// `Corruption` if they are not.
    pub(crate) fn check_data(&self, at: u64, record: &[u8]) -> Result<()> {
        let sound = parse_header(record).is_some_and(|raw| {
            raw.kind() == Some(RecordType::Data)
                && raw.fits(self.salt, at, &record[RECORD_HEADER_BYTES..])
        });
        if sound { Ok(()) } else { Err(self.damaged(at, "a record fails its checksum")) }
    }

    /// Length of the whole record that begins with these bytes, by what its header says.
    pub(crate) fn record_bytes(header: &[u8]) -> Option<u64> {
        let raw = parse_header(header)?;
        Some(RECORD_HEADER_BYTES as u64 + u64::from(raw.len))
    }

    #[cold]
    pub(crate) fn damaged(&self, at: u64, what: &'static str) -> Error {
        Error::corruption(self.path, at, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_round_trip_and_nothing_else_is_one() {
        for pointer in [
            ValuePointer { log: 1, offset_bytes: 40, stored_bytes: 0 },
            ValuePointer { log: SEQ_MAX, offset_bytes: SEQ_MAX, stored_bytes: u32::MAX },
            ValuePointer { log: 300, offset_bytes: 1 << 40, stored_bytes: 5_000 },
        ] {
            let mut bytes = Vec::new();
            pointer.encode(&mut bytes);
            assert_eq!(ValuePointer::decode(&bytes), Some(pointer));
            for cut in 0..bytes.len() {
                assert_eq!(ValuePointer::decode(&bytes[..cut]), None, "cut at {cut}");
            }
            bytes.push(0);
            assert_eq!(ValuePointer::decode(&bytes), None, "a byte more");
        }
    }
}

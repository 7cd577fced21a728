//! Values as they are stored: compressed where that saves enough, as blocks are.

use crate::block::{Damage, Sealer, expand, expand_into};
use crate::log::{CODEC_MAX, RECORD_HEADER_BYTES, StoredValue};
use crate::options::Compression;
use crate::value::Value;
use esker_base::heap::Heap;
use std::cell::RefCell;

const _: () = assert!(CODEC_MAX == crate::block::CODEC_MAX);

/// A value, ready to be written.
#[derive(Debug)]
pub(crate) enum Packed {
    /// As it is.
    Plain,
    /// As a codec left it.
    Compressed { codec: u8, stored: Box<[u8]> },
}

impl Packed {
    /// The codec, and the bytes to be stored for this value.
    pub(crate) fn parts<'a>(&'a self, value: &'a [u8]) -> (u8, &'a [u8]) {
        match self {
            Packed::Plain => (0, value),
            Packed::Compressed { codec, stored } => (*codec, stored),
        }
    }
}

thread_local! {
    static SEALER: RefCell<Sealer> = RefCell::new(Sealer::new());
}

/// Compresses a value, if that saves an eighth.
pub(crate) fn pack(value: &[u8], compression: Compression) -> Packed {
    if compression == Compression::None {
        return Packed::Plain;
    }
    SEALER.with(|sealer| match sealer.borrow_mut().compress_value(value, compression) {
        Some((codec, stored)) => Packed::Compressed { codec, stored: stored.into() },
        None => Packed::Plain,
    })
}

/// Holds one value after the other.
#[derive(Debug, Default)]
pub(crate) struct ValueBuffer {
    /// The whole record of a value.
    pub(super) record: Vec<u8>,
    /// What was compressed, at the front of what was there before.
    expanded: Vec<u8>,
    expanded_bytes: Option<usize>,
}

impl ValueBuffer {
    /// Makes a value of the record.
    pub(super) fn unpack(&mut self, codec: u8) -> Result<(), Damage> {
        let stored = &self.record[RECORD_HEADER_BYTES..];
        self.expanded_bytes = match codec {
            0 => None,
            _ => Some(expand_into(codec, stored, &mut self.expanded)?),
        };
        Ok(())
    }

    /// The value that was read last.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        match self.expanded_bytes {
            Some(bytes) => &self.expanded[..bytes],
            None => self.record.get(RECORD_HEADER_BYTES..).unwrap_or(&[]),
        }
    }
}

/// The value that these stored bytes stand for.
pub(super) fn unpack(heap: &Heap, stored: StoredValue) -> Result<Value, Damage> {
    if stored.codec == 0 {
        return Ok(Value::shared(stored.data, stored.start, stored.end));
    }
    let bytes = expand(heap, stored.codec, stored.bytes())?;
    let end = bytes.len();
    Ok(Value::shared(bytes, 0, end))
}

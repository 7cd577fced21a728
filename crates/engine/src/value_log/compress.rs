//! Values as they are stored: compressed where that saves enough, as blocks are.

use crate::block::{Damage, Sealer, expand};
use crate::log::{CODEC_MAX, StoredValue};
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
    let by_own = SEALER.try_with(|sealer| {
        let mut sealer = sealer.try_borrow_mut().ok()?;
        Some(pack_by(&mut sealer, value, compression))
    });
    // A thread that is ending has none any more.
    by_own.ok().flatten().unwrap_or_else(|| pack_by(&mut Sealer::new(), value, compression))
}

fn pack_by(sealer: &mut Sealer, value: &[u8], compression: Compression) -> Packed {
    let packed = match sealer.compress_value(value, compression) {
        Some((codec, stored)) => Packed::Compressed { codec, stored: stored.into() },
        None => Packed::Plain,
    };
    // The thread may live long, and write none as large again.
    sealer.forget_long();
    packed
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_no_memory_of_a_long_value() {
        let long: Vec<u8> =
            (0..4u32 << 20).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        for compression in [Compression::Lz4, Compression::Zstd { level: 1 }] {
            for value in [&long[..], &vec![7; 4 << 20]] {
                let mut sealer = Sealer::new();
                let packed = pack_by(&mut sealer, value, compression);
                assert!(packed.parts(value).1.len() <= value.len());
                assert!(sealer.scratch_bytes() <= 1 << 20);
            }
        }
    }
}

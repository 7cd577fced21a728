//! How a payload becomes bytes of a file and back: compression, checksum, place.
//!
//! Format: docs/format/block.md, "Envelope".
//! Invariants: (1) a length from disk is bounded by the bytes that carry it before anything is
//! allocated: no payload is larger than 64 KiB or 256 times its stored bytes; the writer stores
//! whatever would break that rule in another way.

use super::{Damage, Payload};
use crate::options::Compression;
use esker_base::checksum;
use esker_base::heap::{Heap, SharedBytes};
use lz4_flex::block::CompressTable;
use std::cell::RefCell;

/// Bytes behind each stored payload: the codec and the checksum.
pub const TRAILER_BYTES: usize = 5;

/// The payload as it is.
pub(crate) const CODEC_NONE: u8 = 0;
const CODEC_LZ4: u8 = 1;
const CODEC_ZSTD: u8 = 2;
/// The greatest number of a codec.
pub(crate) const CODEC_MAX: u8 = CODEC_ZSTD;

/// The length of the uncompressed payload stands before compressed bytes.
const LENGTH_BYTES: usize = 4;
const PAYLOAD_BYTES_MAX: usize = i32::MAX as usize;
/// LZ4 takes no more at once.
const LZ4_BYTES_MAX: usize = 0x7E00_0000;
const EXPANSION_MAX: usize = 256;
const PAYLOAD_BYTES_ALWAYS: usize = 64 << 10;
/// The longest scratch that stays where payloads are of any length.
const SCRATCH_KEPT_BYTES_MAX: usize = 1 << 20;

/// The most bytes that `stored` bytes may stand for.
fn payload_bytes_max(stored: usize) -> usize {
    stored.saturating_mul(EXPANSION_MAX).clamp(PAYLOAD_BYTES_ALWAYS, PAYLOAD_BYTES_MAX)
}

/// Turns payloads into stored blocks; keeps its working memory from block to block.
#[derive(Default)]
pub struct Sealer {
    /// The stored form, and behind it what is left of earlier ones: as long as the longest could
    /// have been.
    scratch: Vec<u8>,
    lz4: CompressTable,
    zstd: Option<(i32, zstd::bulk::Compressor<'static>)>,
}

impl Sealer {
    /// A sealer that has seen nothing yet.
    pub fn new() -> Sealer {
        Sealer::default()
    }

    /// Makes the payload `out[start..]` a stored block with its trailer, compressing it if that
    /// saves at least an eighth. `offset_bytes` is where in the file it is going to begin.
    ///
    /// Returns the stored bytes without the trailer.
    pub fn seal(
        &mut self,
        out: &mut Vec<u8>,
        start: usize,
        compression: Compression,
        salt: u64,
        offset_bytes: u64,
    ) -> u32 {
        let compressed = self.compress(&out[start..], compression);
        let codec = compressed.map_or(CODEC_NONE, |(codec, stored)| {
            out.truncate(start);
            out.extend_from_slice(&self.scratch[..stored]);
            codec
        });
        let stored = out.len() - start;
        assert!(stored <= PAYLOAD_BYTES_MAX, "a block is shorter than 2 GiB");
        out.push(codec);
        let crc = checksum::crc32c(&out[start..]);
        out.extend_from_slice(&checksum::bind(crc, salt, offset_bytes).to_le_bytes());
        stored as u32
    }

    /// Leaves the stored form at the front of `scratch`; the codec and its length, or `None` if it
    /// does not save enough.
    fn compress(&mut self, payload: &[u8], compression: Compression) -> Option<(u8, usize)> {
        let written = match compression {
            Compression::None => None,
            Compression::Lz4 => self.lz4(payload),
            Compression::Zstd { level } => {
                let written = self.zstd(payload, level);
                // What shrinks beyond the bound is left to LZ4, which cannot shrink that far.
                written
                    .filter(|&(_, stored)| payload.len() <= payload_bytes_max(stored))
                    .or_else(|| self.lz4(payload))
            }
        };
        let (codec, stored) = written?;
        let saves = payload.len().saturating_sub(stored) >= (payload.len() / 8).max(1);
        if !saves || payload.len() > payload_bytes_max(stored) {
            return None;
        }
        self.scratch[..LENGTH_BYTES].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        Some((codec, stored))
    }

    /// The stored form of a value that stands alone, and its codec; `None` if it is to be stored as
    /// it is.
    pub(crate) fn compress_value(
        &mut self,
        value: &[u8],
        compression: Compression,
    ) -> Option<(u8, &[u8])> {
        let (codec, stored) = self.compress(value, compression)?;
        Some((codec, &self.scratch[..stored]))
    }

    #[cfg(test)]
    pub(crate) fn scratch_bytes(&self) -> usize {
        self.scratch.capacity()
    }

    /// Gives back the working memory that a long payload took.
    pub(crate) fn forget_long(&mut self) {
        if self.scratch.capacity() > SCRATCH_KEPT_BYTES_MAX {
            self.scratch = Vec::new();
        }
    }

    fn lz4(&mut self, payload: &[u8]) -> Option<(u8, usize)> {
        if payload.len() > LZ4_BYTES_MAX {
            return None;
        }
        let most = lz4_flex::block::get_maximum_output_size(payload.len());
        let out = room(&mut self.scratch, most);
        let written = lz4_flex::block::compress_into_with_table(payload, out, &mut self.lz4);
        written.ok().map(|n| (CODEC_LZ4, LENGTH_BYTES + n))
    }

    fn zstd(&mut self, payload: &[u8], level: i32) -> Option<(u8, usize)> {
        if self.zstd.as_ref().is_none_or(|(l, _)| *l != level) {
            self.zstd = zstd::bulk::Compressor::new(level).ok().map(|c| (level, c));
        }
        let (_, compressor) = self.zstd.as_mut()?;
        let out = room(&mut self.scratch, zstd::zstd_safe::compress_bound(payload.len()));
        let written = compressor.compress_to_buffer(payload, out);
        written.ok().map(|n| (CODEC_ZSTD, LENGTH_BYTES + n))
    }
}

/// Room for so many bytes behind the length.
fn room(scratch: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if scratch.len() < LENGTH_BYTES + bytes {
        scratch.resize(LENGTH_BYTES + bytes, 0);
    }
    &mut scratch[LENGTH_BYTES..][..bytes]
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").finish_non_exhaustive()
    }
}

/// Checks a stored block and its trailer, `data[start..start + stored + TRAILER_BYTES]`, and
/// gives its payload: a window of `data` if it is not compressed, or else new bytes from `heap`.
///
/// # Errors
/// A reason if the bytes are not what was written for this place of this file.
pub fn open_payload(
    heap: &Heap,
    data: &SharedBytes,
    start: usize,
    stored: usize,
    salt: u64,
    offset_bytes: u64,
) -> Result<Payload, Damage> {
    let Some(whole) = data.get(start..).and_then(|d| d.get(..stored + TRAILER_BYTES)) else {
        return Err(Damage("block is cut short"));
    };
    match check(whole, salt, offset_bytes)? {
        (CODEC_NONE, _) => Ok(Payload { data: data.clone(), start, end: start + stored }),
        (codec, stored) => expand(heap, codec, stored).map(whole_payload),
    }
}

/// As [`open_payload`] of all of `data`, which is not kept: the payload is always new bytes.
///
/// # Errors
/// As [`open_payload`].
pub fn copy_payload(
    heap: &Heap,
    data: &[u8],
    salt: u64,
    offset_bytes: u64,
) -> Result<Payload, Damage> {
    let bytes = match check(data, salt, offset_bytes)? {
        (CODEC_NONE, stored) => SharedBytes::copied(heap, stored),
        (codec, stored) => expand(heap, codec, stored)?,
    };
    Ok(whole_payload(bytes))
}

fn whole_payload(data: SharedBytes) -> Payload {
    let end = data.len();
    Payload { data, start: 0, end }
}

/// The codec of a stored block with its trailer, and the bytes without it, if the checksum is
/// right.
fn check(whole: &[u8], salt: u64, offset_bytes: u64) -> Result<(u8, &[u8]), Damage> {
    let Some((summed, sum)) = whole.split_last_chunk::<4>() else {
        return Err(Damage("block is cut short"));
    };
    let crc = checksum::bind(checksum::crc32c(summed), salt, offset_bytes);
    if crc.to_le_bytes() != *sum {
        return Err(Damage("block checksum does not match"));
    }
    let (&codec, stored) = summed.split_last().ok_or(Damage("block is cut short"))?;
    Ok((codec, stored))
}

/// The name of a codec, for people.
pub(crate) fn codec_name(codec: u8) -> &'static str {
    match codec {
        CODEC_NONE => "none",
        CODEC_LZ4 => "lz4",
        CODEC_ZSTD => "zstd",
        _ => "unknown",
    }
}

/// As [`expand`] from `at` on in `out`, which is made longer if need be. Returns where in it the
/// payload ends.
pub(crate) fn expand_into(
    codec: u8,
    stored: &[u8],
    out: &mut Vec<u8>,
    at: usize,
) -> Result<usize, Damage> {
    let Compressed { length, bytes, expand } = Compressed::new(codec, stored)?;
    let end = at + length;
    if out.len() < end {
        out.resize(end, 0);
    }
    match expand(bytes, &mut out[at..end]) {
        Some(written) if written == length => Ok(end),
        _ => Err(Damage("compressed block does not decompress")),
    }
}

/// Length of what these stored bytes expand to, as they declare it.
///
/// # Errors
/// If that is more than they can expand to.
pub(crate) fn expanded_bytes(codec: u8, stored: &[u8]) -> Result<usize, Damage> {
    Compressed::new(codec, stored).map(|compressed| compressed.length)
}

/// What a codec has made, and how it is undone.
struct Compressed<'a> {
    length: usize,
    bytes: &'a [u8],
    expand: fn(&[u8], &mut [u8]) -> Option<usize>,
}

impl Compressed<'_> {
    fn new(codec: u8, stored: &[u8]) -> Result<Compressed<'_>, Damage> {
        let Some((length, bytes)) = stored.split_first_chunk::<LENGTH_BYTES>() else {
            return Err(Damage("compressed block is cut short"));
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > payload_bytes_max(stored.len()) {
            return Err(Damage("compressed block declares an implausible length"));
        }
        let expand: fn(&[u8], &mut [u8]) -> Option<usize> = match codec {
            CODEC_LZ4 => unlz4,
            CODEC_ZSTD => unzstd,
            _ => return Err(Damage("block is compressed in an unknown way")),
        };
        Ok(Compressed { length, bytes, expand })
    }
}

/// What `codec` has made `stored` of.
pub(crate) fn expand(heap: &Heap, codec: u8, stored: &[u8]) -> Result<SharedBytes, Damage> {
    let Compressed { length, bytes, expand } = Compressed::new(codec, stored)?;
    let (payload, written) = SharedBytes::filled(heap, length, |out| expand(bytes, out));
    if written != Some(length) {
        return Err(Damage("compressed block does not decompress"));
    }
    Ok(payload)
}

/// By the C library, in half the time; see docs/decisions/lz4.md.
fn unlz4(compressed: &[u8], out: &mut [u8]) -> Option<usize> {
    let length = i32::try_from(out.len()).ok()?;
    lz4::block::decompress_to_buffer(compressed, Some(length), out).ok()
}

fn unzstd(compressed: &[u8], out: &mut [u8]) -> Option<usize> {
    thread_local! {
        // A context is far larger than a block; one a thread is kept.
        static CONTEXT: RefCell<Option<zstd::bulk::Decompressor<'static>>> =
            const { RefCell::new(None) };
    }
    let by_own = CONTEXT.try_with(|context| {
        let mut context = context.try_borrow_mut().ok()?;
        if context.is_none() {
            *context = zstd::bulk::Decompressor::new().ok();
        }
        Some(context.as_mut()?.decompress_to_buffer(compressed, out).ok())
    });
    match by_own {
        Ok(Some(written)) => written,
        // A thread that is ending has none any more.
        _ => zstd::bulk::Decompressor::new().ok()?.decompress_to_buffer(compressed, out).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(payload: &[u8], compression: Compression) -> usize {
        let mut out = b"before".to_vec();
        out.extend_from_slice(payload);
        let stored = Sealer::new().seal(&mut out, 6, compression, 11, 4_096) as usize;
        assert_eq!(out.len(), 6 + stored + TRAILER_BYTES);
        let data = SharedBytes::from(&out[..]);
        let heap = Heap::global();
        let got = open_payload(&heap, &data, 6, stored, 11, 4_096).expect("opens");
        assert!(got.bytes() == payload, "another payload came back");
        let copied = copy_payload(&heap, &data[6..], 11, 4_096).expect("opens");
        assert_eq!(copied.bytes(), got.bytes());
        assert!(copy_payload(&heap, &data[6..], 12, 4_096).is_err(), "another file");
        assert!(copy_payload(&heap, &data[7..], 11, 4_096).is_err(), "cut short");
        assert!(copy_payload(&heap, &[], 11, 4_096).is_err(), "nothing");
        assert!(open_payload(&heap, &data, 6, stored, 12, 4_096).is_err(), "another file");
        assert!(open_payload(&heap, &data, 6, stored, 11, 4_097).is_err(), "another place");
        assert!(open_payload(&heap, &data, 6, stored + 1, 11, 4_096).is_err(), "beyond the end");
        stored
    }

    #[test]
    fn a_short_payload_does_not_grow() {
        for len in 0..8 {
            for compression in [Compression::Lz4, Compression::Zstd { level: 3 }] {
                assert_eq!(round_trip(&[7; 8][..len], compression), len);
            }
        }
    }

    #[test]
    fn payloads_round_trip() {
        let mut state = 1u64;
        let noise: Vec<u8> = (0..5_000)
            .map(|_| {
                state = checksum::mix64(state.wrapping_add(1));
                state as u8
            })
            .collect();
        let text = b"some words come again and some words do not; ".repeat(100);
        let zeros = vec![0; 3 << 20];
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd { level: 3 }] {
            assert_eq!(round_trip(&noise, compression), noise.len(), "noise stays raw");
            let text_stored = round_trip(&text, compression);
            let zeros_stored = round_trip(&zeros, compression);
            if compression != Compression::None {
                assert!(text_stored < text.len() / 2);
                assert!(zeros_stored < zeros.len() / 100);
                assert!(zeros.len() <= zeros_stored * EXPANSION_MAX);
            }
        }
    }

    #[test]
    fn whatever_is_expanded_stays_within_its_length() {
        let text = b"some words come again and some words do not; ".repeat(20);
        let mut sealer = Sealer::new();
        let (codec, stored) = sealer.compress(&text, Compression::Lz4).expect("it shrinks");
        assert_eq!(codec, CODEC_LZ4);
        let good = sealer.scratch[..stored].to_vec();
        let expand = |stored: &[u8]| expand(&Heap::global(), CODEC_LZ4, stored);
        assert_eq!(expand(&good).expect("whole")[..], text[..]);
        for at in LENGTH_BYTES..good.len() {
            assert!(expand(&good[..at]).is_err(), "cut at {at}");
            for flip in [1, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] ^= flip;
                assert!(expand(&bad).is_ok_and(|p| p.len() == text.len()) || expand(&bad).is_err());
            }
        }
        for length in [text.len() as u32 - 1, text.len() as u32 + 1] {
            let other = [&length.to_le_bytes(), &good[LENGTH_BYTES..]].concat();
            assert!(expand(&other).is_err(), "declared as {length}");
        }
    }

    #[test]
    fn a_declared_length_is_bounded_before_memory_is_taken() {
        for codec in [CODEC_LZ4, CODEC_ZSTD] {
            let mut stored = u32::MAX.to_le_bytes().to_vec();
            stored.extend_from_slice(b"abc");
            let why = expand(&Heap::global(), codec, &stored).expect_err("too long");
            assert_eq!(why, Damage("compressed block declares an implausible length"));
        }
        assert!(expand(&Heap::global(), 9, &[0, 0, 0, 0, 0]).is_err());
        assert!(expand(&Heap::global(), CODEC_LZ4, &[]).is_err());
    }
}

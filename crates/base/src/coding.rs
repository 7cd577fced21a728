//! Byte coding: little-endian fixed integers, LEB128 varints, length-prefixed slices.
//!
//! Decoding never trusts its input: each `take_*` checks the bound, advances the slice, and
//! returns `None` where the bytes do not hold a whole value. Nothing is allocated here.

/// Longest encoding of a `u64` varint.
pub const VARINT_U64_BYTES_MAX: usize = 10;

/// Appends `value` as a LEB128 varint (1 to 10 bytes).
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes `value` as a varint to the front of `out`, which has [`varint_len`] bytes at least; how
/// many.
///
/// # Panics
/// If `out` is shorter.
#[inline]
pub fn write_varint(out: &mut [u8], mut value: u64) -> usize {
    let mut at = 0;
    while value >= 0x80 {
        out[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    out[at] = value as u8;
    at + 1
}

/// Appends a varint length and the bytes.
#[inline]
pub fn put_slice(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a little-endian `u32`.
#[inline]
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a little-endian `u64`.
#[inline]
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Bytes that [`put_varint`] uses for `value`.
#[inline]
pub const fn varint_len(value: u64) -> usize {
    // One byte for every started group of seven significant bits.
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Takes a varint off the front of `input`.
#[inline]
pub fn take_varint(input: &mut &[u8]) -> Option<u64> {
    let &first = input.first()?;
    if first < 0x80 {
        *input = &input[1..];
        return Some(u64::from(first));
    }
    take_varint_long(input)
}

fn take_varint_long(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (i, &byte) in input.iter().enumerate().take(VARINT_U64_BYTES_MAX) {
        let low = u64::from(byte & 0x7f);
        if i == VARINT_U64_BYTES_MAX - 1 && low > 1 {
            return None;
        }
        value |= low << (7 * i);
        if byte < 0x80 {
            *input = &input[i + 1..];
            return Some(value);
        }
    }
    None
}

/// Takes a varint that must fit a `u32`.
#[inline]
pub fn take_varint_u32(input: &mut &[u8]) -> Option<u32> {
    take_varint(input).and_then(|v| u32::try_from(v).ok())
}

/// Takes `len` bytes.
#[inline]
pub fn take_bytes<'a>(input: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    if len > input.len() {
        return None;
    }
    let (head, tail) = input.split_at(len);
    *input = tail;
    Some(head)
}

/// Takes a varint length and that many bytes.
#[inline]
pub fn take_slice<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = take_varint(input)?;
    take_bytes(input, usize::try_from(len).ok()?)
}

/// Takes one byte.
#[inline]
pub fn take_u8(input: &mut &[u8]) -> Option<u8> {
    take_bytes(input, 1).map(|b| b[0])
}

/// Takes a little-endian `u32`.
#[inline]
pub fn take_u32(input: &mut &[u8]) -> Option<u32> {
    take_bytes(input, 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes)
}

/// Takes a little-endian `u64`.
#[inline]
pub fn take_u64(input: &mut &[u8]) -> Option<u64> {
    take_bytes(input, 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varint_round_trips_at_every_width() {
        let mut values = vec![0, 1, u64::MAX];
        for shift in 0..64 {
            values.extend([1u64 << shift, (1u64 << shift) - 1, (1u64 << shift) + 1]);
        }
        for value in values {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(bytes.len(), varint_len(value), "length of {value}");
            let mut written = vec![0; bytes.len()];
            assert_eq!((write_varint(&mut written, value), &written), (bytes.len(), &bytes));
            let mut input = &bytes[..];
            assert_eq!(take_varint(&mut input), Some(value));
            assert!(input.is_empty());
            for cut in 0..bytes.len() {
                assert_eq!(take_varint(&mut &bytes[..cut]), None, "{value} cut at {cut}");
            }
        }
    }

    #[test]
    fn varint_refuses_more_than_64_bits() {
        let mut bytes = vec![0xff; 9];
        bytes.push(0x02);
        assert_eq!(take_varint(&mut &bytes[..]), None);
        assert_eq!(take_varint(&mut &[0x80u8; 11][..]), None);
    }

    #[test]
    fn slice_refuses_a_length_beyond_the_input() {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, u64::MAX);
        bytes.extend_from_slice(b"abc");
        assert_eq!(take_slice(&mut &bytes[..]), None);
    }
}

//! Coded values in keys: in the order of the values, and so that another key can follow.
//!
//! Format: docs/format/fields.md.
//! Source: the tuple layer of FoundationDB. Differs: a value ends with two bytes, so that any bytes
//! may follow.

use std::borrow::Cow;

const ESCAPED: u8 = 0x00;

/// Behind [`ESCAPED`]: the byte 0 itself.
const ZERO: u8 = 0xff;

/// Behind [`ESCAPED`]: the end of the value. Less than every byte that may go on there, so that a
/// value comes before those it is the beginning of.
const END: u8 = 0x01;

/// Appends a coded value, of which any key may follow.
///
/// Of two keys made so the one with the lesser value is the lesser; of two with the same value the
/// one with the lesser rest. Any bytes may be given in the place of a coded value.
pub fn put_index_value(out: &mut Vec<u8>, coded: &[u8]) {
    out.reserve(coded.len() + 2);
    for piece in coded.split_inclusive(|&byte| byte == ESCAPED) {
        out.extend_from_slice(piece);
        if piece.last() == Some(&ESCAPED) {
            out.push(ZERO);
        }
    }
    out.extend_from_slice(&[ESCAPED, END]);
}

/// Divides a key into the coded value that it begins with and the rest; `None` if
/// [`put_index_value`] makes no such key.
///
/// # Cost
/// Copies the value if it holds a byte 0.
pub fn split_index_key(bytes: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let mut copied = Vec::new();
    let mut from = 0;
    loop {
        let zero = from + bytes[from..].iter().position(|&byte| byte == ESCAPED)?;
        let piece = &bytes[from..zero];
        let rest = &bytes[zero + 1..];
        match *rest.first()? {
            ZERO => {
                copied.extend_from_slice(piece);
                copied.push(ESCAPED);
            }
            END if copied.is_empty() => return Some((Cow::Borrowed(piece), &rest[1..])),
            END => {
                copied.extend_from_slice(piece);
                return Some((Cow::Owned(copied), &rest[1..]));
            }
            _ => return None,
        }
        from = zero + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(coded: &[u8], rest: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_index_value(&mut out, coded);
        out.extend_from_slice(rest);
        out
    }

    #[test]
    fn values_are_escaped_and_ended() {
        assert_eq!(key(b"", b""), [0, 1]);
        assert_eq!(key(b"ab", b"k"), [b'a', b'b', 0, 1, b'k']);
        assert_eq!(key(&[0], b""), [0, 0xff, 0, 1]);
        assert_eq!(key(&[1, 0, 0, 2], &[0]), [1, 0, 0xff, 0, 0xff, 2, 0, 1, 0]);
    }

    #[test]
    fn keys_are_divided_and_copied_only_where_something_was_escaped() {
        let bytes = key(b"ab", &[0xff, 0]);
        let (coded, rest) = split_index_key(&bytes).expect("a key");
        assert!(matches!(coded, Cow::Borrowed(b"ab")));
        assert_eq!(rest, [0xff, 0]);
        let bytes = key(&[0, 7, 0], b"");
        let (coded, rest) = split_index_key(&bytes).expect("a key");
        assert_eq!((&*coded, rest), (&[0, 7, 0][..], &[][..]));
    }

    #[test]
    fn what_is_no_such_key_is_refused() {
        for bytes in
            [&[][..], b"a", &[0], &[b'a', 0], &[0, 0xff], &[0, 0, 1], &[0, 2], &[1, 0, 0xfe]]
        {
            assert_eq!(split_index_key(bytes), None, "{bytes:x?}");
        }
    }
}

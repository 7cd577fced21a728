//! The bytes of a record: head, fields one after the other, names.
//!
//! Format: docs/format/fields.md.

use super::value::FieldRef;
use esker_base::coding::{put_slice, put_varint, take_slice, take_u8, take_varint, varint_len};
use esker_base::{Error, Result};

/// The longest name of a field, in bytes. The shortest has one.
pub const NAME_BYTES_MAX: usize = 255;

/// The first byte of a record. No ASCII text begins with it, and no short text of another script
/// looks like a record: as a head, its next bytes would be a number of fields that do not fit.
pub(super) const FORMAT: u8 = 0xe1;

/// What the shortest field takes: two lengths, a name of one byte, a tag.
pub(super) const FIELD_BYTES_MIN: u64 = 4;

/// Checks the name of a field that is to be written.
///
/// # Errors
/// `InvalidArgument`: it is empty or too long.
pub(crate) fn check_name(name: &str) -> Result<()> {
    match name.len() {
        1..=NAME_BYTES_MAX => Ok(()),
        0 => Err(Error::invalid("the name of a field is empty: give it 1 to 255 bytes")),
        len => Err(Error::invalid(format!(
            "the name of a field has {len} bytes: give it 1 to 255; this one begins with {:?}",
            name.chars().take(32).collect::<String>()
        ))),
    }
}

/// Appends what stands before the fields.
pub(super) fn put_head(out: &mut Vec<u8>, count: u64) {
    out.push(FORMAT);
    put_varint(out, count);
}

/// Appends a field.
pub(super) fn put_field(out: &mut Vec<u8>, name: &str, value: FieldRef<'_>) {
    put_slice(out, name.as_bytes());
    put_varint(out, value.coded_bytes() as u64);
    value.put_coded(out);
}

/// Bytes of a head.
pub(super) fn head_bytes(count: u64) -> usize {
    1 + varint_len(count)
}

/// Bytes of a field.
pub(super) fn field_bytes(name: &str, value: FieldRef<'_>) -> usize {
    let coded = value.coded_bytes();
    varint_len(name.len() as u64) + name.len() + varint_len(coded as u64) + coded
}

/// Takes a varint that is no longer than its number needs.
#[inline]
pub(super) fn take_shortest(input: &mut &[u8]) -> Option<u64> {
    let before = input.len();
    let value = take_varint(input)?;
    (before - input.len() == varint_len(value)).then_some(value)
}

/// Goes from field to field, checking bounds and nothing else: name and coded value of each.
///
/// Ends at the first field that does not lie inside of the bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk<'a> {
    /// What has not been walked yet.
    pub(super) rest: &'a [u8],
    /// Fields in it.
    pub(super) left: u64,
}

impl<'a> Walk<'a> {
    /// Stands before the first field; `None` if the bytes do not begin as a record does, or are too
    /// few for the number of fields that they speak of.
    #[inline]
    pub(super) fn begin(bytes: &'a [u8]) -> Option<Walk<'a>> {
        let mut rest = bytes;
        if take_u8(&mut rest)? != FORMAT {
            return None;
        }
        let left = take_shortest(&mut rest)?;
        (left <= rest.len() as u64 / FIELD_BYTES_MIN).then_some(Walk { rest, left })
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let field = take_slice(&mut self.rest).zip(take_slice(&mut self.rest));
        if field.is_none() {
            self.left = 0;
        }
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_1_to_255_bytes() {
        for len in [1, 2, 254, NAME_BYTES_MAX] {
            check_name(&"n".repeat(len)).expect("a name");
        }
        let message = |name: &str| check_name(name).expect_err("refused").to_string();
        assert!(message("").contains("is empty"));
        assert!(message(&"n".repeat(256)).contains("has 256 bytes"));
        // 128 characters, which are too many bytes.
        assert!(message(&"é".repeat(128)).contains("has 256 bytes"));
    }

    #[test]
    fn only_the_shortest_varint_is_taken() {
        for (bytes, value) in [(&[0][..], Some(0)), (&[0x80, 1], Some(128)), (&[0x80, 0], None)] {
            assert_eq!(take_shortest(&mut &bytes[..]), value);
        }
        assert_eq!(take_shortest(&mut &[0xff, 0x80, 0][..]), None);
        assert_eq!(take_shortest(&mut &[0x80][..]), None);
    }

    #[test]
    fn no_short_text_begins_as_a_record_does() {
        // Every character whose first byte in UTF-8 is that of records, with what stands behind it
        // in a text.
        for code in 0x1000..0x2000 {
            let text = char::from_u32(code).expect("no surrogate").to_string();
            assert_eq!(text.as_bytes()[0], FORMAT);
            for behind in ["", "a", "\0", "\u{1}", "\u{80}", "\u{1000}\u{1000}"] {
                let text = format!("{text}{behind}{}", "x".repeat(60_000));
                assert!(Walk::begin(text.as_bytes()).is_none(), "U+{code:x} {behind:?}");
            }
        }
    }
}

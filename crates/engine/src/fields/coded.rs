//! The coded form of a value: a tag and a payload, whose bytes compare as the values do.
//!
//! Format: docs/format/fields.md.

use super::value::{FieldRef, float_of_rank, float_rank, int_of_rank, int_rank, tag};
use esker_base::{Error, Result};

impl<'a> FieldRef<'a> {
    /// The coded form, which compares as the value does: for bounds of ranges and for keys.
    pub fn coded(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.coded_bytes());
        self.put_coded(&mut out);
        out
    }

    /// Appends the coded form.
    pub fn put_coded(self, out: &mut Vec<u8>) {
        out.push(self.tag());
        match self {
            FieldRef::Null | FieldRef::Bool(_) => {}
            FieldRef::Int(value) => out.extend_from_slice(&int_rank(value).to_be_bytes()),
            FieldRef::Float(value) => out.extend_from_slice(&float_rank(value).to_be_bytes()),
            FieldRef::Text(value) => out.extend_from_slice(value.as_bytes()),
            FieldRef::Bytes(value) => out.extend_from_slice(value),
        }
    }

    /// How many bytes the coded form has.
    pub(super) fn coded_bytes(self) -> usize {
        1 + match self {
            FieldRef::Null | FieldRef::Bool(_) => 0,
            FieldRef::Int(_) | FieldRef::Float(_) => 8,
            FieldRef::Text(value) => value.len(),
            FieldRef::Bytes(value) => value.len(),
        }
    }

    /// The value of a coded form.
    ///
    /// # Errors
    /// `InvalidArgument`: the bytes are not the coded form of any value; it says why.
    /// # Cost
    /// Text is read once to check that it is UTF-8; nothing is copied.
    pub fn from_coded(coded: &'a [u8]) -> Result<FieldRef<'a>> {
        decode(coded).map_err(|what| Error::invalid(format!("not a coded field value: {what}")))
    }
}

/// As [`FieldRef::from_coded`].
///
/// # Errors
/// What is wrong with it.
pub(super) fn decode(coded: &[u8]) -> Result<FieldRef<'_>, &'static str> {
    let (&first, payload) = coded.split_first().ok_or("it lacks the byte that says its type")?;
    let number = || {
        let bytes = payload.try_into().map_err(|_| "a number takes 8 bytes behind its type")?;
        Ok(u64::from_be_bytes(bytes))
    };
    match first {
        tag::NULL | tag::FALSE | tag::TRUE if !payload.is_empty() => {
            Err("nothing may stand behind null, false and true")
        }
        tag::NULL => Ok(FieldRef::Null),
        tag::FALSE => Ok(FieldRef::Bool(false)),
        tag::TRUE => Ok(FieldRef::Bool(true)),
        tag::INT => Ok(FieldRef::Int(int_of_rank(number()?))),
        tag::FLOAT => {
            let rank = number()?;
            let value = float_of_rank(rank);
            if float_rank(value) != rank {
                return Err("-0.0 is stored as 0.0, and NaN in one form only");
            }
            Ok(FieldRef::Float(value))
        }
        tag::TEXT => str::from_utf8(payload).map(FieldRef::Text).map_err(|_| "text must be UTF-8"),
        tag::BYTES => Ok(FieldRef::Bytes(payload)),
        _ => Err("its type is unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(tag: u8, rank: u64) -> Vec<u8> {
        [&[tag][..], &rank.to_be_bytes()].concat()
    }

    #[test]
    fn every_type_is_coded_as_documented() {
        let rows: [(FieldRef<'_>, Vec<u8>); 13] = [
            (FieldRef::Null, vec![1]),
            (FieldRef::Bool(false), vec![2]),
            (FieldRef::Bool(true), vec![3]),
            (FieldRef::Int(0), numbered(0x10, 1 << 63)),
            (FieldRef::Int(i64::MIN), numbered(0x10, 0)),
            (FieldRef::Int(i64::MAX), numbered(0x10, u64::MAX)),
            (FieldRef::Float(0.0), numbered(0x20, 1 << 63)),
            (FieldRef::Float(1.0), numbered(0x20, 0xbff0_0000_0000_0000)),
            (FieldRef::Float(-1.0), numbered(0x20, 0x400f_ffff_ffff_ffff)),
            (FieldRef::Float(f64::INFINITY), numbered(0x20, 0xfff0_0000_0000_0000)),
            (FieldRef::Float(f64::NAN), numbered(0x20, 0xfff8_0000_0000_0000)),
            (FieldRef::Text("hé"), vec![0x30, b'h', 0xc3, 0xa9]),
            (FieldRef::Bytes(&[0, 0xff]), vec![0x40, 0, 0xff]),
        ];
        for (value, coded) in rows {
            assert_eq!(value.coded(), coded, "{value:?}");
            assert_eq!(value.coded_bytes(), coded.len(), "{value:?}");
            assert_eq!(FieldRef::from_coded(&coded).expect("decodes"), value);
        }
        assert_eq!(FieldRef::Float(-0.0).coded(), FieldRef::Float(0.0).coded());
    }

    #[test]
    fn what_is_no_coded_value_is_refused_and_says_why() {
        let rows: [(&[u8], &str); 12] = [
            (&[], "lacks the byte"),
            (&[0], "type is unknown"),
            (&[4], "type is unknown"),
            (&[0xff, 1], "type is unknown"),
            (&[1, 0], "behind null"),
            (&[2, 0], "behind null"),
            (&[3, 0], "behind null"),
            (&[0x10, 0, 0, 0, 0, 0, 0, 0], "takes 8 bytes"),
            (&[0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0], "takes 8 bytes"),
            (&[0x20, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "-0.0 is stored as 0.0"),
            (&[0x20, 0xff, 0xf8, 0, 0, 0, 0, 0, 1], "NaN in one form"),
            (&[0x30, 0xff], "must be UTF-8"),
        ];
        for (coded, why) in rows {
            let error = FieldRef::from_coded(coded).expect_err("refused");
            assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
            assert!(error.to_string().contains(why), "{coded:x?}: {error}");
        }
    }
}

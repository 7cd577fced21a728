//! What a field holds: a value of one of six types, owned or borrowed, and the order of values.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// Types as the coded form says them; types order by them.
pub(super) mod tag {
    pub(in crate::fields) const NULL: u8 = 0x01;
    pub(in crate::fields) const FALSE: u8 = 0x02;
    pub(in crate::fields) const TRUE: u8 = 0x03;
    pub(in crate::fields) const INT: u8 = 0x10;
    pub(in crate::fields) const FLOAT: u8 = 0x20;
    pub(in crate::fields) const TEXT: u8 = 0x30;
    pub(in crate::fields) const BYTES: u8 = 0x40;
}

const SIGN: u64 = 1 << 63;

/// The one NaN that is stored.
const NAN_BITS: u64 = 0x7ff8_0000_0000_0000;

/// What a field holds.
///
/// Values are equal, and in order, exactly as their coded bytes are: null, false, true, integers,
/// floats, text, bytes, and by value within a type. Numbers of different types are different
/// values: `Int(1)` is less than `Float(0.5)`. -0.0 equals 0.0; all NaN are equal, and greater than
/// infinity. Text is ordered by code points.
#[derive(Clone, Debug)]
pub enum FieldValue {
    /// Nothing is known; not the same as a field that is absent.
    Null,
    /// False or true.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number. -0.0 is stored as 0.0, every NaN as the same one.
    Float(f64),
    /// Text.
    Text(String),
    /// Any bytes.
    Bytes(Vec<u8>),
}

/// A [`FieldValue`] that borrows its text or bytes. Equality and order are the same.
#[derive(Clone, Copy, Debug)]
pub enum FieldRef<'a> {
    /// Nothing is known; not the same as a field that is absent.
    Null,
    /// False or true.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// Text.
    Text(&'a str),
    /// Any bytes.
    Bytes(&'a [u8]),
}

impl FieldValue {
    /// The same value, borrowed.
    #[inline]
    pub fn as_ref(&self) -> FieldRef<'_> {
        match self {
            FieldValue::Null => FieldRef::Null,
            FieldValue::Bool(value) => FieldRef::Bool(*value),
            FieldValue::Int(value) => FieldRef::Int(*value),
            FieldValue::Float(value) => FieldRef::Float(*value),
            FieldValue::Text(value) => FieldRef::Text(value),
            FieldValue::Bytes(value) => FieldRef::Bytes(value),
        }
    }

    /// True for null.
    pub fn is_null(&self) -> bool {
        self.as_ref().is_null()
    }

    /// The truth value, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        self.as_ref().as_bool()
    }

    /// The integer, if it is one; a float never is.
    pub fn as_int(&self) -> Option<i64> {
        self.as_ref().as_int()
    }

    /// The float, if it is one; an integer never is.
    pub fn as_float(&self) -> Option<f64> {
        self.as_ref().as_float()
    }

    /// The text, if it is text.
    pub fn as_text(&self) -> Option<&str> {
        self.as_ref().as_text()
    }

    /// The bytes, if it is bytes; text is not.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        self.as_ref().as_bytes()
    }
}

impl<'a> FieldRef<'a> {
    /// The same value, copied.
    pub fn to_value(self) -> FieldValue {
        match self {
            FieldRef::Null => FieldValue::Null,
            FieldRef::Bool(value) => FieldValue::Bool(value),
            FieldRef::Int(value) => FieldValue::Int(value),
            FieldRef::Float(value) => FieldValue::Float(value),
            FieldRef::Text(value) => FieldValue::Text(value.to_owned()),
            FieldRef::Bytes(value) => FieldValue::Bytes(value.to_vec()),
        }
    }

    /// True for null.
    pub fn is_null(self) -> bool {
        matches!(self, FieldRef::Null)
    }

    /// The truth value, if it is one.
    pub fn as_bool(self) -> Option<bool> {
        match self {
            FieldRef::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// The integer, if it is one; a float never is.
    pub fn as_int(self) -> Option<i64> {
        match self {
            FieldRef::Int(value) => Some(value),
            _ => None,
        }
    }

    /// The float, if it is one; an integer never is.
    pub fn as_float(self) -> Option<f64> {
        match self {
            FieldRef::Float(value) => Some(value),
            _ => None,
        }
    }

    /// The text, if it is text.
    pub fn as_text(self) -> Option<&'a str> {
        match self {
            FieldRef::Text(value) => Some(value),
            _ => None,
        }
    }

    /// The bytes, if it is bytes; text is not.
    pub fn as_bytes(self) -> Option<&'a [u8]> {
        match self {
            FieldRef::Bytes(value) => Some(value),
            _ => None,
        }
    }

    /// The first byte of the coded form.
    #[inline]
    pub(super) fn tag(self) -> u8 {
        match self {
            FieldRef::Null => tag::NULL,
            FieldRef::Bool(false) => tag::FALSE,
            FieldRef::Bool(true) => tag::TRUE,
            FieldRef::Int(_) => tag::INT,
            FieldRef::Float(_) => tag::FLOAT,
            FieldRef::Text(_) => tag::TEXT,
            FieldRef::Bytes(_) => tag::BYTES,
        }
    }
}

/// A number that orders as the integer does.
#[inline]
pub(super) fn int_rank(value: i64) -> u64 {
    value.cast_unsigned() ^ SIGN
}

/// The integer of a rank.
#[inline]
pub(super) fn int_of_rank(rank: u64) -> i64 {
    (rank ^ SIGN).cast_signed()
}

/// A number that orders as the float does: the same for both zeros, and for all NaN, which come
/// last.
#[inline]
pub(super) fn float_rank(value: f64) -> u64 {
    let bits = match value {
        _ if value.is_nan() => NAN_BITS,
        0.0 => 0,
        _ => value.to_bits(),
    };
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// The float of a rank; of one that no float has, a NaN or -0.0.
#[inline]
pub(super) fn float_of_rank(rank: u64) -> f64 {
    f64::from_bits(if rank & SIGN == 0 { !rank } else { rank ^ SIGN })
}

impl Ord for FieldRef<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (*self, *other) {
            (FieldRef::Int(a), FieldRef::Int(b)) => a.cmp(&b),
            (FieldRef::Float(a), FieldRef::Float(b)) => float_rank(a).cmp(&float_rank(b)),
            (FieldRef::Text(a), FieldRef::Text(b)) => a.cmp(b),
            (FieldRef::Bytes(a), FieldRef::Bytes(b)) => a.cmp(b),
            (a, b) => a.tag().cmp(&b.tag()),
        }
    }
}

impl PartialOrd for FieldRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for FieldRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for FieldRef<'_> {}

impl Hash for FieldRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.tag().hash(state);
        match *self {
            FieldRef::Null | FieldRef::Bool(_) => {}
            FieldRef::Int(value) => value.hash(state),
            FieldRef::Float(value) => float_rank(value).hash(state),
            FieldRef::Text(value) => value.hash(state),
            FieldRef::Bytes(value) => value.hash(state),
        }
    }
}

/// For command lines: text as it is, bytes escaped, floats with a point or an exponent, so that
/// they differ from integers. Text may look like any other value.
impl fmt::Display for FieldRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FieldRef::Null => f.write_str("null"),
            FieldRef::Bool(value) => write!(f, "{value}"),
            FieldRef::Int(value) => write!(f, "{value}"),
            // By way of its rank, so that equal floats look alike.
            FieldRef::Float(value) => write!(f, "{:?}", float_of_rank(float_rank(value))),
            FieldRef::Text(value) => f.write_str(value),
            FieldRef::Bytes(value) => write!(f, "{}", value.escape_ascii()),
        }
    }
}

impl Ord for FieldValue {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_ref().cmp(&other.as_ref())
    }
}

impl PartialOrd for FieldValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for FieldValue {
    fn eq(&self, other: &Self) -> bool {
        self.as_ref() == other.as_ref()
    }
}

impl Eq for FieldValue {}

impl Hash for FieldValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_ref().hash(state);
    }
}

/// As [`FieldRef`] says it.
impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

macro_rules! from_scalars {
    ($type:ty: $($scalar:ty => $variant:ident),*) => {
        $(impl From<$scalar> for $type {
            #[inline]
            fn from(value: $scalar) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}

from_scalars!(FieldValue: bool => Bool, i32 => Int, u32 => Int, i64 => Int, f64 => Float);
from_scalars!(FieldRef<'_>: bool => Bool, i32 => Int, u32 => Int, i64 => Int, f64 => Float);
from_scalars!(FieldValue: &str => Text, String => Text, &[u8] => Bytes, Vec<u8> => Bytes);

impl<const N: usize> From<&[u8; N]> for FieldValue {
    fn from(value: &[u8; N]) -> FieldValue {
        FieldValue::Bytes(value.to_vec())
    }
}

impl From<FieldRef<'_>> for FieldValue {
    fn from(value: FieldRef<'_>) -> FieldValue {
        value.to_value()
    }
}

/// `None` is null.
impl<T: Into<FieldValue>> From<Option<T>> for FieldValue {
    fn from(value: Option<T>) -> FieldValue {
        value.map_or(FieldValue::Null, Into::into)
    }
}

impl<'a> From<&'a str> for FieldRef<'a> {
    fn from(value: &'a str) -> FieldRef<'a> {
        FieldRef::Text(value)
    }
}

impl<'a> From<&'a [u8]> for FieldRef<'a> {
    fn from(value: &'a [u8]) -> FieldRef<'a> {
        FieldRef::Bytes(value)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for FieldRef<'a> {
    fn from(value: &'a [u8; N]) -> FieldRef<'a> {
        FieldRef::Bytes(value)
    }
}

impl<'a> From<&'a FieldValue> for FieldRef<'a> {
    fn from(value: &'a FieldValue) -> FieldRef<'a> {
        value.as_ref()
    }
}

/// `None` is null.
impl<'a, T: Into<FieldRef<'a>>> From<Option<T>> for FieldRef<'a> {
    fn from(value: Option<T>) -> FieldRef<'a> {
        value.map_or(FieldRef::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_in_order_and_both_zeros_and_all_nans_are_one() {
        let subnormal = f64::from_bits(1);
        let ascending = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -f64::MIN_POSITIVE,
            -subnormal,
            0.0,
            subnormal,
            f64::MIN_POSITIVE,
            1.5,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
        ];
        for pair in ascending.windows(2) {
            assert!(FieldRef::Float(pair[0]) < FieldRef::Float(pair[1]), "{pair:?}");
        }
        for value in ascending {
            let back = float_of_rank(float_rank(value));
            assert_eq!(FieldRef::Float(back), FieldRef::Float(value));
            assert!(back == value || back.is_nan() && value.is_nan());
        }
        assert_eq!(FieldRef::Float(-0.0), FieldRef::Float(0.0));
        assert!(float_of_rank(float_rank(-0.0)).is_sign_positive());
        for bits in [NAN_BITS, NAN_BITS | SIGN, NAN_BITS | 5, SIGN - 1, u64::MAX] {
            assert_eq!(float_rank(f64::from_bits(bits)), NAN_BITS | SIGN, "{bits:x}");
        }
    }

    #[test]
    fn integers_are_in_order_at_the_extremes() {
        let ascending = [i64::MIN, i64::MIN + 1, -256, -1, 0, 1, 255, i64::MAX - 1, i64::MAX];
        assert!(ascending.map(int_rank).is_sorted_by(|a, b| a < b));
        assert_eq!(ascending.map(|value| int_of_rank(int_rank(value))), ascending);
    }

    #[test]
    fn types_are_in_order_and_numbers_of_different_types_differ() {
        let ascending = [
            FieldRef::Null,
            FieldRef::Bool(false),
            FieldRef::Bool(true),
            FieldRef::Int(i64::MAX),
            FieldRef::Float(f64::NEG_INFINITY),
            FieldRef::Float(1.0),
            FieldRef::Text(""),
            FieldRef::Text("z"),
            FieldRef::Bytes(b""),
            FieldRef::Bytes(b"a"),
        ];
        assert!(ascending.is_sorted_by(|a, b| a < b));
        assert_ne!(FieldValue::from(1), FieldValue::from(1.0));
        assert_ne!(FieldValue::from("a"), FieldValue::from(b"a"));
    }

    #[test]
    fn conversions_and_accessors_agree() {
        assert_eq!(FieldValue::from(true).as_bool(), Some(true));
        assert_eq!(FieldValue::from(-7).as_int(), Some(-7));
        assert_eq!(FieldValue::from(u32::MAX).as_int(), Some(4_294_967_295));
        assert_eq!(FieldValue::from(i64::MIN).as_int(), Some(i64::MIN));
        assert_eq!(FieldValue::from(0.5).as_float(), Some(0.5));
        assert_eq!(FieldValue::from("a").as_text(), Some("a"));
        assert_eq!(FieldValue::from(String::from("a")).as_text(), Some("a"));
        assert_eq!(FieldValue::from(&b"a"[..]).as_bytes(), Some(&b"a"[..]));
        assert_eq!(FieldValue::from(vec![1, 2]).as_bytes(), Some(&[1, 2][..]));
        assert!(FieldValue::from(None::<i64>).is_null());
        assert_eq!(FieldValue::from(Some("a")), FieldValue::Text("a".to_owned()));
        assert_eq!(FieldRef::from(Some(3)), FieldRef::Int(3));
        assert!(FieldRef::from(None::<&str>).is_null());
        let all = [FieldValue::Null, true.into(), 1.into(), 1.5.into(), "a".into(), b"a".into()];
        for (at, value) in all.iter().enumerate() {
            assert_eq!(FieldValue::from(FieldRef::from(value)), *value);
            let held = [
                value.is_null(),
                value.as_bool().is_some(),
                value.as_int().is_some(),
                value.as_float().is_some(),
                value.as_text().is_some(),
                value.as_bytes().is_some(),
            ];
            assert!((0..6).all(|nth| held[nth] == (nth == at)), "{value:?}");
        }
    }

    #[test]
    fn what_is_shown_tells_floats_from_integers_and_escapes_bytes() {
        let shown = |value: FieldValue| value.to_string();
        assert_eq!(shown(FieldValue::Null), "null");
        assert_eq!(shown(false.into()), "false");
        assert_eq!(shown(i64::MIN.into()), "-9223372036854775808");
        assert_eq!(shown(1.0.into()), "1.0");
        assert_eq!(shown((-0.0).into()), "0.0");
        assert_eq!(shown(1e300.into()), "1e300");
        assert_eq!(shown(f64::NEG_INFINITY.into()), "-inf");
        assert_eq!(shown(f64::NAN.into()), "NaN");
        assert_eq!(shown("é\n".into()), "é\n");
        assert_eq!(shown(b"a\x00\xff\"".into()), "a\\x00\\xff\\\"");
    }
}

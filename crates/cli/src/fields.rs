//! Records of fields: how they are shown, and how what is typed becomes the value of a field.

use crate::bytes::{reorders, to_hex};
use clap::ValueEnum;
use esker::fields::{FieldRef, FieldValue, NAME_BYTES_MAX, RecordView, looks_like_record};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::fmt::Write;

/// The type of a field, in the order in which the store has values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Type {
    /// The word null
    Null,
    /// true or false
    Boolean,
    /// A number of 64 bits without a fraction
    Integer,
    /// A number with a fraction or an exponent, inf, -inf or NaN
    Float,
    /// UTF-8
    Text,
    /// Any bytes
    Bytes,
}

impl Type {
    /// All of them, in order.
    pub(crate) const ALL: [Type; 6] =
        [Type::Null, Type::Boolean, Type::Integer, Type::Float, Type::Text, Type::Bytes];

    /// Its name, as it is typed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Type::Null => "null",
            Type::Boolean => "boolean",
            Type::Integer => "integer",
            Type::Float => "float",
            Type::Text => "text",
            Type::Bytes => "bytes",
        }
    }

    /// The value of this type that is typed so, if there is one.
    pub(crate) fn read(self, typed: &[u8]) -> Option<FieldValue> {
        let text = || std::str::from_utf8(typed).ok();
        match self {
            Type::Null => (typed == b"null").then_some(FieldValue::Null),
            Type::Boolean if typed.eq_ignore_ascii_case(b"true") => Some(true.into()),
            Type::Boolean if typed.eq_ignore_ascii_case(b"false") => Some(false.into()),
            Type::Boolean => None,
            Type::Integer => text()?.parse::<i64>().ok().map(FieldValue::Int),
            Type::Float => read_float(text()?).map(FieldValue::Float),
            Type::Text => text().map(FieldValue::from),
            Type::Bytes => Some(typed.into()),
        }
    }
}

/// A float. A number that is too large for one is none, and one that would be 0 only because it is
/// too small.
pub(crate) fn read_float(text: &str) -> Option<f64> {
    let value = text.parse::<f64>().ok()?;
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let lost = match value {
        0.0 => mantissa.contains(|c: char| matches!(c, '1'..='9')),
        _ => value.is_infinite() && text.contains(|c: char| c.is_ascii_digit()),
    };
    (!lost).then_some(value)
}

/// Says what is wrong with the name of a field.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    match name.len() {
        1..=NAME_BYTES_MAX => Ok(()),
        0 => Err("the name of a field is empty, and has 1 to 255 bytes".to_owned()),
        bytes => Err(format!("the name of a field has {bytes} bytes, and may have 1 to 255")),
    }
}

/// The name of a field on the command line.
pub(crate) fn parse_name(name: &str) -> Result<String, String> {
    check_name(name).map(|()| name.to_owned())
}

/// A record, which is shown as a JSON object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(RecordView<'a>);

impl<'a> Fields<'a> {
    /// Those of a value, if it is a record.
    pub(crate) fn of(value: &'a [u8]) -> Option<Fields<'a>> {
        // Most that are none are told without making a message.
        looks_like_record(value).then(|| RecordView::parse(value).ok()).flatten().map(Fields)
    }

    /// The object on one line that is safe to show on a terminal, and still JSON.
    pub(crate) fn shown(self) -> String {
        let json = serde_json::to_string(&self).unwrap_or_default();
        let mut text = String::with_capacity(json.len());
        for c in json.chars() {
            if c.is_control() || reorders(c) {
                // Such characters stand in strings only. Writing to a string cannot fail.
                let _ = write!(text, "\\u{:04x}", c as u32);
            } else {
                text.push(c);
            }
        }
        text
    }
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0.iter() {
            map.serialize_entry(name, &Shown(value))?;
        }
        map.end()
    }
}

/// The value of a field as JSON.
struct Shown<'a>(FieldRef<'a>);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            FieldRef::Null => serializer.serialize_unit(),
            FieldRef::Bool(value) => serializer.serialize_bool(value),
            FieldRef::Int(value) => serializer.serialize_i64(value),
            FieldRef::Float(value) if value.is_finite() => serializer.serialize_f64(value),
            // JSON has no such numbers.
            FieldRef::Float(value) => serializer.collect_str(&FieldRef::Float(value)),
            FieldRef::Text(value) => serializer.serialize_str(value),
            FieldRef::Bytes(value) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("hex", &to_hex(value))?;
                map.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::fields::Record;

    #[test]
    fn a_record_is_shown_as_json_that_tells_types_apart() {
        let record = Record::new()
            .with("b", &b"\x00\xff"[..])
            .with("f", 1.0)
            .with("g", 1e300)
            .with("i", 1)
            .with("inf", f64::NEG_INFINITY)
            .with("nan", f64::NAN)
            .with("nil", FieldValue::Null)
            .with("t", "a\"\n\u{9b}\u{202e}\u{7f}é")
            .with("y", true);
        let value = record.encode().expect("encodes");
        let shown = Fields::of(&value).expect("a record").shown();
        let expected = "{\"b\":{\"hex\":\"00ff\"},\"f\":1.0,\"g\":1e+300,\"i\":1,\"inf\":\"-inf\",\
            \"nan\":\"NaN\",\"nil\":null,\"t\":\"a\\\"\\n\\u009b\\u202e\\u007fé\",\"y\":true}";
        assert_eq!(shown, expected);
        let back: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
        assert_eq!(back["t"], "a\"\n\u{9b}\u{202e}\u{7f}é");
        assert!(back["g"].is_f64() && back["f"].is_f64() && back["i"].is_i64());
    }

    #[test]
    fn what_is_no_record_is_not_taken_for_one() {
        let value = Record::new().with("a", 1).encode().expect("encodes");
        assert!(Fields::of(&value).is_some());
        for other in [&value[..value.len() - 1], &[&value[..], b"\0"].concat(), b"", b"text"] {
            assert!(Fields::of(other).is_none(), "{other:x?}");
        }
    }

    #[test]
    fn typed_text_is_read_by_type() {
        let types = |typed: &str| -> Vec<&str> {
            let reads = |kind: &Type| kind.read(typed.as_bytes()).is_some();
            Type::ALL.into_iter().filter(reads).map(Type::name).collect()
        };
        assert_eq!(types("7"), ["integer", "float", "text", "bytes"]);
        assert_eq!(types("-7.5e3"), ["float", "text", "bytes"]);
        assert_eq!(types("9223372036854775808"), ["float", "text", "bytes"]);
        assert_eq!(types("True"), ["boolean", "text", "bytes"]);
        assert_eq!(types("null"), ["null", "text", "bytes"]);
        assert_eq!(types("NaN"), ["float", "text", "bytes"]);
        assert_eq!(types("-inf"), ["float", "text", "bytes"]);
        for text in ["", " 7", "7 ", "NULL", "1e999", "-1e999", "0.001e-400", "0x7", "yes"] {
            assert_eq!(types(text), ["text", "bytes"], "{text:?}");
        }
        assert_eq!(Type::Text.read(b"\xff"), None);
        assert_eq!(Type::Float.read(b"0.0e5"), Some(0.0.into()));
        assert_eq!(Type::Boolean.read(b"FALSE"), Some(false.into()));
    }
}

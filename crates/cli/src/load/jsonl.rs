//! Lines of JSON: the value is a record of fields, or the line as it stands.
//!
//! What a field cannot hold exactly makes a line malformed, so that no digit of a number is lost.

use super::rows::MARK;
use super::source::{Record, Source, Step};
use super::text::{self, Counted, Meter};
use super::values::Values;
use crate::failure::{Failure, Result};
use crate::fields::{check_name, read_float};
use crate::interrupt::Interrupt;
use crate::progress::At;
use esker::fields::{self, FieldValue};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The longest line, in bytes.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// Reads lines.
pub(super) struct JsonLines {
    path: PathBuf,
    input: BufReader<Counted>,
    meter: Meter,
    /// `None` is the row number.
    key: Option<String>,
    values: Values,
    skip_bad: bool,
    line: u64,
    text: Vec<u8>,
}

impl JsonLines {
    /// Opens a file.
    pub(super) fn open(
        path: &Path,
        key: Option<String>,
        values: Values,
        skip_bad: bool,
        interrupt: &Interrupt,
    ) -> Result<JsonLines> {
        let (input, meter) = text::open(path, interrupt)?;
        let input = BufReader::with_capacity(64 << 10, input);
        let path = path.to_path_buf();
        let text = Vec::new();
        Ok(JsonLines { path, input, meter, key, values, skip_bad, line: 0, text })
    }

    /// Reads a line, without its end. False if there is none.
    fn read_line(&mut self) -> Result<bool> {
        self.text.clear();
        let read = (&mut self.input).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut self.text);
        let read = read.map_err(|error| Failure::io("read", &self.path, &error))?;
        if read == 0 {
            return Ok(false);
        }
        self.line += 1;
        if self.text.len() as u64 > LINE_BYTES_MAX {
            let line = self.line;
            return Err(Failure::other(format!("line {line} is longer than 256 MiB: split it")));
        }
        Ok(true)
    }
}

impl Source for JsonLines {
    fn next(&mut self, record: &mut Record) -> Result<Step> {
        let trimmed = loop {
            if !self.read_line()? {
                return Ok(Step::End);
            }
            let mut text = &self.text[..];
            if self.line == 1 {
                text = text.strip_prefix(MARK).unwrap_or(text);
            }
            let text = text.trim_ascii();
            if !text.is_empty() {
                break text;
            }
        };
        let read = match self.values {
            Values::Fields => as_fields(trimmed, self.key.as_deref()),
            Values::Json => as_it_stands(trimmed, self.key.as_deref()),
        };
        let filled = read.and_then(|(key, value)| {
            record.key = key.unwrap_or_else(|| text::row_key(self.line));
            record.value = value;
            record.check()
        });
        match filled {
            Ok(()) => Ok(Step::Record),
            Err(why) if self.skip_bad => Ok(Step::Skipped(format!("line {}: {why}", self.line))),
            Err(why) => Err(Failure::other(format!(
                "line {}: {why}: mend it, or use --skip-bad",
                self.line
            ))),
        }
    }

    fn place(&self) -> String {
        format!("line {}", self.line)
    }

    fn at(&self, records: u64) -> At {
        self.meter.at(records)
    }
}

/// The key, if a field is to be it, and the value.
type Pair = (Option<Vec<u8>>, Vec<u8>);

fn as_it_stands(line: &[u8], key: Option<&str>) -> Result<Pair, String> {
    let text = utf8(line)?;
    let key = match key {
        Some(field) => Some(key_of(&members(text)?, field)?),
        None => {
            serde_json::from_str::<IgnoredAny>(text).map_err(|error| explain(&error))?;
            None
        }
    };
    Ok((key, line.to_vec()))
}

fn as_fields(line: &[u8], key: Option<&str>) -> Result<Pair, String> {
    let text = utf8(line)?;
    if !text.starts_with('{') {
        serde_json::from_str::<IgnoredAny>(text).map_err(|error| explain(&error))?;
        return Err("a line that is no object has no fields; --values json keeps it".to_owned());
    }
    let members = members(text)?;
    let key = key.map(|field| key_of(&members, field)).transpose()?;
    let mut record = fields::Record::new();
    for (name, value) in members {
        check_name(&name)?;
        let value = field_value(value.get()).map_err(|why| format!("field {name:?} {why}"))?;
        if record.get(&name).is_some() {
            return Err(format!("field {name:?} stands twice"));
        }
        record.set(name, value);
    }
    // Names have been checked.
    Ok((key, record.encode().map_err(|error| error.to_string())?))
}

/// What a field holds for a piece of JSON; `Err` says what the matter is with it.
fn field_value(json: &str) -> Result<FieldValue, String> {
    match json.as_bytes().first() {
        Some(b'"') => serde_json::from_str::<String>(json)
            .map(FieldValue::Text)
            .map_err(|error| format!("is no text: {}", explain(&error))),
        Some(b't') => Ok(true.into()),
        Some(b'f') => Ok(false.into()),
        Some(b'n') => Ok(FieldValue::Null),
        // Of what stands inside of a field the store knows nothing.
        Some(b'{' | b'[') | None => Ok(json.into()),
        Some(_) if json.contains(['.', 'e', 'E']) => {
            let what = "is a number beyond what a float holds; --values json keeps it";
            read_float(json).map(FieldValue::Float).ok_or_else(|| what.to_owned())
        }
        Some(_) => {
            let what = "is an integer of more than 64 bits; --values json keeps it";
            json.parse::<i64>().map(FieldValue::Int).map_err(|_| what.to_owned())
        }
    }
}

/// Names and values of an object, as they stand: also a name that stands twice.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

fn utf8(line: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(line).map_err(|_| "not UTF-8".to_owned())
}

fn members(text: &str) -> Result<Vec<(String, &RawValue)>, String> {
    let Members(members) = serde_json::from_str(text).map_err(|error| explain(&error))?;
    Ok(members)
}

/// The field of an object as a key: the text of a string; a number or truth value as it is written.
fn key_of(members: &[(String, &RawValue)], field: &str) -> Result<Vec<u8>, String> {
    // The last one of a name is what others take for its value too.
    let member = members.iter().rfind(|(name, _)| name == field);
    let value = member.ok_or_else(|| format!("no field {field:?}"))?.1.get();
    match value.as_bytes().first() {
        Some(b'"') => serde_json::from_str::<String>(value)
            .map(String::into_bytes)
            .map_err(|error| explain(&error)),
        Some(b'{' | b'[' | b'n') | None => {
            Err(format!("field {field:?} is no string, number or truth value"))
        }
        Some(_) => Ok(value.as_bytes().to_vec()),
    }
}

/// The reason and the column; the line is ours to tell.
fn explain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    format!("bad JSON in column {}: {what}", error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_every_digit() {
        let line = br#"{"id": 12345678901234567890123, "name": "a\"b", "no": null, "y": true}"#;
        for read in [as_it_stands, as_fields] {
            let key = |field: &str| read(line, Some(field));
            // As a field it cannot be kept.
            if let Ok((id, _)) = key("id") {
                assert_eq!(id.as_deref(), Some(&b"12345678901234567890123"[..]));
            }
            for field in ["no", "gone"] {
                assert!(key(field).is_err(), "{field}");
            }
            assert!(read(b"[1]", Some("id")).is_err());
            assert!(read(b"{\"id\":1", Some("id")).expect_err("cut short").contains("column"));
        }
        let key = |field| as_it_stands(line, Some(field)).expect("a key").0.expect("a field");
        assert_eq!(key("id"), b"12345678901234567890123");
        assert_eq!(key("name"), b"a\"b");
        assert_eq!(key("y"), b"true");
    }

    #[test]
    fn json_becomes_what_keeps_it() {
        for (json, value) in [
            ("\"a\\u00e9\\n\"", Ok("aé\n".into())),
            ("true", Ok(true.into())),
            ("false", Ok(false.into())),
            ("null", Ok(FieldValue::Null)),
            ("-9223372036854775808", Ok(i64::MIN.into())),
            ("9223372036854775807", Ok(i64::MAX.into())),
            ("-0", Ok(0.into())),
            ("1.0", Ok(1.0.into())),
            ("1e2", Ok(100.0.into())),
            ("0.1", Ok(0.1.into())),
            ("0e-999", Ok(0.0.into())),
            ("[1, 2]", Ok("[1, 2]".into())),
            ("{\"a\":1}", Ok("{\"a\":1}".into())),
            ("9223372036854775808", Err("more than 64 bits")),
            ("-9223372036854775809", Err("more than 64 bits")),
            ("1e999", Err("beyond what a float holds")),
            ("1e-999", Err("beyond what a float holds")),
            ("\"\\ud800\"", Err("is no text")),
        ] {
            match (field_value(json), value) {
                (Ok(found), Ok(value)) => assert_eq!(found, value, "{json}"),
                (Err(said), Err(part)) => assert!(said.contains(part), "{json}: {said}"),
                (found, _) => panic!("{json}: {found:?}"),
            }
        }
    }
}

//! Lines of JSON: the value is the line as it stands, so that no digit of a number is lost.

use super::source::{Record, Source, Step};
use super::text::{self, Counted, Meter};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::progress::At;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
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
    skip_bad: bool,
    line: u64,
    text: Vec<u8>,
}

impl JsonLines {
    /// Opens a file.
    pub(super) fn open(
        path: &Path,
        key: Option<String>,
        skip_bad: bool,
        interrupt: &Interrupt,
    ) -> Result<JsonLines> {
        let (input, meter) = text::open(path, interrupt)?;
        let input = BufReader::with_capacity(64 << 10, input);
        let path = path.to_path_buf();
        Ok(JsonLines { path, input, meter, key, skip_bad, line: 0, text: Vec::new() })
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
            let mut text = self.text.trim_ascii();
            if self.line == 1 {
                text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
            }
            if !text.is_empty() {
                break text;
            }
        };
        let key = match &self.key {
            None => check(trimmed).map(|()| text::row_key(self.line)),
            Some(field) => key_of(trimmed, field),
        };
        let filled = key.and_then(|key| {
            record.key = key;
            record.value.clear();
            record.value.extend_from_slice(trimmed);
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

fn check(line: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_owned())?;
    serde_json::from_str::<IgnoredAny>(text).map(|_| ()).map_err(|error| explain(&error))
}

/// The field of an object as a key: the text of a string; a number or truth value as it is written.
fn key_of(line: &[u8], field: &str) -> Result<Vec<u8>, String> {
    let text = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_owned())?;
    let fields: BTreeMap<Cow<'_, str>, &RawValue> =
        serde_json::from_str(text).map_err(|error| explain(&error))?;
    let value = fields.get(field).ok_or_else(|| format!("no field {field:?}"))?.get();
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
        assert_eq!(key_of(line, "id").expect("number"), b"12345678901234567890123");
        assert_eq!(key_of(line, "name").expect("string"), b"a\"b");
        assert_eq!(key_of(line, "y").expect("truth"), b"true");
        for field in ["no", "gone"] {
            assert!(key_of(line, field).is_err(), "{field}");
        }
        assert!(key_of(b"[1]", "id").is_err());
        assert!(key_of(b"{\"id\":1", "id").expect_err("cut short").contains("column"));
    }
}

//! A key and its value on standard output: as a line for people, as bytes, or as JSON.

use crate::bytes::{Encoding, to_hex};
use crate::failure::Result;
use crate::fields::Fields;
use crate::output::Output;
use serde::Serialize;

/// What of a record to print.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct ShowArgs {
    /// Only keys
    #[arg(long, visible_alias = "keys", conflicts_with = "values")]
    pub(crate) keys_only: bool,

    /// Only values
    #[arg(long)]
    pub(crate) values: bool,

    /// Print the bytes as they are
    #[arg(long)]
    pub(crate) raw: bool,
}

/// How keys and values are printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) encoding: Encoding,
    pub(crate) json: bool,
}

impl Style {
    /// Prints a key and its value on a line, or what is wanted of them.
    pub(crate) fn print(
        self,
        show: &ShowArgs,
        key: &[u8],
        value: &[u8],
        out: &mut Output,
    ) -> Result<()> {
        let key = (!show.values).then_some(key);
        let value = (!show.keys_only).then_some(value);
        if self.json {
            return out.json(&JsonPair::new(self.encoding, key, value));
        }
        if let Some(key) = key {
            match show.raw {
                true => out.raw(key)?,
                false => out.raw(self.encoding.show(key).as_bytes())?,
            }
        }
        if key.is_some() && value.is_some() {
            out.raw(b"\t")?;
        }
        if let Some(value) = value {
            match show.raw {
                true => out.raw(value)?,
                false => out.raw(show_value(self.encoding, value).as_bytes())?,
            }
        }
        out.raw(b"\n")
    }
}

/// One line that shows a value: its fields, if it is a record and not its bytes are asked for.
pub(crate) fn show_value(encoding: Encoding, value: &[u8]) -> String {
    match Fields::of(value) {
        Some(fields) if encoding == Encoding::Text => fields.shown(),
        _ => encoding.show(value),
    }
}

/// A key and its value as JSON.
#[derive(Debug, Default, Serialize)]
pub(crate) struct JsonPair<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<Fields<'a>>,
}

impl<'a> JsonPair<'a> {
    /// Text where the bytes are UTF-8, fields where they are a record, hexadecimal where neither or
    /// if asked for.
    pub(crate) fn new(
        encoding: Encoding,
        key: Option<&[u8]>,
        value: Option<&'a [u8]>,
    ) -> JsonPair<'a> {
        let split = |bytes: Option<&[u8]>| match bytes {
            None => (None, None),
            Some(bytes) => match (encoding, std::str::from_utf8(bytes)) {
                (Encoding::Text, Ok(text)) => (Some(text.to_owned()), None),
                (Encoding::Escaped, _) => (Some(encoding.show(bytes)), None),
                _ => (None, Some(to_hex(bytes))),
            },
        };
        let (key, key_hex) = split(key);
        let fields = value.filter(|_| encoding == Encoding::Text).and_then(Fields::of);
        let (value, value_hex) = split(value.filter(|_| fields.is_none()));
        JsonPair { key, key_hex, value, value_hex, fields }
    }
}

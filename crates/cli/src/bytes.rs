//! Bytes on the command line: how keys and values are read and shown.
//!
//! Three encodings. `text`: as typed; shown with control characters, bytes that are no UTF-8 and
//! characters that reorder text escaped, for reading. `hex`: two digits a byte. `escaped`:
//! printable ASCII and `\xNN`, `\n`, `\t`, `\r`, `\\`; what is shown can be typed back.

use crate::failure::{Failure, Result};
use clap::ValueEnum;
use std::fmt::Write;

/// How keys and values are read from the command line and shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Encoding {
    /// UTF-8 as it stands; shown with unprintable characters escaped
    #[default]
    Text,
    /// Two hexadecimal digits a byte
    Hex,
    /// ASCII with \n, \t, \r, \\ and \xNN; what is shown can be typed back
    Escaped,
}

impl Encoding {
    /// The bytes that an argument stands for.
    pub(crate) fn decode(self, typed: &[u8]) -> Result<Vec<u8>> {
        match self {
            Encoding::Text => Ok(typed.to_vec()),
            Encoding::Hex => from_hex(typed),
            Encoding::Escaped => unescape(typed),
        }
    }

    /// One line that shows the bytes.
    pub(crate) fn show(self, bytes: &[u8]) -> String {
        match self {
            Encoding::Text => printable(bytes),
            Encoding::Hex => to_hex(bytes),
            Encoding::Escaped => escape(bytes),
        }
    }
}

/// Two hexadecimal digits a byte.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn from_hex(typed: &[u8]) -> Result<Vec<u8>> {
    let digit = |c: u8| (c as char).to_digit(16).map(|d| d as u8);
    if !typed.len().is_multiple_of(2) {
        return Err(Failure::usage("odd number of hexadecimal digits: write two for each byte"));
    }
    let pair = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    typed.chunks_exact(2).map(pair).collect::<Option<Vec<u8>>>().ok_or_else(|| {
        Failure::usage(format!("{} is not hexadecimal: use 0-9 and a-f", printable(typed)))
    })
}

/// Printable ASCII and escapes, reversible.
fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            b'\r' => text.push_str("\\r"),
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(byte as char),
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text
}

/// Reads what [`Encoding::Escaped`] shows; other bytes stand for themselves.
pub(crate) fn unescape(typed: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(typed.len());
    let mut rest = typed;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first == b'\\' {
            bytes.push(take_escape(&mut rest)?);
        } else {
            bytes.push(*first);
        }
    }
    Ok(bytes)
}

/// The byte that the escape after a backslash stands for.
pub(crate) fn take_escape(rest: &mut &[u8]) -> Result<u8> {
    let wrong = || Failure::usage("unknown escape: use \\n, \\t, \\r, \\0, \\\\, \\\" or \\xNN");
    let (&first, tail) = rest.split_first().ok_or_else(wrong)?;
    *rest = tail;
    match first {
        b'n' => Ok(b'\n'),
        b't' => Ok(b'\t'),
        b'r' => Ok(b'\r'),
        b'0' => Ok(0),
        b'\\' | b'"' | b'\'' | b' ' => Ok(first),
        b'x' if tail.len() >= 2 => {
            let (digits, tail) = tail.split_at(2);
            *rest = tail;
            Ok(from_hex(digits)?[0])
        }
        _ => Err(wrong()),
    }
}

/// Text that is safe to show on one line of a terminal. Not reversible: a backslash stays one.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\r' => text.push_str("\\r"),
                c if (c as u32) < 0x80 && c.is_control() => {
                    let _ = write!(text, "\\x{:02x}", c as u32);
                }
                c if c.is_control() || reorders(c) => {
                    let _ = write!(text, "\\u{{{:x}}}", c as u32);
                }
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Characters that are invisible and change how those around them are laid out.
pub(crate) fn reorders(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_typed_back() {
        let all: Vec<u8> = (0..=255).collect();
        for encoding in [Encoding::Hex, Encoding::Escaped] {
            let shown = encoding.show(&all);
            assert!(shown.bytes().all(|b| (b' '..=b'~').contains(&b)), "{shown}");
            assert_eq!(encoding.decode(shown.as_bytes()).expect("decodes"), all);
        }
    }

    #[test]
    fn nothing_on_a_terminal_is_executed() {
        let shown = printable(b"a\x1b[31mb\r\n\xff\xc2\x9bz\\ \xe2\x80\xae\xc3\xa9");
        assert_eq!(shown, "a\\x1b[31mb\\r\\n\\xff\\u{9b}z\\ \\u{202e}\u{e9}");
    }

    #[test]
    fn malformed_input_is_refused() {
        for typed in ["abc", "0g", "é0"] {
            assert!(Encoding::Hex.decode(typed.as_bytes()).is_err(), "{typed}");
        }
        for typed in ["\\", "\\q", "\\x1", "\\xzz"] {
            assert!(Encoding::Escaped.decode(typed.as_bytes()).is_err(), "{typed}");
        }
    }
}

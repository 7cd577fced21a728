//! How a line is split into words.
//!
//! Blanks separate. 'Single quotes' keep everything as it stands. In "double quotes" and outside of
//! quotes a backslash begins an escape. A line that begins with `#` is a comment.

use crate::bytes::take_escape;
use crate::failure::{Failure, Result};

/// The words of a line.
///
/// # Errors
/// `Usage`: a quote is not closed, or an escape is unknown.
pub(super) fn split(line: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii_start();
    // Blanks at the end stay: a backslash may stand before one.
    while let [line @ .., b'\n' | b'\r'] = rest {
        rest = line;
    }
    if rest.starts_with(b"#") {
        return Ok(words);
    }
    // `None` between words.
    let mut word: Option<Vec<u8>> = None;
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b if b.is_ascii_whitespace() => words.extend(word.take()),
            b'\'' => {
                let end = rest.iter().position(|&b| b == b'\'').ok_or_else(unclosed)?;
                word.get_or_insert_default().extend_from_slice(&rest[..end]);
                rest = &rest[end + 1..];
            }
            b'"' => double_quoted(&mut rest, word.get_or_insert_default())?,
            b'\\' => word.get_or_insert_default().push(take_escape(&mut rest)?),
            b => word.get_or_insert_default().push(b),
        }
    }
    words.extend(word);
    Ok(words)
}

fn double_quoted(rest: &mut &[u8], word: &mut Vec<u8>) -> Result<()> {
    loop {
        let (&first, tail) = rest.split_first().ok_or_else(unclosed)?;
        *rest = tail;
        match first {
            b'"' => return Ok(()),
            b'\\' => word.push(take_escape(rest)?),
            b => word.push(b),
        }
    }
}

fn unclosed() -> Failure {
    Failure::usage("a quote is not closed: add the closing one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_and_quoted() {
        for (line, expected) in [
            ("", vec![]),
            ("  # put a 1", vec![]),
            ("put  a\t1\r\n", vec!["put", "a", "1"]),
            ("put 'a b' \"c d\"", vec!["put", "a b", "c d"]),
            (r#"put 'a\n' "b\n\x41" c\ d"#, vec!["put", "a\\n", "b\nA", "c d"]),
            (r#"put a"b"'c' """#, vec!["put", "abc", ""]),
            ("put a#b #c", vec!["put", "a#b", "#c"]),
        ] {
            let words = split(line.as_bytes()).expect(line);
            let words: Vec<String> =
                words.into_iter().map(|w| String::from_utf8(w).expect("UTF-8")).collect();
            assert_eq!(words, expected, "{line}");
        }
        for wrong in ["put 'a", "put \"a", "put a\\", "put \\q", "put \"\\"] {
            assert!(split(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}

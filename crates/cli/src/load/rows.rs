//! What CSV lacks: a fault where a quote is never closed, and a bound for the length of a row.
//!
//! A reader of CSV takes what follows a quote for one cell, to the end of the file if need be: a
//! file that was cut off, or in which one quote is missing, would be loaded without a word.

use std::cell::RefCell;
use std::io::{self, Read};
use std::rc::Rc;

/// The longest row, in bytes.
const ROW_BYTES_MAX: u64 = 256 << 20;

/// What some editors put before text in UTF-8. It belongs to no cell.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// What is wrong with the rows, once something is.
pub(super) type Fault = Rc<RefCell<Option<String>>>;

/// Looks at the bytes that pass by.
pub(super) struct Rows<R> {
    inner: R,
    delimiter: u8,
    place: Place,
    /// Where the quote was opened.
    opened: u64,
    line: u64,
    /// Bytes since the file or the row began.
    offset: u64,
    row_bytes: u64,
    fault: Fault,
}

/// Where in a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    CellStart,
    Cell,
    Quoted,
    /// Behind a quote within quotes: the end of the cell, or one that stands for itself.
    Quote,
}

impl<R: Read> Rows<R> {
    pub(super) fn new(inner: R, delimiter: u8) -> (Rows<R>, Fault) {
        let fault = Fault::default();
        let rows = Rows {
            inner,
            delimiter,
            place: Place::CellStart,
            opened: 1,
            line: 1,
            offset: 0,
            row_bytes: 0,
            fault: fault.clone(),
        };
        (rows, fault)
    }

    fn pass(&mut self, byte: u8) {
        let is_mark = MARK.get(self.offset as usize) == Some(&byte);
        self.offset += 1;
        self.row_bytes += 1;
        let ends_row = byte == b'\n' || byte == b'\r';
        let next = match (self.place, byte) {
            (Place::CellStart, _) if is_mark => Place::CellStart,
            (Place::CellStart, b'"') => {
                self.opened = self.line;
                Place::Quoted
            }
            (Place::Quoted, b'"') => Place::Quote,
            (Place::Quoted, _) | (Place::Quote, b'"') => Place::Quoted,
            _ if ends_row || byte == self.delimiter => Place::CellStart,
            _ => Place::Cell,
        };
        if ends_row && next != Place::Quoted {
            self.row_bytes = 0;
        }
        self.line += u64::from(byte == b'\n');
        self.place = next;
    }

    fn fail(&self, what: String) -> io::Result<usize> {
        self.fault.borrow_mut().get_or_insert(what.clone());
        Err(io::Error::other(what))
    }
}

impl<R: Read> Read for Rows<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buf)?;
        if read == 0 && !buf.is_empty() && self.place == Place::Quoted {
            let opened = self.opened;
            return self.fail(format!(
                "line {opened}: a quote is opened there and never closed: mend it, or give the whole file"
            ));
        }
        buf[..read].iter().for_each(|&byte| self.pass(byte));
        if self.row_bytes > ROW_BYTES_MAX {
            let line = self.line;
            return self.fail(format!(
                "line {line}: its row is longer than 256 MiB: split it, or close a quote before"
            ));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fault of a text that comes a few bytes at a time, and how many could be read.
    fn fault_of(text: &[u8], piece: usize) -> (Option<String>, usize) {
        let (mut rows, fault) = Rows::new(text, b';');
        let (mut buf, mut read) = (vec![0; piece], 0);
        while let Ok(more) = rows.read(&mut buf)
            && more > 0
        {
            read += more;
        }
        (fault.take(), read)
    }

    #[test]
    fn only_a_quote_that_is_never_closed_is_a_fault() {
        for sound in [
            &b""[..],
            b"a;b\n1;2",
            b"\"a\";\"b;\n\"\r\n1;\"\"\"\"",
            b"a\"b;c\n",
            b"\"a\"b\";c\n",
            b"\xef\xbb\xbf\"a\";b\n",
            b"\"\"",
        ] {
            for piece in 1..9 {
                let whole = (None, sound.len());
                assert_eq!(fault_of(sound, piece), whole, "{}", sound.escape_ascii());
            }
        }
        for (cut, line) in [
            (&b"\"a"[..], 1),
            (b"a;b\n1;\"2\n3;4\n", 2),
            (b"a;b\n\n1;\"2\"\"\n3;4\n", 3),
            (b"\xef\xbb\xbf\"a;b\n", 1),
            (b"x\xef\xbb\xbf\n\"a", 2),
        ] {
            for piece in 1..9 {
                let (fault, read) = fault_of(cut, piece);
                let fault = fault.expect("a fault");
                assert!(fault.starts_with(&format!("line {line}: a quote")), "{fault}");
                assert_eq!(read, cut.len(), "what stands before it is read");
            }
        }
    }

    #[test]
    fn a_row_without_an_end_is_a_fault() {
        struct Endless(u8);
        impl Read for Endless {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                buf.fill(self.0);
                Ok(buf.len())
            }
        }
        let (mut rows, fault) = Rows::new(Endless(b'x'), b',');
        let mut buf = vec![0; 1 << 20];
        let pieces = (0..1_000).take_while(|_| rows.read(&mut buf).is_ok()).count();
        assert_eq!(pieces, 256);
        assert!(fault.take().is_some_and(|what| what.contains("longer than 256 MiB")));
    }
}

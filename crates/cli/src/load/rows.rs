//! What CSV lacks: a fault where a quote is never closed, a bound for the length of a row, and the
//! line on which a row begins.
//!
//! A reader of CSV takes what follows a quote for one cell, to the end of the file if need be: a
//! file that was cut off, or in which one quote is missing, would be loaded without a word. Its own
//! count of lines stops at the end of the row before, ahead of blank lines and of the second half
//! of a line's end of two characters.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Chain, Cursor, Read};
use std::rc::Rc;

/// The longest row, in bytes.
const ROW_BYTES_MAX: u64 = 256 << 20;

/// What some editors put before text in UTF-8. It belongs to no cell.
pub(super) const MARK: &[u8] = b"\xef\xbb\xbf";

/// What is read behind the mark, if there is one. A reader of CSV knows it only where it comes in
/// one piece with what follows.
pub(super) fn past_mark<R: Read>(mut inner: R) -> io::Result<Chain<Cursor<Vec<u8>>, R>> {
    let mut head = Vec::new();
    inner.by_ref().take(MARK.len() as u64).read_to_end(&mut head)?;
    if head == MARK {
        head.clear();
    }
    Ok(Cursor::new(head).chain(inner))
}

/// What is known of rows beside their cells. They are read ahead of who asks for it.
#[derive(Clone, Default)]
pub(super) struct Known(Rc<RefCell<Told>>);

#[derive(Default)]
struct Told {
    fault: Option<String>,
    /// Where rows begin that nobody has asked for.
    lines: VecDeque<u64>,
}

impl Known {
    /// What is wrong with the rows, once something is.
    pub(super) fn fault(&self) -> Option<String> {
        self.0.borrow().fault.clone()
    }

    /// The line on which the next row begins; asked for once for each.
    pub(super) fn next_line(&self) -> Option<u64> {
        self.0.borrow_mut().lines.pop_front()
    }
}

/// Looks at the bytes that pass by.
pub(super) struct Rows<R> {
    inner: R,
    delimiter: u8,
    place: Place,
    /// Where the quote was opened.
    opened: u64,
    line: u64,
    /// The last byte ended a line, and a line feed belongs to the same end.
    is_half_ended: bool,
    row_bytes: u64,
    known: Known,
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
    pub(super) fn new(inner: R, delimiter: u8) -> (Rows<R>, Known) {
        let known = Known::default();
        let rows = Rows {
            inner,
            delimiter,
            place: Place::CellStart,
            opened: 1,
            line: 1,
            is_half_ended: false,
            row_bytes: 0,
            known: known.clone(),
        };
        (rows, known)
    }

    fn pass(&mut self, byte: u8) {
        let ends_line = byte == b'\n' || byte == b'\r';
        if self.row_bytes == 0 && !ends_line {
            self.known.0.borrow_mut().lines.push_back(self.line);
        }
        self.row_bytes += 1;
        let next = match (self.place, byte) {
            (Place::CellStart, b'"') => {
                self.opened = self.line;
                Place::Quoted
            }
            (Place::Quoted, b'"') => Place::Quote,
            (Place::Quoted, _) | (Place::Quote, b'"') => Place::Quoted,
            _ if ends_line || byte == self.delimiter => Place::CellStart,
            _ => Place::Cell,
        };
        if ends_line && next != Place::Quoted {
            self.row_bytes = 0;
        }
        self.line += u64::from(ends_line && !(self.is_half_ended && byte == b'\n'));
        self.is_half_ended = byte == b'\r';
        self.place = next;
    }

    fn fail(&self, what: String) -> io::Result<usize> {
        self.known.0.borrow_mut().fault.get_or_insert(what.clone());
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
        let (mut rows, known) = Rows::new(text, b';');
        let (mut buf, mut read) = (vec![0; piece], 0);
        while let Ok(more) = rows.read(&mut buf)
            && more > 0
        {
            read += more;
        }
        (known.fault(), read)
    }

    #[test]
    fn only_a_quote_that_is_never_closed_is_a_fault() {
        for sound in [
            &b""[..],
            b"a;b\n1;2",
            b"\"a\";\"b;\n\"\r\n1;\"\"\"\"",
            b"a\"b;c\n",
            b"\"a\"b\";c\n",
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
            (b"a\r\n\r\n\"a", 3),
            (b"a\r\r\"a", 3),
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
    fn rows_are_told_the_lines_they_begin_on() {
        for (text, lines) in [
            (&b""[..], &[][..]),
            (b"\n\r\n\n", &[]),
            (b"a\nb\n", &[1, 2]),
            (b"a\r\nb\r\n\r\nc", &[1, 2, 4]),
            (b"a\rb\r\rc", &[1, 2, 4]),
            (b"\n\na;\"b\n\r\n\"\n\"\"\n;\n", &[3, 6, 7]),
        ] {
            let (mut rows, known) = Rows::new(text, b';');
            rows.read_to_end(&mut Vec::new()).expect("sound rows");
            let told: Vec<u64> = std::iter::from_fn(|| known.next_line()).collect();
            assert_eq!(told, lines, "{}", text.escape_ascii());
        }
    }

    /// A pipe brings what its writer wrote at a time.
    #[test]
    fn the_mark_is_left_out_however_it_comes() {
        for (text, expected) in [
            (&b"\xef\xbb\xbfid\n"[..], &b"id\n"[..]),
            (b"\xef\xbb\xbf", b""),
            (b"\xef\xbb\xbf\xef\xbb\xbf", b"\xef\xbb\xbf"),
            (b"\xef\xbbid\n", b"\xef\xbbid\n"),
            (b"\xef", b"\xef"),
            (b"", b""),
        ] {
            for at in 0..=text.len() {
                let (left, right) = text.split_at(at);
                let mut read = Vec::new();
                let mut rest = past_mark(left.chain(right)).expect("a start");
                rest.read_to_end(&mut read).expect("the rest");
                assert_eq!(read, expected, "{} cut at {at}", text.escape_ascii());
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
        let (mut rows, known) = Rows::new(Endless(b'x'), b',');
        let mut buf = vec![0; 1 << 20];
        let pieces = (0..1_000).take_while(|_| rows.read(&mut buf).is_ok()).count();
        assert_eq!(pieces, 256);
        assert!(known.fault().is_some_and(|what| what.contains("longer than 256 MiB")));
    }
}

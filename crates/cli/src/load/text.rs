//! Text files as sources: opening them, and counting how much was read.

use crate::failure::{Code, Failure, Result};
use crate::progress::At;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;

/// How much of a file was read.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    read_bytes: Rc<Cell<u64>>,
    total_bytes: Option<u64>,
}

impl Meter {
    /// As progress.
    pub(super) fn at(&self, records: u64) -> At {
        At { records, bytes: self.read_bytes.get(), bytes_total: self.total_bytes }
    }
}

/// A file or standard input, counted.
pub(super) struct Counted {
    inner: Box<dyn Read>,
    meter: Meter,
}

/// Opens a file; `-` is standard input.
pub(super) fn open(path: &Path) -> Result<(Counted, Meter)> {
    let mut meter = Meter::default();
    let inner: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(io::stdin())
    } else {
        let fail = |error: io::Error| Failure::io("read", path, &error);
        let file = File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if metadata.is_dir() {
            let path = path.display();
            return Err(Failure::new(Code::Usage, format!("{path} is a directory: name a file")));
        }
        meter.total_bytes = metadata.is_file().then_some(metadata.len());
        Box::new(file)
    };
    Ok((Counted { inner, meter: meter.clone() }, meter))
}

impl Read for Counted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buf)?;
        self.meter.read_bytes.set(self.meter.read_bytes.get() + read as u64);
        Ok(read)
    }
}

/// A row number as a key: in 12 digits, so that keys stand in the order of rows.
pub(super) fn row_key(row: u64) -> Vec<u8> {
    format!("{row:012}").into_bytes()
}

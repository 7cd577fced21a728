//! Text files as sources: opening them, and counting how much was read.

use crate::failure::{Code, Failure, Result};
use crate::interrupt::Interrupt;
use crate::patient;
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
    inner: Input,
    meter: Meter,
}

enum Input {
    File(File),
    /// May have nothing to give for a long time.
    Pipe(File, Interrupt),
    /// So may this.
    Stdin(Interrupt),
}

/// Opens a file; `-` is standard input.
pub(super) fn open(path: &Path, interrupt: &Interrupt) -> Result<(Counted, Meter)> {
    let mut meter = Meter::default();
    let inner = if path.as_os_str() == "-" {
        Input::Stdin(interrupt.clone())
    } else {
        let fail = |error: io::Error| Failure::io("read", path, &error);
        let file = patient::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if metadata.is_dir() {
            let path = path.display();
            return Err(Failure::new(Code::Usage, format!("{path} is a directory: name a file")));
        }
        meter.total_bytes = metadata.is_file().then_some(metadata.len());
        match metadata.is_file() {
            true => Input::File(file),
            false => Input::Pipe(file, interrupt.clone()),
        }
    };
    Ok((Counted { inner, meter: meter.clone() }, meter))
}

impl Read for Counted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.inner {
            Input::File(file) => file.read(buf)?,
            Input::Pipe(file, interrupt) => patient::read(file, buf, interrupt)?,
            // Not through the buffer of `Stdin`, into which nobody looks before waiting.
            Input::Stdin(interrupt) => patient::read(io::stdin(), buf, interrupt)?,
        };
        self.meter.read_bytes.set(self.meter.read_bytes.get() + read as u64);
        Ok(read)
    }
}

/// A row number as a key: in 12 digits, so that keys stand in the order of rows.
pub(super) fn row_key(row: u64) -> Vec<u8> {
    format!("{row:012}").into_bytes()
}

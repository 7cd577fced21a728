//! Text files as sources: opening them, counting how much was read, and not waiting for ever for
//! more.

use crate::failure::{Code, Failure, Result};
use crate::interrupt::Interrupt;
use crate::progress::At;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
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
    Stdin(Interrupt),
}

/// How long a read of standard input waits before it looks whether the user has had enough.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Opens a file; `-` is standard input.
pub(super) fn open(path: &Path, interrupt: &Interrupt) -> Result<(Counted, Meter)> {
    let mut meter = Meter::default();
    let inner = if path.as_os_str() == "-" {
        Input::Stdin(interrupt.clone())
    } else {
        let fail = |error: io::Error| Failure::io("read", path, &error);
        let file = File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if metadata.is_dir() {
            let path = path.display();
            return Err(Failure::new(Code::Usage, format!("{path} is a directory: name a file")));
        }
        meter.total_bytes = metadata.is_file().then_some(metadata.len());
        Input::File(file)
    };
    Ok((Counted { inner, meter: meter.clone() }, meter))
}

impl Read for Counted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.inner {
            Input::File(file) => file.read(buf)?,
            Input::Stdin(interrupt) => read_stdin(buf, interrupt)?,
        };
        self.meter.read_bytes.set(self.meter.read_bytes.get() + read as u64);
        Ok(read)
    }
}

/// Reads standard input.
///
/// # Errors
/// Also if the user wants to end: what was read so far may end in the middle of a row.
fn read_stdin(buf: &mut [u8], interrupt: &Interrupt) -> io::Result<usize> {
    let stdin = io::stdin();
    loop {
        if interrupt.asked() {
            return Err(io::Error::other("interrupted"));
        }
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&WAIT)) {
            Ok(0) | Err(Errno::INTR) => {}
            // Not through the buffer of `Stdin`, which poll does not see.
            Ok(_) => return Ok(rustix::io::read(&stdin, buf)?),
            Err(error) => return Err(error.into()),
        }
    }
}

/// A row number as a key: in 12 digits, so that keys stand in the order of rows.
pub(super) fn row_key(row: u64) -> Vec<u8> {
    format!("{row:012}").into_bytes()
}

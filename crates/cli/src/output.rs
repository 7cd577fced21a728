//! Standard output: buffered, in one place, and quiet when its reader is gone.

use crate::failure::{Failure, Result};
use serde::Serialize;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

/// Standard output of a command. Call [`Output::finish`] at the end.
pub(crate) struct Output {
    inner: BufWriter<StdoutLock<'static>>,
}

impl Output {
    /// Takes standard output.
    pub(crate) fn new() -> Output {
        Output { inner: BufWriter::with_capacity(64 << 10, io::stdout().lock()) }
    }

    /// Writes text and a line break.
    pub(crate) fn line(&mut self, text: &str) -> Result<()> {
        self.raw(text.as_bytes())?;
        self.raw(b"\n")
    }

    /// Writes bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.inner.write_all(bytes).map_err(|error| Failure::output(&error))
    }

    /// Writes a value as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<()> {
        self.raw(&to_json(value)?)?;
        self.raw(b"\n")
    }

    /// Hands on what is buffered.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.inner.flush().map_err(|error| Failure::output(&error))
    }

    /// Hands on what is buffered, for the last time.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.flush()
    }
}

/// Ends a command that has found something out: that counts, also where it could not be written.
pub(crate) fn conclude(found: Result<()>, written: Result<()>) -> Result<()> {
    if let (Err(_), Err(lost)) = (&found, &written)
        && !lost.reader_gone
    {
        note(&lost.message);
    }
    found.and(written)
}

/// Compact JSON.
pub(crate) fn to_json(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Failure::other(format!("cannot write JSON: {error}")))
}

/// True if standard output is a terminal.
pub(crate) fn to_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Writes a line to standard error. Failing to complain is no failure.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "esker: {text}");
}

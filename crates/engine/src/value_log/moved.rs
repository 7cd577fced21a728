//! Writing a file of moved values.

use super::directory::{BETWEEN_BYTES, DirectoryBuilder, SMALL_BYTES};
use super::file::{Place, ValueFileMeta};
use crate::block::CODEC_NONE;
use crate::log::{BulkWriter, LogHeader, LogKind, ValuePointer};
use crate::names;
use esker_base::{Env, Result};
use std::path::Path;

/// Writes moved values, in the order in which they stood, and then the directory, twice.
///
/// Until [`MovedWriter::finish`] has returned, the file is worth nothing and nobody names it.
#[derive(Debug)]
pub(crate) struct MovedWriter {
    writer: BulkWriter,
    directory: DirectoryBuilder,
    number: u64,
    salt: u64,
    logs: Vec<u64>,
}

impl MovedWriter {
    /// Begins the file with this number, which was never used.
    pub(crate) fn create(env: &Env, dir: &Path, number: u64) -> Result<MovedWriter> {
        let salt = env.entropy.next_u64();
        let header = LogHeader { kind: LogKind::Values, number, salt, first_seq: 0 };
        let writer = BulkWriter::create(env.vfs.as_ref(), &names::values(dir, number), header)?;
        let directory = DirectoryBuilder::default();
        Ok(MovedWriter { writer, directory, number, salt, logs: Vec::new() })
    }

    /// Adds the value that stood at `from` in `log`, as `codec` left it.
    pub(crate) fn add(&mut self, log: u64, from: u64, codec: u8, stored: &[u8]) -> Result<()> {
        let to = self.writer.append_value(codec, stored)?;
        self.directory.add(log, from, to);
        if self.logs.last() != Some(&log) {
            self.logs.push(log);
        }
        Ok(())
    }

    /// Adds a value that stood nowhere before: this file is its log.
    pub(crate) fn add_new(&mut self, codec: u8, stored: &[u8]) -> Result<ValuePointer> {
        let (log, offset_bytes) = (self.number, self.writer.len_bytes());
        self.add(log, offset_bytes, codec, stored)?;
        Ok(ValuePointer { log, offset_bytes, stored_bytes: stored.len() as u32 })
    }

    /// Bytes so far.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.writer.len_bytes()
    }

    /// Ends the file and makes it durable; its name is up to the caller.
    pub(crate) fn finish(mut self) -> Result<ValueFileMeta> {
        let directory = self.directory.finish();
        let directory_at = self.writer.append_data(&directory)?;
        if directory_at >= SMALL_BYTES {
            self.writer.append_value(CODEC_NONE, &[0; BETWEEN_BYTES])?;
        }
        self.writer.append_data(&directory)?;
        let file_bytes = self.writer.finish()?;
        let place = Place::Moved { directory_at };
        let (number, salt, logs) = (self.number, self.salt, self.logs.into());
        Ok(ValueFileMeta { number, salt, file_bytes, place, logs })
    }
}

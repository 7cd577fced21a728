//! Files of values that are written for tables that are written: by bulk loading, by flushes
//! without a log, by exports.
//!
//! Crash: nobody names the files before the edit that names the tables.

use super::store::TableStore;
use crate::log::ValuePointer;
use crate::names;
use crate::options::Compression;
use crate::value_log::{MovedWriter, ValueFileMeta, pack};
use esker_base::{Result, Vfs};
use std::sync::Arc;

/// Writes values into files of their own. Dropped unfinished, it removes every file it started.
pub(crate) struct ValueOutput {
    store: Arc<TableStore>,
    /// Length at which a file is ended.
    file_bytes_max: u64,
    current: Option<MovedWriter>,
    /// Numbers of files that were started.
    started: Vec<u64>,
    done: Vec<ValueFileMeta>,
}

impl ValueOutput {
    pub(crate) fn new(store: Arc<TableStore>, file_bytes_max: u64) -> ValueOutput {
        ValueOutput { store, file_bytes_max, current: None, started: Vec::new(), done: Vec::new() }
    }

    /// Adds a value and says where it is.
    pub(crate) fn add(&mut self, value: &[u8], compression: Compression) -> Result<ValuePointer> {
        let packed = pack(value, compression);
        let (codec, stored) = packed.parts(value);
        let writer = match &mut self.current {
            Some(writer) => writer,
            None => {
                let number = self.store.new_number();
                self.started.push(number);
                let store = &self.store;
                let create = |_: &dyn Vfs| MovedWriter::create(&store.env, &store.dir, number);
                let writer = store.in_directory(create)?;
                self.current.insert(writer)
            }
        };
        let pointer = writer.add_new(codec, stored)?;
        if writer.len_bytes() >= self.file_bytes_max {
            self.end_file()?;
        }
        Ok(pointer)
    }

    /// Bytes of the present file; `None` if there is none.
    pub(crate) fn file_bytes(&self) -> Option<u64> {
        self.current.as_ref().map(MovedWriter::len_bytes)
    }

    /// Ends the present file. What is added next begins another one.
    pub(crate) fn end_file(&mut self) -> Result<()> {
        if let Some(writer) = self.current.take() {
            self.done.push(writer.finish()?);
        }
        Ok(())
    }

    /// Ends the files, which are durable then; their names are up to the caller.
    pub(crate) fn finish(mut self) -> Result<Vec<ValueFileMeta>> {
        self.end_file()?;
        self.started.clear();
        Ok(std::mem::take(&mut self.done))
    }
}

impl Drop for ValueOutput {
    fn drop(&mut self) {
        self.current = None;
        for &number in &self.started {
            // What stays behind is an orphan, which the next open removes.
            let path = names::values(&self.store.dir, number);
            let _ = self.store.in_directory(|vfs| vfs.remove(&path));
        }
    }
}

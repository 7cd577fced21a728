//! Tables being written whose large values go into files of their own: by bulk loading, and by
//! flushes of a store without a log.
//!
//! Crash: as for [`RunOutput`] and [`ValueOutput`]: nobody names the files before the edit that
//! names the tables.

use super::edit::DEEPEST_LEVEL;
use super::edit::TableMeta;
use super::grouping::Grouping;
use super::output::RunOutput;
use super::store::TableStore;
use super::value_output::ValueOutput;
use crate::names;
use crate::options::KeyspaceOptions;
use crate::table::Origin;
use crate::value_log::ValueFileMeta;
use esker_base::{Kind, Result, Trailer};
use std::path::PathBuf;
use std::sync::Arc;

/// Writes records to tables, and their large values apart. Dropped unfinished, it removes every
/// file it started.
pub(crate) struct SeparatedOutput {
    tables: RunOutput,
    /// `None` if all values stay where they are.
    values: Option<ValueOutput>,
    options: Arc<KeyspaceOptions>,
    /// Of the values.
    grouping: Option<Grouping>,
    /// An encoded pointer.
    pointer: Vec<u8>,
}

/// Files that were written, to join the tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    pub(crate) tables: Vec<TableMeta>,
    pub(crate) values: Vec<ValueFileMeta>,
}

impl SeparatedOutput {
    pub(crate) fn new(
        tables: RunOutput,
        store: Arc<TableStore>,
        options: Arc<KeyspaceOptions>,
        value_file_bytes: Option<u64>,
    ) -> SeparatedOutput {
        let values = value_file_bytes.map(|file_bytes| ValueOutput::new(store, file_bytes));
        let grouping = Grouping::new(&options);
        SeparatedOutput { tables, values, options, grouping, pointer: Vec::new() }
    }

    /// Tables of one run whose records get no numbers of their own: they count as written when the
    /// tables are put in force.
    pub(crate) fn bulk(
        store: Arc<TableStore>,
        options: Arc<KeyspaceOptions>,
        origin: Origin,
        value_file_bytes: u64,
    ) -> SeparatedOutput {
        let origin = Origin { ingested: true, ..origin };
        let (of_tables, of_run) = (options.clone(), store.clone());
        let tables =
            RunOutput::new(of_run, of_tables, origin, DEEPEST_LEVEL, Vec::new(), Vec::new());
        SeparatedOutput::new(tables, store, options, Some(value_file_bytes))
    }

    /// Adds a record after all before it.
    pub(crate) fn add(&mut self, key: &[u8], trailer: Trailer, value: &[u8]) -> Result<()> {
        let is_small = |min: u64| (value.len() as u64) < min;
        let stays = self.options.value_log_bytes_min.is_none_or(is_small);
        let Some(values) = self.values.as_mut().filter(|_| !stays) else {
            return self.tables.add(key, trailer, value);
        };
        if trailer.kind() != Some(Kind::Put) {
            return self.tables.add(key, trailer, value);
        }
        if let Some(grouping) = &mut self.grouping {
            match values.file_bytes() {
                Some(bytes) if grouping.wants_cut(key, bytes) => {
                    values.end_file()?;
                    grouping.begin_table(key);
                }
                Some(_) => {}
                None => grouping.begin_table(key),
            }
        }
        let to = values.add(value, self.options.value_log_compression)?;
        self.pointer.clear();
        to.encode(&mut self.pointer);
        self.tables.add(key, Trailer::new(trailer.seq(), Kind::PutPointer), &self.pointer)
    }

    /// Ends the files: they and their names are durable. On an error none of them stays.
    pub(crate) fn finish(self, store: &TableStore) -> Result<Written> {
        let values = self.values.map_or(Ok(Vec::new()), ValueOutput::finish)?;
        // The names of values become durable along with those of tables.
        let tables = self.tables.finish();
        let mut written = Written { tables: Vec::new(), values };
        written.tables = tables.inspect_err(|_| written.remove(store))?;
        Ok(written)
    }
}

impl Written {
    /// Bytes of all files.
    pub(crate) fn file_bytes(&self) -> u64 {
        let of_values = self.values.iter().map(|meta| meta.file_bytes);
        self.tables.iter().map(|meta| meta.file_bytes).chain(of_values).sum()
    }

    /// Removes the files, which nobody names. What stays behind is an orphan.
    pub(crate) fn remove(&self, store: &TableStore) {
        let of_values = self.values.iter().map(|meta| meta.path(&store.dir));
        let of_tables = self.tables.iter().map(|meta| names::table(&store.dir, meta.number));
        for path in of_tables.chain(of_values).collect::<Vec<PathBuf>>() {
            let _ = store.in_directory(|vfs| vfs.remove(&path));
        }
    }
}

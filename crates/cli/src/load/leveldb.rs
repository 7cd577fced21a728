//! The records of a LevelDB store.

use super::source::{Record, Source, Step};
use crate::failure::Result;
use crate::leveldb::{Entry, Store};
use crate::progress::At;
use std::path::Path;

/// Reads a store in key order.
pub(super) struct LevelDb {
    store: Store,
    records: u64,
}

impl LevelDb {
    /// Opens a store, which nobody may have open.
    pub(super) fn open(dir: &Path) -> Result<LevelDb> {
        Ok(LevelDb { store: Store::open(dir)?, records: 0 })
    }
}

impl Source for LevelDb {
    fn next(&mut self, record: &mut Record) -> Result<Step> {
        if let Some(note) = self.store.take_note() {
            return Ok(Step::Note(note));
        }
        match self.store.next()? {
            None => Ok(Step::End),
            Some(Entry { key, value }) => {
                self.records += 1;
                record.key = key;
                record.value = value;
                Ok(Step::Record)
            }
        }
    }

    fn place(&self) -> String {
        format!("record {}", self.records)
    }

    fn at(&self, records: u64) -> At {
        let bytes_total = Some(self.store.bytes_total());
        At { records, bytes: self.store.bytes_read(), bytes_total }
    }
}

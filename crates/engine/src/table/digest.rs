//! Reading the digest of a table.

use super::reader::TableReader;
use crate::run_index::DigestSource;
use esker_base::{Error, Result};
use std::ops::Deref;

/// The digest of one table, block by block.
pub(crate) struct StoredDigest<R> {
    reader: R,
    next: usize,
}

impl<R: Deref<Target = TableReader>> StoredDigest<R> {
    pub(crate) fn new(reader: R) -> StoredDigest<R> {
        StoredDigest { reader, next: 0 }
    }
}

impl<R: Deref<Target = TableReader>> DigestSource for StoredDigest<R> {
    fn next_block(&mut self, block: &mut Vec<u8>) -> Result<bool> {
        if self.next >= self.reader.properties().digest.len() {
            return Ok(false);
        }
        self.reader.read_digest(self.next, block)?;
        self.next += 1;
        Ok(true)
    }

    fn damaged(&self, what: &'static str) -> Error {
        self.reader.damaged_digest(self.next.saturating_sub(1), what)
    }
}

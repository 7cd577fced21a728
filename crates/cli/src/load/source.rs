//! What a source of records is.

use crate::failure::Result;
use crate::progress::At;
use esker::base::key::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// A key and its value. Reused from one to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl Record {
    /// Says what is wrong if the record cannot be stored.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.key.len() > KEY_BYTES_MAX {
            return Err("the key is longer than 1 MiB".to_owned());
        }
        if self.value.len() > VALUE_BYTES_MAX {
            return Err("the value is longer than 1 GiB".to_owned());
        }
        Ok(())
    }
}

/// What the next step of a source brought.
#[derive(Debug)]
pub(crate) enum Step {
    /// The record was filled.
    Record,
    /// An entry was left out, for this reason.
    Skipped(String),
    /// Something the user should know; nothing was left out.
    Note(String),
    /// There is no more.
    End,
}

/// Yields records in the order of the source.
pub(crate) trait Source {
    /// Fills `record` with the next one.
    ///
    /// # Errors
    /// The source cannot be read, or is malformed. It is not asked again.
    fn next(&mut self, record: &mut Record) -> Result<Step>;

    /// Where in the source the last record stands, for messages.
    fn place(&self) -> String;

    /// How far it has been read, with this many records.
    fn at(&self, records: u64) -> At;
}

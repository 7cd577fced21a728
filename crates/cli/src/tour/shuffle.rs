//! A source in random order: the tree has more to do than with records that come sorted.

use crate::failure::Result;
use crate::load::{FileTree, Record, Source, Step};
use crate::progress::At;
use esker::base::checksum::{hash64, mix64};

/// All records of a tree of files, in an order that their keys decide.
pub(super) struct Shuffled {
    records: Vec<Record>,
    /// Entries that could not be read.
    pub(super) skipped: u64,
}

impl Shuffled {
    /// Reads all of a source.
    pub(super) fn new(mut tree: FileTree) -> Result<Shuffled> {
        let mut records = Vec::new();
        let mut skipped = 0;
        let mut record = Record::default();
        loop {
            match tree.next(&mut record)? {
                Step::Record => records.push(std::mem::take(&mut record)),
                Step::Skipped(_) => skipped += 1,
                Step::Note(_) => {}
                Step::End => break,
            }
        }
        records.sort_by_cached_key(|record| mix64(hash64(&record.key)));
        Ok(Shuffled { records, skipped })
    }
}

impl Source for Shuffled {
    fn next(&mut self, record: &mut Record) -> Result<Step> {
        let Some(next) = self.records.pop() else { return Ok(Step::End) };
        *record = next;
        Ok(Step::Record)
    }

    fn place(&self) -> String {
        format!("{} records before the end", self.records.len())
    }

    fn at(&self, records: u64) -> At {
        At { records, ..At::default() }
    }
}

//! The range tombstones of a run, those of each table once a key of it is asked for.

use super::run::Run;
use crate::iter::LazyTombstones;
use crate::range_tombstone::RangeTombstones;
use esker_base::{KeyOrder, Result};
use std::ops::Range;
use std::sync::Arc;

/// Where among the tables of a run keys are asked for.
#[derive(Debug)]
pub(crate) struct RunTombstones {
    run: Arc<Run>,
    /// The first table that does not end before the last key that was asked for.
    at: usize,
    /// The table whose tombstones were given last; `None` if none were.
    given: Option<usize>,
}

impl RunTombstones {
    /// Of these tables of a run; `None` if they have none.
    pub(crate) fn of(run: &Arc<Run>, walked: Range<usize>) -> Option<RunTombstones> {
        let at = walked.start;
        let any = run.tables[walked].iter().any(|table| table.meta.range_tombstones > 0);
        any.then(|| RunTombstones { run: run.clone(), at, given: None })
    }

    /// Index of the first table that does not end before `key`, from the last place on.
    #[inline]
    fn locate(&mut self, order: &KeyOrder, key: &[u8]) -> usize {
        let tables = &self.run.tables;
        let ends_before = |at: usize| tables[at].ends_before(order, key);
        let begins_here = self.at == 0 || ends_before(self.at - 1);
        if !begins_here || self.at < tables.len() && ends_before(self.at) {
            self.at = self.run.position(order, key);
        }
        self.at
    }
}

impl LazyTombstones for RunTombstones {
    fn over(&mut self, order: &KeyOrder, key: &[u8]) -> Result<Option<Arc<RangeTombstones>>> {
        let at = self.locate(order, key);
        let table = self.run.tables.get(at).filter(|table| {
            table.meta.range_tombstones > 0 && order.compare(&table.meta.smallest, key).is_le()
        });
        let wanted = table.map(|_| at);
        if wanted == self.given {
            return Ok(None);
        }
        let set = match table {
            Some(table) => {
                let reader = table.shared_reader()?;
                table.range_tombstones(&reader)
            }
            None => Arc::default(),
        };
        self.given = wanted;
        Ok(Some(set))
    }
}

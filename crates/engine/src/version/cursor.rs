//! A cursor over a sorted run: one table after the other, each opened when it is reached.

use super::run::Run;
use super::store::Table;
use crate::block::{BlockCursor, StoredBlock};
use crate::cursor::{Advance, BlocksRead, Cursor, Step};
use crate::iter::Lend;
use crate::table::{CursorOptions, TableCursor};
use esker_base::{KeyOrder, Result, Trailer};
use std::ops::Range;
use std::sync::Arc;

/// Walks the point records of a run.
pub(crate) struct RunCursor {
    order: KeyOrder,
    run: Arc<Run>,
    /// Which of its tables are walked.
    walked: Range<usize>,
    options: CursorOptions,
    /// Index among these of the table that `inner` is over.
    at: usize,
    inner: Option<TableCursor>,
    /// In the tables that were walked before.
    blocks_read: BlocksRead,
}

impl RunCursor {
    /// A cursor over the tables `walked` of `run`.
    pub(crate) fn new(
        order: KeyOrder,
        run: Arc<Run>,
        walked: Range<usize>,
        options: CursorOptions,
    ) -> RunCursor {
        let blocks_read = BlocksRead::default();
        RunCursor { order, run, walked, options, at: 0, inner: None, blocks_read }
    }

    /// A cursor over tables that are sorted and disjoint, of whatever run.
    pub(crate) fn over(
        order: KeyOrder,
        tables: Vec<Arc<Table>>,
        options: CursorOptions,
    ) -> RunCursor {
        let walked = 0..tables.len();
        RunCursor::new(order, Arc::new(Run::new(0, tables)), walked, options)
    }

    #[inline]
    fn tables(&self) -> &[Arc<Table>] {
        &self.run.tables[self.walked.clone()]
    }

    /// Opens table `at`, unless it is the one already open. False if there is none.
    fn open(&mut self, at: usize) -> Result<bool> {
        if at >= self.walked.len() {
            self.let_go();
            return Ok(false);
        }
        if self.inner.is_none() || self.at != at {
            // Cleared first, so that an error leaves no cursor over another table behind.
            self.let_go();
            let table = &self.tables()[at];
            let reader = table.shared_reader()?;
            let seq_override = table.meta.seq_override;
            self.inner = Some(reader.cursor(CursorOptions { seq_override, ..self.options }));
            self.at = at;
        }
        Ok(true)
    }

    /// Leaves the open table.
    fn let_go(&mut self) {
        self.blocks_read = self.blocks_read();
        self.inner = None;
    }

    /// While the open table is exhausted, goes to the first record of the next one.
    fn forward(&mut self) -> Result<()> {
        while self.inner.as_ref().is_some_and(|inner| !inner.valid()) {
            if !self.open(self.at + 1)? {
                return Ok(());
            }
            if let Some(inner) = &mut self.inner {
                inner.seek_to_first()?;
            }
        }
        Ok(())
    }

    /// While the open table is exhausted, goes to the last record of the one before.
    fn backward(&mut self) -> Result<()> {
        while self.inner.as_ref().is_some_and(|inner| !inner.valid()) {
            if self.at == 0 {
                self.let_go();
                return Ok(());
            }
            self.open(self.at - 1)?;
            if let Some(inner) = &mut self.inner {
                inner.seek_to_last()?;
            }
        }
        Ok(())
    }

    /// Index of the first table that does not end before `key`.
    fn table_at(&self, key: &[u8]) -> usize {
        self.tables().partition_point(|table| table.ends_before(&self.order, key))
    }

    #[inline]
    fn current(&self) -> &TableCursor {
        self.inner.as_ref().expect("the cursor is valid")
    }
}

impl Cursor for RunCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.valid())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        if self.open(0)?
            && let Some(inner) = &mut self.inner
        {
            inner.seek_to_first()?;
        }
        self.forward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let Some(last) = self.walked.len().checked_sub(1) else { return Ok(()) };
        self.open(last)?;
        if let Some(inner) = &mut self.inner {
            inner.seek_to_last()?;
        }
        self.backward()
    }

    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        if self.open(self.table_at(key))?
            && let Some(inner) = &mut self.inner
        {
            inner.seek(key, trailer)?;
        }
        self.forward()
    }

    fn seek_before(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        let Some(last) = self.walked.len().checked_sub(1) else { return Ok(()) };
        self.open(self.table_at(key).min(last))?;
        if let Some(inner) = &mut self.inner {
            inner.seek_before(key, trailer)?;
        }
        self.backward()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.advance()?;
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if let Some(inner) = &mut self.inner {
            inner.prev()?;
            if inner.valid() {
                return Ok(());
            }
        }
        self.backward()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.current().key()
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        self.current().trailer()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.current().value()
    }
}

impl Lend for RunCursor {
    #[inline]
    fn exchange_leaf(&mut self, leaf: &mut BlockCursor) -> bool {
        self.inner.as_mut().is_some_and(|inner| inner.exchange_leaf(leaf))
    }

    #[inline]
    fn stored_block(&self) -> Option<&StoredBlock> {
        self.inner.as_ref()?.stored_block()
    }

    fn blocks_read(&self) -> BlocksRead {
        let of_open = self.inner.as_ref().map(TableCursor::blocks_read);
        self.blocks_read + of_open.unwrap_or_default()
    }
}

impl Advance for RunCursor {
    #[inline]
    fn advance(&mut self) -> Result<Option<Step<'_>>> {
        let Some(inner) = &mut self.inner else { return Ok(None) };
        inner.next()?;
        if !inner.valid() {
            // No key has records in two tables, so that a table's first record repeats none.
            self.forward()?;
        }
        Ok(self.inner.as_ref().and_then(TableCursor::step))
    }
}

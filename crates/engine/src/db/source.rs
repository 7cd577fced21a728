//! What a scan merges: memtables, runs, and runs that a run index speaks for.

use crate::block::BlockCursor;
use crate::cursor::{Advance, BlocksRead, Cursor as RecordCursor, Step};
use crate::iter::{IndexedCursor, Lend};
use crate::memtable::MemCursor;
use crate::version::RunCursor;
use esker_base::{Result, Trailer};

/// One source of a scan.
pub(super) enum Source {
    Memtable(MemCursor),
    Run(Box<RunCursor>),
    Indexed(Box<IndexedCursor<RunCursor>>),
}

/// Calls the same method of whichever source it is.
macro_rules! each {
    ($source:expr, $cursor:ident => $call:expr) => {
        match $source {
            Source::Memtable($cursor) => $call,
            Source::Run($cursor) => $call,
            Source::Indexed($cursor) => $call,
        }
    };
}

impl RecordCursor for Source {
    #[inline]
    fn valid(&self) -> bool {
        each!(self, c => c.valid())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        each!(self, c => c.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        each!(self, c => c.seek_to_last())
    }

    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        each!(self, c => c.seek(key, trailer))
    }

    fn seek_before(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        each!(self, c => c.seek_before(key, trailer))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        each!(self, c => c.next())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        each!(self, c => c.prev())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        each!(self, c => c.key())
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        each!(self, c => c.trailer())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        each!(self, c => c.value())
    }
}

impl Lend for Source {
    #[inline]
    fn exchange_leaf(&mut self, leaf: &mut BlockCursor) -> bool {
        match self {
            Source::Memtable(_) | Source::Indexed(_) => false,
            Source::Run(run) => run.exchange_leaf(leaf),
        }
    }

    fn blocks_read(&self) -> BlocksRead {
        match self {
            Source::Memtable(_) => BlocksRead::default(),
            Source::Run(run) => run.blocks_read(),
            Source::Indexed(runs) => runs.blocks_read(),
        }
    }
}

impl Advance for Source {
    #[inline]
    fn advance(&mut self) -> Result<Option<Step<'_>>> {
        each!(self, c => c.advance())
    }
}

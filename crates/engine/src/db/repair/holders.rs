//! Files with values, and what can be read of them.

use crate::log::{Gap, ValuePointer};
use crate::names::FileKind;
use crate::value_log::{Directory, ValueFileMeta};
use esker_base::{Kind, Trailer};
use std::collections::BTreeMap;

/// The files with values that are there, and what can be read of them.
#[derive(Debug, Default)]
pub(super) struct Values {
    pub(super) holders: Vec<Holder>,
    /// Which holder has the values of a log.
    pub(super) by_log: BTreeMap<u64, usize>,
    /// Logs that records were left out for, and how many.
    pub(super) missing: BTreeMap<u64, u64>,
    /// Files that do not say which values were moved into them. It is a loss if they are needed.
    pub(super) unread: Vec<Unread>,
}

/// A file of moved values without a header or a directory that can be read.
#[derive(Debug)]
pub(super) struct Unread {
    pub(super) number: u64,
    pub(super) why: &'static str,
    /// Where nothing can be read.
    pub(super) gaps: Vec<Gap>,
}

/// A file with values.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) kind: FileKind,
    pub(super) meta: ValueFileMeta,
    pub(super) directory: Option<Directory>,
    /// Where readable values begin, if some cannot be read; `None` if all can.
    pub(super) readable: Option<Vec<u64>>,
    /// Where nothing can be read in a file of moved values, which its log tells otherwise.
    pub(super) gaps: Vec<Gap>,
    /// Up to here it is known to be durable.
    pub(super) durable_bytes: u64,
}

impl Holder {
    /// True if any value of a log can be read.
    pub(super) fn has_any_of(&self, log: u64) -> bool {
        let Some(readable) = &self.readable else { return true };
        match &self.directory {
            None => !readable.is_empty(),
            Some(directory) => {
                directory.iter().any(|(of, _, at)| of == log && readable.binary_search(&at).is_ok())
            }
        }
    }

    fn has(&self, log: u64, from: u64) -> bool {
        let at = match &self.directory {
            None => Some(from),
            Some(directory) => directory.find(log, from),
        };
        at.is_some_and(|at| match &self.readable {
            None => at < self.meta.file_bytes,
            Some(readable) => readable.binary_search(&at).is_ok(),
        })
    }
}

impl Values {
    /// True if the value that was written to `log` at `from` can be read.
    pub(super) fn has(&self, log: u64, from: u64) -> bool {
        self.by_log.get(&log).is_some_and(|&nth| self.holders[nth].has(log, from))
    }

    /// True if a record can be kept: it points to nothing, or to a value that can be read. Others
    /// are counted.
    pub(super) fn keeps(&mut self, trailer: Trailer, value: &[u8]) -> bool {
        if trailer.kind() != Some(Kind::PutPointer) {
            return true;
        }
        let pointer = ValuePointer::decode(value);
        let kept = pointer.is_some_and(|to| self.has(to.log, to.offset_bytes));
        if !kept {
            *self.missing.entry(pointer.map_or(0, |to| to.log)).or_default() += 1;
        }
        kept
    }
}

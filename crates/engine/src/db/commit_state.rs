//! The log that takes records, the one that comes next, and those that take none any more.

use super::journal::Journal;
use super::progress::EpochId;
use crate::log::{Blank, LogHeader, LogKind, Writer};
use crate::value_log::ValueFile;
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::{KeyspaceId, Result, Seq};
use std::sync::Arc;

/// What the holder of the right to write owns.
pub(super) struct CommitState {
    pub(super) journal: Journal,
    /// Of the log; without one, of the epoch.
    pub(super) number: u64,
    /// The epoch, where there is no log.
    pub(super) epoch: EpochId,
    /// The log, if it holds values.
    pub(super) values: Option<Arc<ValueFile>>,
    /// Bytes of the values that it holds.
    pub(super) value_bytes: u64,
    pub(super) next_seq: Seq,
    /// Keyspaces whose active memtable is full. Without a log one stands for all, also where an
    /// epoch names as much as it may.
    pub(super) full: Vec<KeyspaceId>,
    /// Length of the log at which the one after it is to be made ready.
    pub(super) spare_due_bytes: u64,
}

impl CommitState {
    pub(super) fn new(
        journal: Journal,
        number: u64,
        next_seq: Seq,
        spare_due_bytes: u64,
    ) -> CommitState {
        CommitState {
            journal,
            number,
            epoch: EpochId::new(),
            values: None,
            value_bytes: 0,
            next_seq,
            full: Vec::new(),
            spare_due_bytes,
        }
    }

    /// Sequence number of the newest record.
    pub(super) fn last_seq(&self) -> Seq {
        self.next_seq - 1
    }
}

/// A log that takes no more records.
pub(super) struct RetiredWal {
    pub(super) number: u64,
    pub(super) first_seq: Seq,
    pub(super) bytes: u64,
    /// Bytes of the values that it holds.
    pub(super) value_bytes: u64,
    /// Where its last whole record ends that is no mark. All of that is durable when the log is.
    pub(super) records_end: u64,
    /// The log, if it holds values.
    pub(super) values: Option<Arc<ValueFile>>,
    /// `None` if the log is durable and closed.
    pub(super) writer: Arc<Mutex<Option<Writer>>>,
}

/// A log that is ready.
pub(super) struct Spare {
    pub(super) number: u64,
    pub(super) salt: u64,
    pub(super) blank: Blank,
}

impl Spare {
    /// The log, with its header.
    pub(super) fn begin(self, first_seq: Seq) -> Result<Writer> {
        let Spare { number, salt, blank } = self;
        blank.begin(LogHeader { kind: LogKind::Wal, number, salt, first_seq })
    }
}

/// Where the spare lies.
#[derive(Default)]
pub(super) struct SpareSlot {
    pub(super) ready: Option<Spare>,
    /// The current log has grown so far that the next one will be needed.
    pub(super) wanted: bool,
    /// No spare could be made while this log was the current one: not tried again before the next.
    pub(super) refused_at: Option<u64>,
}

/// Raises a number that changes under the right to write only, without the cost of an exchange.
#[inline]
pub(super) fn raise(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

//! The log that takes records, and those that take none any more.

use crate::log::Writer;
use esker_base::sync::Mutex;
use esker_base::{KeyspaceId, Seq};
use std::sync::Arc;

/// What the holder of the right to write owns.
pub(super) struct CommitState {
    pub(super) wal: Writer,
    pub(super) number: u64,
    pub(super) next_seq: Seq,
    /// Keyspaces whose active memtable is full.
    pub(super) full: Vec<KeyspaceId>,
}

impl CommitState {
    pub(super) fn new(wal: Writer, number: u64, next_seq: Seq) -> CommitState {
        CommitState { wal, number, next_seq, full: Vec::new() }
    }

    /// Sequence number of the newest record.
    pub(super) fn last_seq(&self) -> Seq {
        self.next_seq - 1
    }
}

/// A log that takes no more records.
pub(super) struct RetiredWal {
    pub(super) number: u64,
    pub(super) bytes: u64,
    /// `None` if the log is durable and closed.
    pub(super) writer: Arc<Mutex<Option<Writer>>>,
}

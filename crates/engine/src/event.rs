//! Events: what the engine does in the background, told as it happens.

use crate::trace::Step;
use esker_base::{Error, KeyspaceId, Seq};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Receives events. Called on the thread where they happen, sometimes under a lock: be brief, do
/// not call the database, do not panic.
pub trait EventListener: Send + Sync {
    /// Something happened.
    fn on_event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> EventListener for F {
    fn on_event(&self, event: &Event) {
        self(event);
    }
}

/// Why a compaction was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompactionReason {
    /// The level is over its limit.
    Size,
    /// The tables hold many tombstones, or a range tombstone.
    Tombstones,
    /// Scans have lost as much time over the runs that they find as the compaction takes.
    Scans,
    /// Space is short, and only a compaction finds out which values that stand apart are dead.
    Values,
    /// Tables share what was deleted with a group with others.
    Erased,
    /// Small tables stand next to each other.
    SmallTables,
    /// The user asked.
    Manual,
}

/// How far the log of a group is in tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistedGroup {
    /// The group.
    pub group: Vec<u8>,
    /// Index of the newest request that tables hold, with all before it.
    pub index: u64,
}

/// Something the engine did or noticed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A log was read at open.
    WalReplayed {
        /// Number of the log.
        number: u64,
        /// Batches read from it.
        batches: u64,
        /// Bytes at its end that were never durable and could not be read.
        torn_bytes: u64,
    },
    /// The end of the manifest was never durable and could not be read.
    ManifestTorn {
        /// Number of the manifest.
        number: u64,
        /// Bytes dropped.
        torn_bytes: u64,
    },
    /// A memtable was sealed and waits to be flushed.
    MemtableSealed {
        /// Its keyspace.
        keyspace: KeyspaceId,
        /// Bytes of memory it holds.
        memory_bytes: u64,
    },
    /// Memtables became tables of level 0.
    Flushed {
        /// Their keyspace.
        keyspace: KeyspaceId,
        /// Tables written; 0 if there was nothing left to write.
        tables: u64,
        /// Bytes written.
        bytes_written: u64,
        /// Everything in the keyspace up to this sequence number is in tables now.
        flushed_seq: Seq,
        /// How long it took, in microseconds.
        duration_us: u64,
    },
    /// Requests of a log that were applied are in tables now: its owner may forget them. Told only
    /// with `durability = external`.
    Persisted {
        /// Everything up to this sequence number is in tables now, in all keyspaces.
        seq: Seq,
        /// How far the groups are of which that has changed.
        groups: Vec<PersistedGroup>,
    },
    /// A compaction starts.
    CompactionStarted {
        /// Its keyspace.
        keyspace: KeyspaceId,
        /// Why it was chosen.
        reason: CompactionReason,
        /// Level it takes from.
        level: usize,
        /// Level it puts to.
        output_level: usize,
        /// Tables it takes.
        input_tables: u64,
        /// Bytes it takes.
        input_bytes: u64,
    },
    /// A compaction is in force.
    CompactionFinished {
        /// Its keyspace.
        keyspace: KeyspaceId,
        /// Level it took from.
        level: usize,
        /// Level it put to.
        output_level: usize,
        /// Bytes it read; 0 if tables only moved.
        bytes_read: u64,
        /// Bytes it wrote; 0 if tables only moved.
        bytes_written: u64,
        /// Tables it made or moved.
        output_tables: u64,
        /// How long it took, in microseconds; rests of a job that nobody waits for do not count.
        duration_us: u64,
    },
    /// A compaction began, or a tree was changed by a flush or a compaction, which was told before;
    /// or nobody could write for a while, for want of memory or behind level 0, which is told for
    /// every keyspace. Times count from the start of the store's clock.
    Step {
        /// Its keyspace.
        keyspace: KeyspaceId,
        /// What happened, and the tree after it.
        step: Step,
    },
    /// A run index was made and is in force.
    RunIndexMade {
        /// Its keyspace.
        keyspace: KeyspaceId,
        /// Runs it knows.
        runs: u64,
        /// Its entries: about one for each key.
        entries: u64,
        /// Bytes of memory it takes.
        bytes: u64,
        /// How long it took, in microseconds.
        duration_us: u64,
    },
    /// A run index would have taken more memory than it may. Reads go on without one, or with the
    /// old one.
    RunIndexTooLarge {
        /// Its keyspace.
        keyspace: KeyspaceId,
        /// What it might have taken.
        bytes_max: u64,
    },
    /// A run index could not be made. Reads go on without one, or with the old one, until the store
    /// is reopened.
    RunIndexFailed {
        /// Its keyspace.
        keyspace: KeyspaceId,
        /// Why not.
        error: Error,
    },
    /// Tables were ingested.
    Ingested {
        /// Their keyspace.
        keyspace: KeyspaceId,
        /// How many.
        tables: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// The file of a table was removed.
    TableRemoved {
        /// Its number.
        number: u64,
    },
    /// A file with values of which none is needed any more was removed.
    ValueFileRemoved {
        /// The file.
        path: PathBuf,
    },
    /// Values that are still needed were moved into a new file, so that old ones can go.
    ValuesMoved {
        /// Number of the new file; 0 if nothing was needed any more.
        number: u64,
        /// Files that they came from, those included that held nothing that is needed.
        files: u64,
        /// Length of these.
        bytes_before: u64,
        /// Length of the new file.
        bytes_after: u64,
        /// Time it took, in microseconds.
        duration_us: u64,
    },
    /// A file with values is not collected, since one of them that is needed cannot be read: it
    /// keeps the space of its dead values. If it is damaged, [`crate::repair`] gives up the record
    /// and moves the rest; if the disk failed, it is tried again, after longer each time.
    ValueUnreadable {
        /// Where the damage is, or what failed.
        error: Error,
    },
    /// A file that is not needed could not be removed; the next open tries again.
    CleanupFailed {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: Error,
    },
    /// Work in the background failed and will be tried again.
    BackgroundRetry {
        /// The failure.
        error: Error,
    },
    /// The store takes no more writes until it is reopened.
    Poisoned {
        /// The failure.
        why: String,
    },
    /// Writes begin to be slowed, at this rate, or, with `None`, are slowed no longer. How the rate
    /// changes in between is in [`Event::Step`] only. Writes of large values that are kept apart
    /// are slowed by themselves too, in bytes as they are stored, where collecting dead ones falls
    /// behind.
    WriteRate {
        /// Bytes per second.
        bytes_per_second: Option<u64>,
    },
}

/// Where events go; nowhere by default.
#[derive(Clone, Default)]
pub(crate) struct EventSink {
    listener: Option<Arc<dyn EventListener>>,
}

impl EventSink {
    pub(crate) fn new(listener: Option<Arc<dyn EventListener>>) -> EventSink {
        EventSink { listener }
    }

    /// True if somebody listens.
    pub(crate) fn is_on(&self) -> bool {
        self.listener.is_some()
    }

    pub(crate) fn emit(&self, event: &Event) {
        if let Some(listener) = &self.listener {
            listener.on_event(event);
        }
    }
}

impl fmt::Debug for EventSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventSink({})", if self.listener.is_some() { "on" } else { "off" })
    }
}

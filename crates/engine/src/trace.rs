//! Traces: what flushes and compactions did to a tree, step by step, whether it is a real one or
//! simulated.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What happened to one keyspace's tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// What was run, in words: names of settings and their values.
    pub about: BTreeMap<String, String>,
    /// When the last byte of the load was taken, in microseconds since the start.
    pub loaded_us: u64,
    /// In the order of time.
    pub steps: Vec<Step>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// When it was over, in microseconds since the start.
    pub at_us: u64,
    /// What.
    pub what: What,
    /// Bytes of keys and values that users had written by then.
    pub user_bytes: u64,
    /// Bytes of memory of the memtables, full or not.
    pub memtable_bytes: u64,
    /// Bytes a second that users are let write, if they are being slowed.
    pub slowed_to: Option<u64>,
    /// The level that has the time slice, if levels take turns and one has it.
    pub turn: Option<usize>,
    /// The tree after it, level 0 first.
    pub levels: Vec<Shape>,
    /// Compactions under way, the oldest first.
    pub running: Vec<Running>,
}

/// A compaction under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Running {
    /// The level that is to be made smaller.
    pub level: usize,
    /// The level that takes the result.
    pub output_level: usize,
    /// What it reads, from both.
    pub input: Amount,
    /// When it began, in microseconds since the start.
    pub since_us: u64,
}

/// What happened in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum What {
    /// A memtable became a run of level 0.
    Flushed {
        /// What was written.
        written: Amount,
        /// How long it took.
        duration_us: u64,
    },
    /// A compaction began: the last of those under way.
    Started,
    /// Tables were merged.
    Compacted {
        /// The level that was to be made smaller.
        level: usize,
        /// The level that took the result.
        output_level: usize,
        /// What left `level`.
        taken: Amount,
        /// What was read besides: the tables that the result was merged with.
        rewritten: Amount,
        /// What was written.
        written: Amount,
        /// How long it took.
        duration_us: u64,
    },
    /// Tables went down as they are, or joined others of their level.
    Moved {
        /// The level they left.
        level: usize,
        /// The level they joined.
        output_level: usize,
        /// How many.
        taken: Amount,
    },
    /// Nobody could write.
    Stopped {
        /// For how long.
        duration_us: u64,
    },
}

/// Tables, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// How many.
    pub tables: u64,
    /// Bytes of all.
    pub bytes: u64,
}

/// What a level holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Sorted runs.
    pub runs: u64,
    /// Tables.
    pub tables: u64,
    /// Bytes of all tables.
    pub bytes: u64,
    /// Bytes from which on the level is compacted; 0 if it is not for its bytes.
    pub limit_bytes: u64,
    /// Sorted runs from which on it is compacted; 0 if it is not for its runs.
    pub limit_runs: u64,
}

impl Amount {
    /// Adds up tables of these bytes.
    pub fn of(bytes: impl IntoIterator<Item = u64>) -> Amount {
        let add = |sum: Amount, bytes| Amount { tables: sum.tables + 1, bytes: sum.bytes + bytes };
        bytes.into_iter().fold(Amount::default(), add)
    }
}

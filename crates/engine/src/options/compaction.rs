//! How a keyspace's tree is compacted: into what shape, and which level first.

use super::in_range;
use esker_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// The shape that compactions give a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compaction {
    /// Every level below level 0 is one sorted run, `level_fanout` times the one above. Reads look
    /// into few runs; a byte is rewritten about `level_fanout` times for each level it passes.
    /// Source: LevelDB.
    #[default]
    Leveled,
    /// Every level holds up to `tiered_runs` sorted runs; when there are so many, they are merged
    /// into one run of the next level, in which nothing is rewritten. A byte is written about once
    /// for each level; reads look into more runs. Source: the stepped merge of Jagadish et al.
    /// (VLDB '97), LooseKV.
    Tiered,
}

/// Which level is compacted first when several are over their limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// The one that is furthest over its limit, in proportion.
    #[default]
    Ratio,
    /// The same, but level 0 goes before all others from `level0_runs_slow` runs on, so that writes
    /// are not slowed; meanwhile what it hands down piles up in the levels below. Source: LevelDB
    /// and RocksDB 2.5.
    Priority,
    /// Levels take turns: whoever holds the time slice compacts until it is used up or the level is
    /// back under its limit; then the next level has it, if it is over its limit too. Source: Slot.
    TimeSlice(TimeSlice),
}

/// How long a level's turn is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TimeSlice {
    /// Milliseconds of compaction after which a turn ends. Raising it lets a level get further
    /// below the size it had, and others wait longer. Default: none given, which means a fifth
    /// longer than the compactions of level 0 so far suggest that its excess takes; while level 0
    /// is under its limit, that of the level whose turn it is. Range: 1 to 3 600 000.
    pub slice_ms: Option<u64>,
    /// The share of the bytes above the limit after whose compaction a turn ends early. Default:
    /// 1.0, which never ends it before the level is under its limit. Range: 0.01 to 1.0.
    pub release_share: f64,
}

impl Default for TimeSlice {
    fn default() -> TimeSlice {
        TimeSlice { slice_ms: None, release_share: 1.0 }
    }
}

impl Scheduler {
    pub(super) fn validate(&self) -> Result<()> {
        let Scheduler::TimeSlice(TimeSlice { slice_ms, release_share }) = self else {
            return Ok(());
        };
        if let Some(ms) = slice_ms {
            in_range("scheduler slice_ms", *ms, 1, 3_600_000)?;
        }
        if !(0.01..=1.0).contains(release_share) {
            return Err(Error::invalid(format!(
                "scheduler release_share = {release_share} is outside 0.01 to 1.0"
            )));
        }
        Ok(())
    }
}

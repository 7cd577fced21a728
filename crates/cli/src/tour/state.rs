//! What the parts of the tour share: the plan, the figures they gather, where they show them.

use super::show::Show;
use crate::clock::Stopwatch;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use esker::{Compression, KeyspaceOptions, Options};
use serde::Serialize;
use std::path::PathBuf;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// What the tour is to do.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Where the stores go; `None` is a temporary directory.
    pub(crate) dir: Option<PathBuf>,
    pub(crate) source: PathBuf,
    pub(crate) keep: bool,
    pub(crate) json: bool,
    pub(crate) options: Options,
    /// The same options for the process that is killed.
    pub(crate) child_args: Vec<String>,
}

/// Options that give a few megabytes a tree of several levels.
pub(crate) fn small_tree() -> Options {
    Options {
        memory_budget_bytes: 64 * MIB,
        default_keyspace: KeyspaceOptions {
            memtable_bytes: MIB,
            table_bytes_max: 512 * KIB,
            level_base_bytes: 2 * MIB,
            level_fanout: 4,
            compression: vec![Compression::Lz4],
            ..KeyspaceOptions::default()
        },
        ..Options::default()
    }
}

/// What all parts of the tour need.
pub(super) struct Tour<'a> {
    pub(super) plan: &'a Plan,
    pub(super) show: Show,
    pub(super) figures: Figures,
    pub(super) interrupt: Interrupt,
    pub(super) watch: Stopwatch,
}

impl Tour<'_> {
    /// A place where the tour may end early.
    pub(super) fn pause(&self) -> Result<()> {
        match self.interrupt.asked() {
            true => Err(Failure::interrupted("the tour was interrupted: run it again")),
            false => Ok(()),
        }
    }
}

/// What the sections found out.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Figures {
    pub(super) loaded: u64,
    pub(super) loaded_bytes: u64,
    pub(super) load_seconds: f64,
    pub(super) scan_per_second: u64,
    pub(super) gets: u64,
    pub(super) get_p50_ns: u64,
    pub(super) get_p99_ns: u64,
    /// Records found by the index.
    pub(super) found: u64,
    pub(super) overwritten: u64,
    pub(super) deleted: u64,
    /// Records that should be in the store in the end.
    pub(super) expected_records: u64,
    pub(super) disk_bytes: u64,
    pub(super) write_amplification: f64,
    pub(super) kills: u64,
    pub(super) killed_acknowledged: u64,
    pub(super) came_back: u64,
    pub(super) kill_seconds: f64,
    pub(super) recovery_ns_max: u64,
    pub(super) checks: u64,
    pub(super) failed: u64,
    pub(super) seconds: f64,
}

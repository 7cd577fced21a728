//! The tables of the import rules: which module stands on which floor.
//!
//! A module imports only modules on strictly lower floors; see docs/architecture.md.

/// The rules for imports inside crates.
pub(super) struct Rules {
    /// Where the modules with floors are.
    pub(super) floors_src: &'static str,
    /// Module (longest prefix wins) and floor. A module that is missing fails.
    pub(super) floors: &'static [(&'static str, u8)],
    /// Files of one crate that may import each other in a circle: the two files, and why.
    pub(super) cycles: &'static [(&'static str, &'static str, &'static str)],
}

pub(super) const RULES: Rules = Rules {
    floors_src: "crates/engine/src",
    floors: &[
        ("lib", 9),
        ("db", 8),
        ("simulate", 7),
        ("flush", 6),
        ("gc", 6),
        ("compaction", 6),
        ("compaction/job", 6),
        ("compaction/parts", 5),
        ("compaction/policy", 5),
        ("compaction/scheduler", 5),
        ("version", 4),
        ("iter", 3),
        ("table", 2),
        ("value_log", 2),
        ("log", 1),
        ("memtable", 1),
        ("run_index", 1),
        ("cache", 1),
        ("block", 1),
        ("event", 1),
        ("options", 0),
        ("stats", 0),
        ("cursor", 0),
        ("value", 0),
        ("fields", 0),
        ("random", 0),
        ("range_tombstone", 0),
        ("names", 0),
        ("report", 0),
        ("trace", 0),
    ],
    cycles: &[],
};

/// A crate: its directory, its package name and its floor.
pub(super) type CrateFloor = (&'static str, &'static str, u8);

/// Crates depend only on crates of lower floors.
pub(super) const CRATES: &[CrateFloor] = &[
    ("crates/base", "esker-base", 0),
    ("crates/engine", "esker", 1),
    ("crates/draw", "esker-draw", 0),
    ("crates/lab", "esker-lab", 2),
    ("crates/settings", "esker-settings", 2),
    ("crates/gates", "esker-gates", 2),
    ("crates/bench", "esker-bench", 3),
    ("crates/cli", "esker-cli", 3),
    ("crates/capi", "esker-capi", 3),
    ("crates/py", "esker-py", 2),
    ("examples/replicated-log", "esker-replicated-log", 2),
    ("compare", "esker-compare", 4),
    ("xtask", "xtask", 0),
];

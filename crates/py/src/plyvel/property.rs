//! What `get_property` says: our statistics under LevelDB's names.

use esker::report::{LevelStats, Stats};
use std::fmt::Write;

/// The deepest level that LevelDB has.
const LEVELS: usize = 7;

/// The text of a property, or `None` if there is none of this name.
pub(super) fn text(stats: &Stats, name: &[u8]) -> Option<String> {
    let name = str::from_utf8(name).ok()?.strip_prefix("leveldb.")?;
    let levels = stats.keyspaces.first().map_or(&[][..], |keyspace| &keyspace.levels);
    if let Some(number) = name.strip_prefix("num-files-at-level") {
        // A number alone: parsing it would allow for a sign.
        let digits = number.bytes().all(|byte| byte.is_ascii_digit());
        let level = number.parse::<usize>().ok().filter(|level| digits && *level < LEVELS)?;
        let tables = levels.get(level).map_or(0, |level: &LevelStats| level.tables);
        return Some(tables.to_string());
    }
    match name {
        "stats" => Some(compactions(levels)),
        "sstables" => Some(tables(levels)),
        "approximate-memory-usage" => {
            let memory = &stats.memory;
            Some((memory.memtables + memory.block_cache + memory.pinned_tables).to_string())
        }
        _ => None,
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// A line for each level that holds tables or was written to.
fn compactions(levels: &[LevelStats]) -> String {
    let mut text = String::from(
        "                               Compactions\n\
         Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n\
         --------------------------------------------------\n",
    );
    for (number, level) in levels.iter().enumerate() {
        if level.tables == 0 && level.jobs == 0 {
            continue;
        }
        let _ = writeln!(
            text,
            "{number:3} {:8} {:8.0} {:9.0} {:8.0} {:9.0}",
            level.tables,
            mib(level.bytes),
            level.duration_us as f64 / 1e6,
            mib(level.bytes_read),
            mib(level.bytes_written),
        );
    }
    text
}

/// How many tables and bytes stand in each level: which tables, statistics do not say.
fn tables(levels: &[LevelStats]) -> String {
    let mut text = String::new();
    for number in 0..LEVELS {
        let _ = writeln!(text, "--- level {number} ---");
        if let Some(level) = levels.get(number).filter(|level| level.tables > 0) {
            let _ = writeln!(text, " {} tables: {} bytes", level.tables, level.bytes);
        }
    }
    text
}

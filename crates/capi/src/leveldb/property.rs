//! What `leveldb_property_value` tells, in the form that LevelDB gives it.

use esker::report::{KeyspaceStats, Stats, TableInfo};
use esker::{Keyspace, Result};

/// Levels that properties speak of.
const LEVELS: usize = 7;

/// The value of a property; `None` if there is none of this name.
pub(super) fn value(keyspace: &Keyspace, stats: &Stats, name: &str) -> Result<Option<String>> {
    let Some(name) = name.strip_prefix("leveldb.") else { return Ok(None) };
    let default = stats.keyspaces.first();
    if let Some(level) = name.strip_prefix("num-files-at-level") {
        let digits = !level.is_empty() && level.bytes().all(|c| c.is_ascii_digit());
        let level = level.parse().ok().filter(|&level: &usize| digits && level < LEVELS);
        let tables =
            |level: usize| default.and_then(|k| k.levels.get(level)).map_or(0, |l| l.tables);
        return Ok(level.map(|level| tables(level).to_string()));
    }
    Ok(match name {
        "stats" => default.map(compactions),
        "sstables" => Some(tables(&keyspace.tables()?)),
        "approximate-memory-usage" => {
            let memory = &stats.memory;
            Some((memory.memtables + memory.block_cache + memory.pinned_tables).to_string())
        }
        _ => None,
    })
}

/// A row for each level that holds tables or was written to.
fn compactions(keyspace: &KeyspaceStats) -> String {
    let mut text = format!("{:>42}\n", "Compactions");
    text.push_str("Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n");
    text.push_str(&"-".repeat(50));
    text.push('\n');
    let mib = |bytes: u64| bytes as f64 / (1u64 << 20) as f64;
    for (number, level) in keyspace.levels.iter().enumerate() {
        if level.tables > 0 || level.duration_us > 0 {
            text.push_str(&format!(
                "{number:3} {:8} {:8.0} {:9.0} {:8.0} {:9.0}\n",
                level.tables,
                mib(level.bytes),
                level.duration_us as f64 / 1e6,
                mib(level.bytes_read),
                mib(level.bytes_written),
            ));
        }
    }
    text
}

/// A row for each table below the one of its level: number, bytes, smallest and largest key.
fn tables(tables: &[TableInfo]) -> String {
    let mut text = String::new();
    for level in 0..LEVELS {
        text.push_str(&format!("--- level {level} ---\n"));
        for table in tables.iter().filter(|table| table.level == level) {
            text.push_str(&format!(
                " {}:{}['{}' .. '{}']\n",
                table.number,
                table.bytes,
                table.smallest_key.escape_ascii(),
                table.largest_key.escape_ascii()
            ));
        }
    }
    text
}

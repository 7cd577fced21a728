//! The drawing of a tree: a row of figures and a row of cells for each level.
//!
//! Frames of bars grow from level to level, so that the drawing has the shape of the tree; a bar
//! shows how full a level is against its limit. A pure function of statistics and of what may be
//! drawn with.

use crate::paint::{Ink, Paint};
use crate::units;
use esker::KeyspaceOptions;
use esker::report::{KeyspaceStats, LevelStats};
use esker::trace::Shape;

/// Columns of the name of a level.
pub(crate) const NAME_WIDTH: usize = 5;
/// Columns of the figures at the right.
const FIGURES_WIDTH: usize = 46;
/// Columns of the shortest frame.
const FRAME_MIN: usize = 8;
/// From here on a bar is drawn as warm.
const WARM: f64 = 0.8;

/// Draws a keyspace, line by line.
pub(crate) fn draw(
    keyspace: &KeyspaceStats,
    options: &KeyspaceOptions,
    paint: &Paint,
) -> Vec<String> {
    let field = field_width(paint);
    let mut lines = vec![title(keyspace, paint), String::new(), head(field, paint)];
    let rows = keyspace.levels.len() + 1;
    let frame = |row: usize| frame_width(row, rows, field);
    lines.push(memory_row(keyspace, options, frame(0), field, paint));
    for (i, level) in keyspace.levels.iter().enumerate() {
        lines.push(level_row(i, level, options, frame(i + 1), field, paint));
        lines.extend(cells(i, &shape(level), paint));
    }
    lines
}

/// Columns in which bars stand.
pub(crate) fn field_width(paint: &Paint) -> usize {
    paint.width.saturating_sub(NAME_WIDTH + FIGURES_WIDTH).clamp(FRAME_MIN + 2, 48)
}

/// Columns of the frame in one of so many rows: it grows evenly to the full width of the field.
pub(crate) fn frame_width(row: usize, rows: usize, field: usize) -> usize {
    FRAME_MIN + (field - 2 - FRAME_MIN) * row / (rows - 1).max(1)
}

fn title(keyspace: &KeyspaceStats, paint: &Paint) -> String {
    let name = crate::bytes::printable(keyspace.name.as_bytes());
    let entries: u64 = keyspace.levels.iter().map(|level| level.entries).sum();
    let tables: u64 = keyspace.levels.iter().map(|level| level.tables).sum();
    let text = format!(
        "{} in {} and memory, {} on disk",
        units::plural(entries + keyspace.memtable_entries, "record", "records"),
        units::plural(tables, "table", "tables"),
        units::bytes(keyspace.table_bytes()),
    );
    format!("{}  {text}", paint.ink(Ink::Strong, &name))
}

fn head(field: usize, paint: &Paint) -> String {
    let text = format!(
        "{:NAME_WIDTH$}{:^field$}{:>10}{:>13}{:>11}{:>12}",
        "", "full", "bytes", "limit", "tables", "tombstones"
    );
    paint.ink(Ink::Faint, &text)
}

/// How full the memtables are.
fn memory_row(
    keyspace: &KeyspaceStats,
    options: &KeyspaceOptions,
    frame: usize,
    field: usize,
    paint: &Paint,
) -> String {
    let share = keyspace.memtable_bytes as f64 / options.memtable_bytes.max(1) as f64;
    // An empty memtable keeps a little memory; that is not something to draw.
    let share = if keyspace.memtable_entries == 0 { 0.0 } else { share };
    let figures = format!(
        "{:>10}{:>13}",
        units::bytes(keyspace.memtable_bytes),
        units::bytes(options.memtable_bytes),
    );
    format!("{:NAME_WIDTH$}{}{figures}", "mem", framed(share, frame, field, paint))
}

fn level_row(
    number: usize,
    level: &LevelStats,
    options: &KeyspaceOptions,
    frame: usize,
    field: usize,
    paint: &Paint,
) -> String {
    let (share, limit) = fullness(&shape(level));
    let dead = tombstone_share(level);
    let tombstones = format!("{:>11.1}%", dead * 100.0);
    let over = dead > 0.0 && dead >= options.tombstone_ratio_compact;
    let tombstones = if over { paint.ink(Ink::Bad, &tombstones) } else { tombstones };
    let bytes = units::bytes(level.bytes);
    let tables = units::count(level.tables);
    let bar = framed(share, frame, field, paint);
    format!(
        "{:NAME_WIDTH$}{bar}{bytes:>10}{limit:>13}{tables:>11}{tombstones}",
        format!("L{number}")
    )
}

fn shape(level: &LevelStats) -> Shape {
    Shape {
        runs: level.runs,
        tables: level.tables,
        bytes: level.bytes,
        limit_bytes: level.limit_bytes,
        limit_runs: level.limit_runs,
    }
}

/// How full a level is against its limit, and what that is.
pub(crate) fn fullness(level: &Shape) -> (f64, String) {
    match (level.limit_bytes, level.limit_runs) {
        // The deepest level takes whatever comes.
        (0, 0) => (if level.bytes > 0 { 1.0 } else { 0.0 }, "none".to_owned()),
        (0, most) => {
            let limit = format!("{} of {most} runs", level.runs);
            (level.runs as f64 / most as f64, limit)
        }
        (limit, _) => (level.bytes as f64 / limit as f64, units::bytes(limit)),
    }
}

/// The share of records in a level that are tombstones.
fn tombstone_share(level: &LevelStats) -> f64 {
    let dead = level.tombstones + level.range_tombstones;
    dead as f64 / (level.entries + level.range_tombstones).max(1) as f64
}

/// A bar between two edges, in the middle of its field.
pub(crate) fn framed(share: f64, frame: usize, field: usize, paint: &Paint) -> String {
    let ink = match share {
        s if s > 1.0 => Ink::Bad,
        s if s >= WARM => Ink::Warm,
        _ => Ink::Good,
    };
    let (left, right) = if paint.unicode { ("▕", "▏") } else { ("[", "]") };
    let before = (field - frame - 2) / 2;
    let after = field - frame - 2 - before;
    let bar = paint.bar(share, frame, ink);
    let (left, right) = (paint.ink(Ink::Faint, left), paint.ink(Ink::Faint, right));
    format!("{:before$}{left}{bar}{right}{:after$}", "", "")
}

/// One cell per table, or per so many tables as fit. None for a level without tables.
pub(crate) fn cells(number: usize, level: &Shape, paint: &Paint) -> Option<String> {
    if level.tables == 0 {
        return None;
    }
    let room = paint.width.saturating_sub(NAME_WIDTH + 24).max(8) as u64;
    let each = level.tables.div_ceil(room);
    let cells = level.tables.div_ceil(each) as usize;
    let cell = if paint.unicode { "▪" } else { "o" };
    // In level 0 every run stands for itself; with one table a run, the runs can be told apart.
    let apart = number == 0 && level.runs == level.tables && cells * 2 <= room as usize;
    let row = vec![cell; cells].join(if apart { " " } else { "" });
    let note = if each > 1 { format!("  each {each} tables") } else { String::new() };
    let (row, note) = (paint.ink(Ink::Cell, &row), paint.ink(Ink::Faint, &note));
    Some(format!("{:NAME_WIDTH$}{row}{note}", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> KeyspaceStats {
        let mut keyspace = KeyspaceStats::default();
        keyspace.name = "default".to_owned();
        keyspace.memtable_entries = 1_000;
        keyspace.memtable_bytes = 16 << 20;
        for (runs, tables, bytes, limit) in
            [(2, 2, 20 << 20, 0), (1, 4, 200 << 20, 256 << 20), (1, 500, 30 << 30, 0)]
        {
            let mut level = LevelStats::default();
            level.runs = runs;
            level.tables = tables;
            level.bytes = bytes;
            level.limit_bytes = limit;
            level.limit_runs = if keyspace.levels.is_empty() { 4 } else { 0 };
            level.entries = bytes / 100;
            level.tombstones = bytes / 1000;
            keyspace.levels.push(level);
        }
        keyspace
    }

    #[test]
    fn eighty_columns_are_enough() {
        let plain = Paint::plain();
        let fancy = Paint { unicode: true, ..plain };
        for paint in [plain, fancy, Paint { width: 76, ..plain }] {
            for line in draw(&sample(), &KeyspaceOptions::default(), &paint) {
                let width = line.chars().count();
                assert!(width <= paint.width, "{width} columns: {line}");
            }
        }
    }

    #[test]
    fn a_tree_is_drawn() {
        let lines = draw(&sample(), &KeyspaceOptions::default(), &Paint::plain());
        let expected = "\
default  324 430 414 records in 506 tables and memory, 30.2 GiB on disk

                 full                  bytes        limit     tables  tombstones
mem           [##......]            16.0 MiB     64.0 MiB
L0         [#######.......]         20.0 MiB  2 of 4 runs          2       10.0%
     o o
L1      [################....]     200.0 MiB    256.0 MiB          4       10.0%
     oooo
L2   [###########################]  30.0 GiB         none        500       10.0%
     oooooooooooooooooooooooooooooooooooooooooooooooooo  each 10 tables";
        assert_eq!(lines.join("\n"), expected);
    }

    #[test]
    fn an_empty_tree_is_drawn_too() {
        let mut keyspace = KeyspaceStats::default();
        keyspace.levels.push(LevelStats::default());
        let lines = draw(&keyspace, &KeyspaceOptions::default(), &Paint::plain());
        assert_eq!(lines.len(), 5, "{lines:?}");
    }
}

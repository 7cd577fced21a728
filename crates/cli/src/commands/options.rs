//! `esker options`: what can be set.

use crate::failure::Result;
use crate::output::Output;
use esker_settings::{PRESETS, table, typed};
use serde_json::{Map, Value};

/// Print all options of the engine, with their defaults and the presets
///
/// Any of them can be given to a command as --option NAME=VALUE. They apply while the command runs;
/// only data is stored, not options. Options of keyspaces apply to every keyspace that has none of
/// its own in `keyspaces`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  esker options
  esker load --db store --preset edge --option memtable_bytes=4MiB --option filter=bloom:14 csv:people.csv")]
pub(crate) struct Args {
    /// Write JSON: an object for each preset
    #[arg(long)]
    json: bool,
}

/// Prints them.
pub(crate) fn run(args: &Args) -> Result<()> {
    let rows = table()?;
    let mut out = Output::new();
    if args.json {
        let mut presets = Map::new();
        for (i, preset) in PRESETS.iter().enumerate() {
            let values = rows.iter().map(|(name, values)| (name.clone(), values[i].clone()));
            presets.insert((*preset).to_owned(), Value::Object(values.collect()));
        }
        out.json(&presets)?;
        return out.finish();
    }
    let shown: Vec<Vec<String>> = rows
        .iter()
        .map(|(name, values)| {
            let values = values.iter().map(|value| typed(name, value));
            std::iter::once(name.clone()).chain(values).collect()
        })
        .collect();
    let head = std::iter::once("option").chain(PRESETS).map(str::to_owned).collect();
    let all: Vec<Vec<String>> = std::iter::once(head).chain(shown).collect();
    let width = |column: usize| all.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..=PRESETS.len()).map(width).collect();
    for row in &all {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            // A preset that leaves the default alone is easier to read as nothing.
            let cell = if column > 1 && *cell == row[1] { "-" } else { cell.as_str() };
            line.push_str(&format!("{cell:width$}  ", width = widths[column]));
        }
        out.line(line.trim_end())?;
    }
    out.finish()
}

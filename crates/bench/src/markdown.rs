//! Results as tables in Markdown, for pages: a row for each workload, a column for each engine.

use crate::report::{Report, Row};
use crate::result::Measured;
use esker_draw::units::{bytes, duration, rate};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// One kind of figure: its heading, and what stands in a cell. `None` if a run has no such figure.
type Figure = (&'static str, fn(&Row<'_>) -> Option<String>);

const FIGURES: &[Figure] = &[
    ("Operations a second, and processor time of each", |row| {
        let cpu = duration(1e3 * row.median(|run| run.cpu_us_per_operation));
        Some(format!("{} · {cpu}", rate(row.median(Measured::rate))))
    }),
    ("Latency: p99.9 and longest", |row| {
        let of = |figure: fn(&Measured) -> u64| duration(row.median(|run| figure(run) as f64));
        let timed = row.first().main_latency().count > 1;
        let p999 = || of(|run| run.main_latency().p999);
        timed.then(|| format!("{} · {}", p999(), of(|run| run.main_latency().max)))
    }),
    ("Puts among them, where there are gets: p99.9 and longest", |row| {
        let of = |figure: fn(&Measured) -> u64| duration(row.median(|run| figure(run) as f64));
        let both = row.first().writes.count > 0 && row.first().reads.count > 0;
        both.then(|| format!("{} · {}", of(|run| run.writes.p999), of(|run| run.writes.max)))
    }),
    ("Bytes written for each of the user's; seconds until the store had no more work", |row| {
        row.first().write_amplification()?;
        let amplification = row.median(|run| run.write_amplification().unwrap_or(0.0));
        Some(format!("{amplification:.2} · {:.1} s", row.median(|run| run.settle_seconds)))
    }),
    ("Most memory; disk in the end", |row| {
        let of = |figure: fn(&Measured) -> u64| bytes(row.median(|run| figure(run) as f64) as u64);
        Some(format!("{} · {}", of(|run| run.memory_peak_bytes), of(|run| run.disk_bytes)))
    }),
];

/// Machine, engines and tables of a report.
pub fn results(report: &Report) -> String {
    let mut text = format!("{}\n\n", report.machine);
    for (name, setup) in &report.engines {
        let _ = writeln!(text, "- **{name}**: {setup}");
    }
    let mut engines: Vec<&str> = Vec::new();
    let mut steps: BTreeMap<usize, Vec<Row<'_>>> = BTreeMap::new();
    for row in report.rows() {
        let step = row.first().step;
        steps.entry(step).or_default().push(row);
    }
    for run in &report.runs {
        if !engines.contains(&run.engine.as_str()) {
            engines.push(&run.engine);
        }
    }
    for (heading, cell) in FIGURES {
        let mut lines = String::new();
        for (&step, rows) in &steps {
            let of = |engine: &&str| rows.iter().find(|row| row.first().engine == **engine);
            let cells: Vec<_> = engines.iter().map(|name| of(name).and_then(cell)).collect();
            if cells.iter().all(Option::is_none) {
                continue;
            }
            let cells: Vec<_> = cells.into_iter().map(Option::unwrap_or_default).collect();
            let _ = writeln!(lines, "| {} | {} |", report.label(step), cells.join(" | "));
        }
        if !lines.is_empty() {
            let rule = "---|".repeat(engines.len() + 1);
            let head = engines.join(" | ");
            let _ = write!(text, "\n{heading}\n\n| workload | {head} |\n|{rule}\n{lines}");
        }
    }
    text
}

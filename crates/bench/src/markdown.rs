//! Results as tables in Markdown, for pages: a row for each workload, a column for each engine.

use crate::report::{Report, Row};
use crate::result::{Latency, Measured};
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
    ("Latency: p99, p99.9 and longest", |row| {
        let run = row.first();
        (!is_mixed(run) && run.main_latency().count > 1)
            .then(|| latency(row, Measured::main_latency))
    }),
    ("Gets among puts: p99, p99.9 and longest", |row| {
        is_mixed(row.first()).then(|| latency(row, |run| &run.reads))
    }),
    ("Puts among gets: p99, p99.9 and longest", |row| {
        is_mixed(row.first()).then(|| latency(row, |run| &run.writes))
    }),
    (
        "Bytes written for each of the user's, as the system counts them and, in brackets, as the store does; seconds \
         until the store had no more work",
        |row| {
            row.first().write_amplification()?;
            let amplification = row.median(|run| run.write_amplification().unwrap_or(0.0));
            let own = row.first().own_write_amplification().map(|_| {
                let own = row.median(|run| run.own_write_amplification().unwrap_or(0.0));
                format!(" ({own:.2})")
            });
            let (own, settled) = (own.unwrap_or_default(), row.median(|run| run.settle_seconds));
            Some(format!("{amplification:.2}{own} · {settled:.1} s"))
        },
    ),
    ("Most memory; most disk; disk in the end", |row| {
        let of = |figure: fn(&Measured) -> u64| bytes(row.median(|run| figure(run) as f64) as u64);
        let disk = [of(|run| run.disk_peak_bytes), of(|run| run.disk_bytes)];
        Some(format!("{} · {}", of(|run| run.memory_peak_bytes), disk.join(" · ")))
    }),
];

fn is_mixed(run: &Measured) -> bool {
    run.writes.count > 0 && run.reads.count > 0
}

fn latency(row: &Row<'_>, of: fn(&Measured) -> &Latency) -> String {
    let median = |figure: fn(&Latency) -> u64| duration(row.median(|run| figure(of(run)) as f64));
    let figures: [fn(&Latency) -> u64; 3] = [|of| of.p99, |of| of.p999, |of| of.max];
    figures.map(median).join(" · ")
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::result::tests::measured;

    #[test]
    fn gets_and_puts_of_one_workload_are_told_apart() {
        let config = Config::of(&["--benchmarks", "ycsb-a,fillrandom"]).expect("flags");
        let mut report = Report::new(&config);
        let mut mixed = measured("ycsb-a");
        (mixed.reads.p999, mixed.writes.p999) = (111_000, 222_000);
        let mut puts = measured("fillrandom");
        (puts.step, puts.reads, puts.writes.p999) = (1, Latency::default(), 333_000);
        report.runs = vec![mixed, puts];
        let text = results(&report);
        let under = |heading: &str| {
            let (_, rest) = text.split_once(heading).expect("a table");
            let lines = rest.lines().skip(4).take_while(|line| line.starts_with('|'));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let latency = |nth: &str, p999| format!("| {nth} | 2 ns · {p999} · 4 ns |");
        assert_eq!(under("\nLatency"), [latency("fillrandom", "333 µs")]);
        assert_eq!(under("\nGets among puts"), [latency("ycsb-a", "111 µs")]);
        assert_eq!(under("\nPuts among gets"), [latency("ycsb-a", "222 µs")]);
        assert!(text.contains("| ycsb-a | 2.50 (2.40) · 0.5 s |"), "{text}");
        assert!(text.contains("| ycsb-a | 3 B · 2 B · 1 B |"), "{text}");
    }
}

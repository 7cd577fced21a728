//! Results as tables in Markdown, for pages: a row for each workload, a column for each engine.

use crate::report::{Report, Row};
use crate::result::{Kind, Latency, Measured};
use crate::workload::find;
use esker_draw::units::{bytes, duration, rate};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Bytes from which on it is shown what was written where the user wrote nothing.
const WRITTEN_BYTES_MIN: u64 = 1 << 20;

/// One kind of figure: its heading, and what stands in a cell. `None` if a run has no such figure.
type Figure = (&'static str, fn(&Row<'_>) -> Option<String>);

const FIGURES: &[Figure] = &[
    (
        "Operations a second, with half of the way from the slowest to the fastest round, or both in brackets where \
         that is more than the middle one; processor time of each; processors that were busy",
        |row| {
            let spread = row.around().map_or(String::new(), |around| format!(" {around}"));
            let cpu = duration(1e3 * row.median(|run| run.cpu_us_per_operation));
            let (rate, busy) = (rate(row.median(Measured::rate)), row.median(Measured::processors));
            Some(format!("{rate}{spread} · {cpu} · {busy:.1}"))
        },
    ),
    (
        "Operations a second of what writes, with the time until the store had no more work; that time; \
         processor time of each, with that of this work",
        |row| {
            (row.first().user_written_bytes > 0).then(|| {
                let settled = row.median(|run| run.settle_seconds);
                let cpu = row.median(|run| run.settled_cpu_us_per_operation.unwrap_or(f64::NAN));
                let cpu = if cpu.is_nan() { "?".to_owned() } else { duration(1e3 * cpu) };
                format!("{} · {settled:.1} s · {cpu}", rate(row.median(Measured::settled_rate)))
            })
        },
    ),
    ("Gets that found their key, where some did not", |row| {
        let found = row.first().found_share()?;
        (found < 1.0).then(|| format!("{:.0}%", 100.0 * found))
    }),
    ("Latency: p99, p99.9 and longest of all rounds", |row| {
        let run = row.first();
        let kind = run.kinds()[0];
        let is_one = !run.is_mixed() && run.latency(kind).count > 1 && !goes_over_all(run);
        is_one.then(|| latency(row, kind))
    }),
    ("Gets among puts: p99, p99.9 and longest of all rounds", |row| {
        row.first().is_mixed().then(|| latency(row, Kind::Reads))
    }),
    ("Puts among gets: p99, p99.9 and longest of all rounds", |row| {
        row.first().is_mixed().then(|| latency(row, Kind::Writes))
    }),
    (
        "Bytes written for each of the user's, as the system counts them and, in brackets, as the store does; where the user wrote \
         none, all of them",
        |row| {
            let run = row.first();
            if run.user_written_bytes == 0 {
                let written = row.median(|run| run.written_bytes as f64) as u64;
                return (written >= WRITTEN_BYTES_MIN)
                    .then(|| format!("{} in all", bytes(written)));
            }
            run.write_amplification()?;
            let amplification = row.median(|run| run.write_amplification().unwrap_or(0.0));
            let own = run.own_write_amplification().map(|_| {
                let own = row.median(|run| run.own_write_amplification().unwrap_or(0.0));
                format!(" ({own:.2})")
            });
            Some(format!("{amplification:.2}{}", own.unwrap_or_default()))
        },
    ),
    ("Most memory that is no file's, and with mapped files", |row| {
        let of = |figure: fn(&Measured) -> u64| bytes(row.median(|run| figure(run) as f64) as u64);
        let all = of(|run| run.memory_peak_bytes);
        row.first().own_memory_peak_bytes?;
        Some(format!("{} · {all}", of(|run| run.own_memory_peak_bytes.unwrap_or(0))))
    }),
    ("Most disk; disk in the end", |row| {
        let of = |figure: fn(&Measured) -> u64| bytes(row.median(|run| figure(run) as f64) as u64);
        Some(format!("{} · {}", of(|run| run.disk_peak_bytes), of(|run| run.disk_bytes)))
    }),
];

/// Whether a run's operations each went over everything.
fn goes_over_all(run: &Measured) -> bool {
    find(&run.workload).is_ok_and(|workload| workload.any_keys())
}

fn latency(row: &Row<'_>, kind: Kind) -> String {
    let median =
        |figure: fn(&Latency) -> u64| duration(row.median(|run| figure(run.latency(kind)) as f64));
    let longest = duration(row.most(|run| run.latency(kind).max as f64));
    [median(|of| of.p99), median(|of| of.p999), longest].join(" · ")
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
        assert!(text.contains("| ycsb-a | 2.50 (2.40) |"), "{text}");
        assert!(text.contains("| ycsb-a | 2 B · 1 B |"), "{text}");
    }

    #[test]
    fn what_flatters_is_shown_too() {
        let config = Config::of(&["--benchmarks", "fillrandom,readrandom,seekrandom,readseq"]);
        let mut report = Report::new(&config.expect("flags"));
        let mut fill = measured("fillrandom");
        (fill.reads, fill.own_memory_peak_bytes) = (Latency::default(), Some(1));
        fill.settled_cpu_us_per_operation = Some(1.5);
        let mut slower = fill.clone();
        (slower.seconds, slower.writes.max) = (4.0, 9_000);
        let mut faster = fill.clone();
        faster.seconds = 2.0;
        let mut gets = measured("readrandom");
        (gets.step, gets.writes, gets.user_written_bytes) = (1, Latency::default(), 0);
        (gets.operations, gets.found, gets.sought) = (200, 63, Some(100));
        gets.written_bytes = 0;
        let mut scans = gets.clone();
        (scans.step, scans.workload, scans.written_bytes) = (2, "seekrandom".to_owned(), 7 << 20);
        scans.sought = Some(0);
        let mut walks = gets.clone();
        (walks.step, walks.workload) = (3, "readseq".to_owned());
        report.runs = vec![fill, slower, faster, gets, scans, walks];
        let text = results(&report);
        let rows = |name: &str| {
            let start = format!("| {name} | ");
            let of = |line: &str| line.strip_prefix(&start).map(|rest| rest.to_owned());
            text.lines().filter_map(of).collect::<Vec<_>>()
        };
        // Three, 2.25 and 4.5 a second; half a second more in the end.
        assert_eq!(rows("fillrandom")[0], "3 ± 38% · 1.00 µs · 0.0 |");
        assert_eq!(rows("fillrandom")[1], "2.57 · 0.5 s · 1.50 µs |");
        assert_eq!(rows("fillrandom")[2], "2 ns · 3 ns · 9.00 µs |", "the longest of all rounds");
        assert_eq!(rows("fillrandom")[4], "1 B · 3 B |");
        assert_eq!(rows("readrandom")[1], "63% |");
        assert_eq!(rows("seekrandom")[2], "7.00 MiB in all |", "{text}");
        assert!(!rows("readseq").contains(&"2 ns · 3 ns · 4 ns |".to_owned()), "{text}");
        // One round that had next to nothing to do.
        report.runs[2].seconds = 0.01;
        let text = results(&report);
        assert!(text.contains("| fillrandom | 3 (2.25 to 900) · 1.00 µs · 0.0 |"), "{text}");
    }
}

//! Tables in the terminal: results of a run, and two runs side by side.

use crate::report::{Report, Row};
use crate::result::{Kind, Latency, Measured};
use esker_draw::units::{bytes, duration, rate};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Rows of cells, the first of them names, as aligned text.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |row: &Vec<String>, at: usize| row.get(at).map_or(0, |cell| cell.chars().count());
    let widths: Vec<usize> =
        (0..columns).map(|at| rows.iter().map(|row| cell(row, at)).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (at, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            // Names to the left, figures to the right.
            let _ = match at {
                0 | 1 => write!(line, "{cell:<width$}  "),
                _ => write!(line, "{cell:>width$}  "),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// All results, one line for each workload and engine.
pub fn results(report: &Report) -> String {
    let head = [
        "workload",
        "engine",
        "ops/s",
        "rounds",
        "CPU/op",
        "CPUs",
        "p50",
        "p99",
        "p99.9",
        "max",
        "write amp",
        "stalled",
        "settling",
        "ops/s settled",
        "disk",
        "memory",
        "of its own",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut by_step: Vec<Row<'_>> = report.rows();
    by_step.sort_by_key(|row| row.first().step);
    rows.extend(by_step.iter().flat_map(result_rows));
    format!("{}\n{}", report.machine, aligned(&rows))
}

/// A row; of a mixed workload one for its gets, and below it one for its puts, with nothing but
/// latencies.
fn result_rows(row: &Row<'_>) -> Vec<Vec<String>> {
    let first = row.first();
    let named = |kind: Kind| match first.is_mixed() {
        true => format!("{}, {}", first.workload, kind.name()),
        false => first.workload.clone(),
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for &kind in first.kinds() {
        let latencies = latencies(row, kind);
        rows.push(match rows.is_empty() {
            true => result_row(row, named(kind), latencies),
            false => [named(kind), first.engine.clone()]
                .into_iter()
                .chain(["", "", "", ""].map(str::to_owned))
                .chain(latencies)
                .collect(),
        });
    }
    rows
}

fn latencies(row: &Row<'_>, kind: Kind) -> [String; 4] {
    let median =
        |figure: fn(&Latency) -> u64| duration(row.median(|run| figure(run.latency(kind)) as f64));
    let longest = duration(row.most(|run| run.latency(kind).max as f64));
    [median(|of| of.p50), median(|of| of.p99), median(|of| of.p999), longest]
}

fn result_row(row: &Row<'_>, name: String, [p50, p99, p999, longest]: [String; 4]) -> Vec<String> {
    let median = |figure: &dyn Fn(&Measured) -> f64| row.median(figure);
    let first = row.first();
    vec![
        name,
        first.engine.clone(),
        rate(median(&Measured::rate)),
        dash(row.around()),
        duration(1e3 * median(&|run| run.cpu_us_per_operation)),
        format!("{:.1}", median(&Measured::processors)),
        p50,
        p99,
        p999,
        longest,
        dash(
            first
                .write_amplification()
                .map(|_| format!("{:.2}", median(&|run| run.write_amplification().unwrap_or(0.0)))),
        ),
        dash(first.stalled_ns.map(|_| duration(median(&|run| run.stalled_ns.unwrap_or(0) as f64)))),
        duration(1e9 * median(&|run| run.settle_seconds)),
        dash((first.user_written_bytes > 0).then(|| rate(median(&Measured::settled_rate)))),
        bytes(median(&|run| run.disk_bytes as f64) as u64),
        bytes(median(&|run| run.memory_peak_bytes as f64) as u64),
        dash(
            first.own_memory_peak_bytes.map(|_| {
                bytes(median(&|run| run.own_memory_peak_bytes.unwrap_or(0) as f64) as u64)
            }),
        ),
    ]
}

/// Two reports side by side: what both ran, and by how much the second is faster.
pub fn comparison(a: &Report, b: &Report) -> String {
    let head = ["workload", "engine", "A ops/s", "B ops/s", "B/A", "±", "CPU B/A", "p99.9 B/A"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let others = b.rows();
    for row in a.rows() {
        let same = |other: &&Row<'_>| {
            let (one, two) = (row.first(), other.first());
            one.step == two.step && one.workload == two.workload && one.engine == two.engine
        };
        let Some(other) = others.iter().find(same) else { continue };
        let ratio = |figure: &dyn Fn(&Measured) -> f64| other.median(figure) / row.median(figure);
        let times =
            |ratio: f64| if ratio.is_finite() { format!("{ratio:.3}") } else { "-".to_owned() };
        rows.push(vec![
            row.first().workload.clone(),
            row.first().engine.clone(),
            rate(row.median(Measured::rate)),
            rate(other.median(Measured::rate)),
            times(ratio(&Measured::rate)),
            match row.spread() + other.spread() {
                both if both.is_finite() && row.count() > 1 && other.count() > 1 => {
                    format!("{:.0}%", 100.0 * both)
                }
                _ => "-".to_owned(),
            },
            times(ratio(&|run| run.cpu_us_per_operation)),
            row.first()
                .kinds()
                .iter()
                .map(|&kind| {
                    let ratio = times(ratio(&|run| run.latency(kind).p999 as f64));
                    let is_mixed = row.first().is_mixed();
                    if is_mixed { format!("{} {ratio}", kind.name()) } else { ratio }
                })
                .collect::<Vec<_>>()
                .join(", "),
        ]);
    }
    match rows.len() {
        1 => "the reports have no workload of the same engine in common\n".to_owned(),
        _ => aligned(&rows),
    }
}

/// What an operation costs in reports of several sizes: a table for each workload, a line for each
/// size, a column for each engine.
pub fn costs(reports: &[Report]) -> String {
    let mut text = String::new();
    let steps: BTreeSet<usize> =
        reports.iter().flat_map(|report| &report.runs).map(|run| run.step).collect();
    for step in steps {
        let mut rows: Vec<Vec<String>> = Vec::new();
        for report in reports {
            let of_step = report.rows().into_iter().filter(|row| row.first().step == step);
            let of_step: Vec<Row<'_>> = of_step.collect();
            let Some(first) = of_step.first().map(Row::first) else { continue };
            if rows.is_empty() {
                let names = of_step.iter().map(|row| row.first().engine.clone());
                let head = [first.workload.clone(), "records".to_owned()];
                rows.push(head.into_iter().chain(names).collect());
            }
            let costs = of_step.iter().map(|row| duration(row.median(Measured::cost_ns)));
            rows.push(
                [String::new(), report.config.num.to_string()].into_iter().chain(costs).collect(),
            );
        }
        let _ = writeln!(text, "{}", aligned(&rows));
    }
    text
}

/// One line about a result, while others are still to come.
pub fn line(run: &Measured) -> String {
    let mut text = format!(
        "{:22} {:14} {:>8} ops/s, {:>8} CPU/op",
        run.workload,
        run.engine,
        rate(run.rate()),
        duration(1e3 * run.cpu_us_per_operation),
    );
    for &kind in run.kinds() {
        let of = if run.is_mixed() { format!(" {}", kind.name()) } else { String::new() };
        let latency = run.latency(kind);
        let (p999, max) = (duration(latency.p999 as f64), duration(latency.max as f64));
        let _ = write!(text, ", p99.9{of} {p999}, max {max}");
    }
    match run.found_share() {
        Some(share) if share < 1.0 => {
            let _ = write!(text, ", {:.1}% of gets found", 100.0 * share);
        }
        None if run.found > 0 && run.found != run.operations => {
            let _ = write!(text, ", found {}", run.found);
        }
        _ => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::result::tests::measured;

    /// How far runs are from each other is not known of one, nor where nothing was done.
    #[test]
    fn a_comparison_tells_no_spread_that_nobody_knows() {
        let report = |operations: &[u64]| {
            let mut report = Report::new(&Config::of(&[]).expect("flags"));
            let run = |&operations| Measured { operations, ..measured("fillrandom") };
            report.runs.extend(operations.iter().map(run));
            report
        };
        for (one, other, expected) in [
            (&[100][..], &[100][..], "-"),
            (&[100, 100], &[100], "-"),
            (&[0, 0], &[100, 100], "-"),
            (&[0, 100], &[100, 100], "-"),
            (&[100, 100], &[100, 120], "10%"),
        ] {
            let table = comparison(&report(one), &report(other));
            let row: Vec<&str> = table.lines().nth(1).expect("a row").split_whitespace().collect();
            assert!(row.contains(&expected), "{table}");
            assert!(expected != "-" || !table.contains('%'), "{table}");
        }
    }
}

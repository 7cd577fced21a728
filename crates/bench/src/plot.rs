//! Drawings of reports, as SVG files and as one page in HTML that holds them all.

use crate::place::{make_dir, write};
use crate::report::{Report, Row};
use crate::result::{Kind, Latency, Measured};
use esker_draw::units::{duration, rate};
use esker_draw::{
    Axes, BAR_HEIGHT, FONT, GROUP_GAP, Group, Line, NAME_WIDTH, Outcome, Page, Palette, Points,
    RATES, WIDTH, chart, drawing, title,
};
use plotters::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What the last number of an axis takes beyond its line.
const LABEL_WIDTH: i32 = 60;

/// Rounds of a second, if no more can be said: shorter runs are not drawn over time.
const ROUNDS_MIN: usize = 10;

/// Points by name.
type Lines = BTreeMap<String, Points>;

/// Draws everything that the reports hold into `out`. Returns the files, the page first.
///
/// # Errors
/// If there is nothing to draw, or of the file system.
pub fn draw_all(reports: &[Report], out: &Path) -> Outcome<Vec<PathBuf>> {
    let shown = reports.last().ok_or("no report to draw")?;
    if shown.runs.is_empty() {
        return Err("the report holds no results".into());
    }
    let mut page = head(shown);
    page.drawing("throughput", throughput(shown)?).drawing("latency", latencies(shown)?);
    for (name, drawing) in paces(shown)? {
        page.drawing(&format!("pace-{name}"), drawing);
    }
    for (name, drawing) in slowest_operations(shown)? {
        page.drawing(&format!("slowest-{name}"), drawing);
    }
    for (name, drawing) in growth(reports)? {
        page.drawing(&format!("growth-{name}"), drawing);
    }
    let config = serde_json::to_string(&shown.config).unwrap_or_default();
    page.text("flags", &config);
    page.write(out)
}

/// A page that says what was measured, with the table of results.
fn head(report: &Report) -> Page {
    let mut page = Page::new("Benchmark");
    page.text("", &report.machine.to_string());
    for (name, setup) in &report.engines {
        page.text(name, setup);
    }
    page.columns(&crate::table::results(report));
    page
}

/// Draws what an operation costs in reports of several sizes. Returns the files.
///
/// # Errors
/// Of the file system.
pub fn draw_costs(reports: &[Report], out: &Path) -> Outcome<Vec<PathBuf>> {
    make_dir(out)?;
    let engines = engines(reports);
    // Drawn by their logarithms.
    let cost = |row: &Row<'_>| row.median(Measured::cost_ns).log10();
    let mut files = Vec::new();
    for ((_, workload), lines) in lines_of(reports, &cost) {
        let axes = Axes { logarithmic_x: true, ..RATES };
        let title =
            format!("{workload}: time of an operation against records, by what is kept in memory");
        let path = out.join(format!("cost-{workload}.svg"));
        write(&path, logarithms(&title, &lines, &engines, &axes)?)?;
        files.push(path);
    }
    Ok(files)
}

/// Draws times that are given by the logarithms of their nanoseconds.
///
/// # Errors
/// Of the drawing.
pub(crate) fn logarithms(
    heading: &str,
    lines: &[Line],
    palette: &Palette,
    axes: &Axes<'_>,
) -> Outcome<String> {
    let all = lines.iter().flat_map(|(_, points)| points).map(|point| point.1);
    let least = all.fold(f64::INFINITY, f64::min).floor();
    let axes = Axes {
        y_from: if least.is_finite() { least } else { 0.0 },
        y_text: &|log: &f64| duration(10f64.powf(*log)),
        ..*axes
    };
    chart(heading, lines, palette, &axes)
}

/// Engines in the order in which they ran, each with its colour.
fn engines<'a>(reports: impl IntoIterator<Item = &'a Report>) -> Palette {
    let runs = reports.into_iter().flat_map(|report| &report.runs);
    Palette::of(runs.map(|run| run.engine.clone()))
}

/// Rows of the same step side by side.
fn by_step<'a>(report: &'a Report) -> BTreeMap<usize, Vec<Row<'a>>> {
    let mut steps: BTreeMap<usize, Vec<Row<'a>>> = BTreeMap::new();
    for row in report.rows() {
        steps.entry(row.first().step).or_default().push(row);
    }
    steps
}

/// Each workload's operations a second: a bar for each engine, as long as its share of the fastest.
fn throughput(report: &Report) -> Outcome<String> {
    let figure = |row: &Row<'_>| {
        let value = row.median(Measured::rate);
        (value, rate(value))
    };
    let group = |(step, rows): (usize, Vec<Row<'_>>)| {
        let bars = rows.iter().map(|row| (row.first().engine.as_str(), figure(row)));
        Group::new(report.label(step), bars)
    };
    let groups: Vec<Group> = by_step(report).into_iter().map(group).collect();
    esker_draw::bars("Operations a second", &groups, &engines([report]))
}

/// Latencies of each workload: from the median over p99 and p99.9 to the longest, on one
/// logarithmic scale.
fn latencies(report: &Report) -> Outcome<String> {
    let (steps, engines) = (by_step(report), engines([report]));
    // Gets and puts of one workload stand apart, each with all engines.
    let groups: Vec<(String, Kind, &Vec<Row<'_>>)> = steps
        .iter()
        .flat_map(|(&step, rows)| {
            let (label, first) = (report.label(step), rows[0].first());
            first.kinds().iter().map(move |&kind| {
                let is_one = first.kinds().len() == 1;
                let name = if is_one { label.clone() } else { format!("{label}, {}", kind.name()) };
                (name, kind, rows)
            })
        })
        .collect();
    let lines: u32 = groups.iter().map(|(_, _, rows)| rows.len() as u32).sum();
    let head = engines.head_height();
    let height = head + 20 + lines * BAR_HEIGHT + groups.len() as u32 * GROUP_GAP;
    let figures = |row: &Row<'_>, kind: Kind| -> [f64; 4] {
        let of = |figure: fn(&Latency) -> u64| {
            row.median(|run| figure(run.latency(kind)) as f64).max(1.0)
        };
        // Medians of what is longest would flatter.
        let longest = row.most(|run| run.latency(kind).max as f64).max(1.0);
        [of(|of| of.p50), of(|of| of.p99), of(|of| of.p999), longest]
    };
    let all = || {
        groups.iter().flat_map(|(_, kind, rows)| rows.iter().flat_map(|row| figures(row, *kind)))
    };
    let (low, high) =
        (all().fold(f64::INFINITY, f64::min).log10(), all().fold(1.0, f64::max).log10());
    let (low, high) = (low.floor(), high.ceil().max(low.floor() + 1.0));
    let room = f64::from(WIDTH as i32 - NAME_WIDTH - LABEL_WIDTH);
    let x_of = |ns: f64| NAME_WIDTH + (room * (ns.log10() - low) / (high - low)) as i32;
    drawing(height, |area| {
        title(area, "Latency: median, p99, p99.9, longest (logarithmic)")?;
        engines.legend(area)?;
        for power in low as i32..=high as i32 {
            let ns = 10f64.powi(power);
            let line = [(x_of(ns), head as i32 + 16), (x_of(ns), height as i32)];
            area.draw(&PathElement::new(line, BLACK.mix(0.15)))?;
            area.draw(&Text::new(duration(ns), (x_of(ns) + 2, head as i32), (FONT, 12)))?;
        }
        let mut y = head as i32 + 20;
        for (label, kind, rows) in &groups {
            area.draw(&Text::new(label.clone(), (10, y + 3), (FONT, 14)))?;
            for row in *rows {
                let colour = engines.colour(&row.first().engine);
                let (at, middle) = (figures(row, *kind).map(x_of), y + BAR_HEIGHT as i32 / 2);
                area.draw(&PathElement::new([(at[0], middle), (at[3], middle)], colour.mix(0.4)))?;
                for (x, size) in at.into_iter().zip([3, 4, 5, 6]) {
                    area.draw(&Circle::new((x, middle), size, colour.filled()))?;
                }
                y += BAR_HEIGHT as i32;
            }
            y += GROUP_GAP as i32;
        }
        Ok(())
    })
}

/// Operations a second of a run over its seconds.
pub(crate) fn pace(run: &Measured) -> Points {
    run.whole_rounds().map(|(round, n)| (round.from, n as f64 / round.seconds)).collect()
}

/// The longest operation in each tenth of a second of a run, over its seconds, for [`logarithms`].
/// Where none ended there is no point.
pub(crate) fn slowest(run: &Measured) -> Points {
    let ended = run.rounds().zip(&run.slowest_ns).filter(|(_, ns)| **ns > 0);
    ended.map(|(round, &ns)| (round.from, (ns as f64).log10())).collect()
}

/// Drawings of a figure over time, of each workload that took a second or more.
fn over_time(
    report: &Report,
    points: fn(&Measured) -> Points,
    draw: impl Fn(&str, &[Line]) -> Outcome<String>,
) -> Outcome<Vec<(String, String)>> {
    let mut drawn = Vec::new();
    for (step, rows) in by_step(report) {
        let line = |row: &Row<'_>| (row.first().engine.clone(), points(row.middle()));
        let lines: Vec<Line> = rows.iter().map(line).collect();
        if lines.iter().all(|(_, points)| points.len() < ROUNDS_MIN) {
            continue;
        }
        let workload = &rows[0].first().workload;
        drawn.push((format!("{step}-{workload}"), draw(&report.label(step), &lines)?));
    }
    Ok(drawn)
}

fn paces(report: &Report) -> Outcome<Vec<(String, String)>> {
    let engines = engines([report]);
    over_time(report, pace, |label, lines| {
        let title = format!("{label}: operations a second over time (seconds)");
        chart(&title, lines, &engines, &RATES)
    })
}

fn slowest_operations(report: &Report) -> Outcome<Vec<(String, String)>> {
    let engines = engines([report]);
    over_time(report, slowest, |label, lines| {
        let title = format!("{label}: longest operation in each tenth of a second, over seconds");
        logarithms(&title, lines, &engines, &RATES)
    })
}

/// A figure against the number of keys: lines of the engines for each step and workload.
fn lines_of(
    reports: &[Report],
    figure: &dyn Fn(&Row<'_>) -> f64,
) -> BTreeMap<(usize, String), Vec<Line>> {
    let mut workloads: BTreeMap<(usize, String), Lines> = BTreeMap::new();
    for row in reports.iter().flat_map(|report| report.rows()) {
        let first = row.first();
        let value = figure(&row);
        // What did nothing has no cost: no axis has room for it.
        if value.is_finite() {
            let lines = workloads.entry((first.step, first.workload.clone())).or_default();
            lines.entry(first.engine.clone()).or_default().push((first.num as f64, value));
        }
    }
    let sorted = |(name, mut points): (String, Points)| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points.dedup_by(|a, b| a.0 == b.0);
        (name, points)
    };
    workloads
        .into_iter()
        .map(|(key, lines)| (key, lines.into_iter().map(sorted).collect()))
        .collect()
}

/// Operations a second against the number of keys, of each workload that reports of several sizes
/// have.
fn growth(reports: &[Report]) -> Outcome<Vec<(String, String)>> {
    let engines = engines(reports);
    let axes = Axes { logarithmic_x: true, ..RATES };
    let mut drawn = Vec::new();
    for ((step, workload), lines) in lines_of(reports, &|row| row.median(Measured::rate)) {
        if lines.iter().any(|(_, points)| points.len() > 1) {
            let ran = |report: &&Report| {
                report.runs.iter().any(|run| run.step == step && run.workload == workload)
            };
            let shown = reports.iter().rfind(ran);
            let label = shown.map_or_else(String::new, |report| report.label(step));
            let title = format!("{label}: operations a second against keys");
            drawn.push((format!("{step}-{workload}"), chart(&title, &lines, &engines, &axes)?));
        }
    }
    Ok(drawn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::result::tests::measured;

    fn report(slowest_ns: &[u64]) -> Report {
        let config = Config::of(&["--benchmarks", "fillrandom"]).expect("flags");
        let mut report = Report::new(&config);
        let pace = vec![7; slowest_ns.len()];
        let slowest_ns = slowest_ns.to_vec();
        report.runs.push(Measured { pace, slowest_ns, ..measured("fillrandom") });
        report
    }

    #[test]
    fn what_is_drawn_over_time_is_what_was_seen() {
        let run = &report(&[1_000, 0, 100_000]).runs[0];
        assert_eq!(pace(run), [(0.0, 70.0), (0.1, 70.0)], "the last is cut short");
        assert_eq!(slowest(run), [(0.0, 3.0), (0.2, 5.0)], "none ended in the second");
    }

    #[test]
    fn rounds_that_took_longer_stretch_no_time() {
        let (pace_of, round_ends_ns) =
            (vec![50, 100, 7], vec![125_000_000, 375_000_000, 400_000_000]);
        let slowest_ns = vec![10, 0, 100];
        let run = Measured { pace: pace_of, slowest_ns, round_ends_ns, ..measured("fillrandom") };
        assert_eq!(pace(&run), [(0.0, 400.0), (0.125, 400.0)]);
        assert_eq!(slowest(&run), [(0.0, 1.0), (0.375, 2.0)]);
    }

    #[test]
    fn the_longest_are_drawn_on_a_scale_of_durations() {
        let mut slowest_ns = vec![1_000; 12];
        slowest_ns[5] = 20_000_000;
        let drawn = slowest_operations(&report(&slowest_ns)).expect("drawings");
        let [(name, drawing)] = &drawn[..] else { panic!("one workload: {}", drawn.len()) };
        assert_eq!(name, "0-fillrandom");
        for text in ["longest operation in each tenth of a second", "1.00 µs", "10.0 ms"] {
            assert!(drawing.contains(text), "{text} in {drawing}");
        }
        assert!(!drawing.contains("100 ns") && !drawing.contains("1.00 s"), "{drawing}");
    }

    /// A report of one size, of these engines and workloads.
    fn of_size(num: u64, engines: &[&str], benchmarks: &[&str]) -> Report {
        let flags = ["--num", &num.to_string(), "--benchmarks", &benchmarks.join(",")];
        let mut report = Report::new(&Config::of(&flags).expect("flags"));
        for (step, workload) in benchmarks.iter().enumerate() {
            for engine in engines {
                let engine = (*engine).to_owned();
                report.runs.push(Measured { engine, step, num, ..measured(workload) });
            }
        }
        report
    }

    #[test]
    fn reports_side_by_side_need_not_have_run_the_same() {
        let both = ["fillrandom", "readrandom"];
        let mut reports = vec![
            of_size(1_000, &["one", "two"], &both),
            of_size(2_000, &["one", "two"], &both),
            of_size(3_000, &["one"], &["fillseq", "overwrite"]),
        ];
        let drawn = growth(&reports).expect("drawings");
        let names: Vec<&str> = drawn.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["0-fillrandom", "1-readrandom"], "what was run at two sizes");
        for (name, drawing) in &drawn {
            let workload = &name[2..];
            for text in ["one", "two", &format!("{workload}: operations a second against keys")] {
                assert!(drawing.contains(text), "{text} in {drawing}");
            }
            let other = Palette::of(["one".to_owned(), "two".to_owned()]).colour("two");
            let other = format!("#{:02X}{:02X}{:02X}", other.0, other.1, other.2);
            // Once in the legend, and for its line.
            assert!(drawing.matches(&other).count() > 1, "{other} in {drawing}");
        }
        // One that was interrupted before it did anything.
        reports[1].runs[0].operations = 0;
        let dir = std::env::temp_dir().join(format!("esker-plot-{}", std::process::id()));
        assert_eq!(draw_costs(&reports, &dir).expect("drawings").len(), 4);
        let _ = std::fs::remove_dir_all(dir);
    }

    #[test]
    fn short_and_older_runs_have_no_longest() {
        for short in [&[5; 9][..], &[0; 30], &[]] {
            let drawn = slowest_operations(&report(short)).expect("drawings");
            assert!(drawn.is_empty(), "{short:?}");
        }
    }
}

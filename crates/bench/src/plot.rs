//! Drawings of reports, as SVG files and as one page in HTML that holds them all.

use crate::report::{Report, Row};
use crate::result::Measured;
use esker_draw::units::{duration, rate};
use esker_draw::{
    Axes, BAR_HEIGHT, FONT, GROUP_GAP, Group, HEAD_HEIGHT, Line, NAME_WIDTH, Outcome, Page,
    Palette, Points, RATES, WIDTH, chart, drawing, title,
};
use plotters::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What the last number of an axis takes beyond its line.
const LABEL_WIDTH: i32 = 60;

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
    fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    let engines = reports.last().map(engines).unwrap_or_default();
    // Drawn by their logarithms.
    let cost = |row: &Row<'_>| row.median(Measured::cost_ns).log10();
    let mut files = Vec::new();
    for ((_, workload), lines) in lines_of(reports, &cost) {
        let costs = lines.iter().flat_map(|(_, points)| points).map(|point| point.1);
        let axes = Axes {
            logarithmic_x: true,
            y_from: costs.fold(f64::INFINITY, f64::min).floor(),
            y_text: &|log: &f64| duration(10f64.powf(*log)),
            ..RATES
        };
        let title =
            format!("{workload}: time of an operation against records, by what is kept in memory");
        let path = out.join(format!("cost-{workload}.svg"));
        fs::write(&path, chart(&title, &lines, &engines, &axes)?)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        files.push(path);
    }
    Ok(files)
}

/// Engines in the order in which they ran, each with its colour.
fn engines(report: &Report) -> Palette {
    Palette::of(report.runs.iter().map(|run| run.engine.clone()))
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
    esker_draw::bars("Operations a second", &groups, &engines(report))
}

/// Latencies of each workload: from the median over p99 and p99.9 to the longest, on one logarithmic scale.
fn latencies(report: &Report) -> Outcome<String> {
    let (steps, engines) = (by_step(report), engines(report));
    let lines: u32 = steps.values().map(|rows| rows.len() as u32).sum();
    let height = HEAD_HEIGHT + 20 + lines * BAR_HEIGHT + steps.len() as u32 * GROUP_GAP;
    let figures = |row: &Row<'_>| -> [f64; 4] {
        let of = |figure: fn(&Measured) -> u64| row.median(|run| figure(run) as f64).max(1.0);
        [
            of(|run| run.main_latency().p50),
            of(|run| run.main_latency().p99),
            of(|run| run.main_latency().p999),
            of(|run| run.main_latency().max),
        ]
    };
    let all = || steps.values().flatten().flat_map(&figures);
    let (low, high) =
        (all().fold(f64::INFINITY, f64::min).log10(), all().fold(1.0, f64::max).log10());
    let (low, high) = (low.floor(), high.ceil().max(low.floor() + 1.0));
    let room = f64::from(WIDTH as i32 - NAME_WIDTH - LABEL_WIDTH);
    let x_of = |ns: f64| NAME_WIDTH + (room * (ns.log10() - low) / (high - low)) as i32;
    drawing(height, |area| {
        title(area, "Latency: median, p99, p99.9, longest (logarithmic)")?;
        engines.legend(area, 34)?;
        for power in low as i32..=high as i32 {
            let ns = 10f64.powi(power);
            let line = [(x_of(ns), HEAD_HEIGHT as i32 + 16), (x_of(ns), height as i32)];
            area.draw(&PathElement::new(line, BLACK.mix(0.15)))?;
            area.draw(&Text::new(duration(ns), (x_of(ns) + 2, HEAD_HEIGHT as i32), (FONT, 12)))?;
        }
        let mut y = HEAD_HEIGHT as i32 + 20;
        for (&step, rows) in &steps {
            area.draw(&Text::new(report.label(step), (10, y + 3), (FONT, 14)))?;
            for row in rows {
                let colour = engines.colour(&row.first().engine);
                let (at, middle) = (figures(row).map(x_of), y + BAR_HEIGHT as i32 / 2);
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

/// Operations a second over time, of each workload that took a second or more.
fn paces(report: &Report) -> Outcome<Vec<(String, String)>> {
    const ROUNDS_PER_SECOND: f64 = 10.0;
    let engines = engines(report);
    let mut drawn = Vec::new();
    for (step, rows) in by_step(report) {
        let lines: Vec<Line> = rows
            .iter()
            .map(|row| {
                let pace = &row.middle().pace;
                let point = |(at, &n): (usize, &u64)| {
                    (at as f64 / ROUNDS_PER_SECOND, n as f64 * ROUNDS_PER_SECOND)
                };
                // The last round is cut short.
                let whole = pace.len().saturating_sub(1);
                (row.first().engine.clone(), pace[..whole].iter().enumerate().map(point).collect())
            })
            .collect();
        if lines.iter().all(|(_, points)| points.len() < ROUNDS_PER_SECOND as usize) {
            continue;
        }
        let workload = &rows[0].first().workload;
        let title = format!("{}: operations a second over time (seconds)", report.label(step));
        drawn.push((format!("{step}-{workload}"), chart(&title, &lines, &engines, &RATES)?));
    }
    Ok(drawn)
}

/// A figure against the number of keys: lines of the engines for each step and workload.
fn lines_of(
    reports: &[Report],
    figure: &dyn Fn(&Row<'_>) -> f64,
) -> BTreeMap<(usize, String), Vec<Line>> {
    let mut workloads: BTreeMap<(usize, String), Lines> = BTreeMap::new();
    for row in reports.iter().flat_map(|report| report.rows()) {
        let first = row.first();
        let lines = workloads.entry((first.step, first.workload.clone())).or_default();
        lines.entry(first.engine.clone()).or_default().push((first.num as f64, figure(&row)));
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

/// Operations a second against the number of keys, of each workload that reports of several sizes have.
fn growth(reports: &[Report]) -> Outcome<Vec<(String, String)>> {
    let engines = reports.last().map(engines).unwrap_or_default();
    let axes = Axes { logarithmic_x: true, ..RATES };
    let mut drawn = Vec::new();
    for ((step, workload), lines) in lines_of(reports, &|row| row.median(Measured::rate)) {
        if lines.iter().any(|(_, points)| points.len() > 1) {
            let label = reports.last().map_or_else(String::new, |report| report.label(step));
            let title = format!("{label}: operations a second against keys");
            drawn.push((format!("{step}-{workload}"), chart(&title, &lines, &engines, &axes)?));
        }
    }
    Ok(drawn)
}

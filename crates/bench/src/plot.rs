//! Drawings of reports, as SVG files and as one page in HTML that holds them all.

use crate::outcome::Outcome;
use crate::report::{Report, Row};
use crate::result::Measured;
use crate::units::{duration, rate};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const WIDTH: u32 = 960;
const LINE_CHART_HEIGHT: u32 = 420;
const BAR_HEIGHT: u32 = 20;
const GROUP_GAP: u32 = 14;
const HEAD_HEIGHT: u32 = 56;
const NAME_WIDTH: i32 = 190;
const FIGURE_WIDTH: i32 = 110;
/// What the last number of an axis takes beyond its line.
const LABEL_WIDTH: i32 = 60;
const FONT: &str = "sans-serif";

/// Colours that people with any sight tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
    RGBColor(240, 228, 66),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Points = Vec<(f64, f64)>;
/// Points by name.
type Lines = BTreeMap<String, Points>;
/// A name, and points under it.
type Line = (String, Points);

/// Draws everything that the reports hold into `out`. Returns the files, the page first.
///
/// # Errors
/// If there is nothing to draw, or of the file system.
pub fn draw_all(reports: &[Report], out: &Path) -> Outcome<Vec<PathBuf>> {
    let shown = reports.last().ok_or("no report to draw")?;
    if shown.runs.is_empty() {
        return Err("the report holds no results".into());
    }
    let mut drawings = vec![("throughput".to_owned(), throughput(shown)?)];
    drawings.push(("latency".to_owned(), latencies(shown)?));
    for (name, drawing) in paces(shown)? {
        drawings.push((format!("pace-{name}"), drawing));
    }
    for (name, drawing) in growth(reports)? {
        drawings.push((format!("growth-{name}"), drawing));
    }
    fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    let mut files = Vec::new();
    let mut keep = |name: &str, text: &str| -> Outcome<()> {
        let path = out.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        files.push(path);
        Ok(())
    };
    keep("report.html", &page(shown, &drawings))?;
    for (name, drawing) in &drawings {
        keep(&format!("{name}.svg"), drawing)?;
    }
    Ok(files)
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
fn engines(report: &Report) -> Vec<(String, RGBColor)> {
    let mut names: Vec<String> = Vec::new();
    for run in &report.runs {
        if !names.contains(&run.engine) {
            names.push(run.engine.clone());
        }
    }
    names.into_iter().zip(COLOURS.into_iter().cycle()).collect()
}

fn colour_of(engines: &[(String, RGBColor)], name: &str) -> RGBColor {
    engines.iter().find(|(engine, _)| engine == name).map_or(COLOURS[0], |(_, colour)| *colour)
}

/// Rows of the same step side by side.
fn by_step<'a>(report: &'a Report) -> BTreeMap<usize, Vec<Row<'a>>> {
    let mut steps: BTreeMap<usize, Vec<Row<'a>>> = BTreeMap::new();
    for row in report.rows() {
        steps.entry(row.first().step).or_default().push(row);
    }
    steps
}

/// Draws into a string.
fn drawing(height: u32, draw: impl FnOnce(&Area<'_>) -> Outcome<()>) -> Outcome<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE)?;
        draw(&area)?;
        area.present()?;
    }
    Ok(text)
}

/// Each workload's operations a second: a bar for each engine, as long as its share of the fastest.
fn throughput(report: &Report) -> Outcome<String> {
    bars(report, "Operations a second", &|row| {
        let value = row.median(Measured::rate);
        (value, rate(value))
    })
}

/// Groups of bars, each group scaled to its longest.
fn bars(
    report: &Report,
    title: &str,
    figure: &dyn Fn(&Row<'_>) -> (f64, String),
) -> Outcome<String> {
    let (steps, engines) = (by_step(report), engines(report));
    let bars: u32 = steps.values().map(|rows| rows.len() as u32).sum();
    let height = HEAD_HEIGHT + bars * BAR_HEIGHT + steps.len() as u32 * GROUP_GAP;
    drawing(height, |area| {
        area.draw(&Text::new(title.to_owned(), (10, 8), (FONT, 20)))?;
        legend(area, &engines, 34)?;
        let mut y = HEAD_HEIGHT as i32;
        let room = WIDTH as i32 - NAME_WIDTH - FIGURE_WIDTH;
        for (&step, rows) in &steps {
            let longest = rows.iter().map(|row| figure(row).0).fold(0.0, f64::max);
            area.draw(&Text::new(report.label(step), (10, y + 3), (FONT, 14)))?;
            for row in rows {
                let (value, text) = figure(row);
                let length = (f64::from(room) * value / longest.max(f64::MIN_POSITIVE)) as i32;
                let colour = colour_of(&engines, &row.first().engine);
                let corners =
                    [(NAME_WIDTH, y + 2), (NAME_WIDTH + length, y + BAR_HEIGHT as i32 - 2)];
                area.draw(&Rectangle::new(corners, colour.filled()))?;
                area.draw(&Text::new(text, (NAME_WIDTH + length + 6, y + 3), (FONT, 13)))?;
                y += BAR_HEIGHT as i32;
            }
            y += GROUP_GAP as i32;
        }
        Ok(())
    })
}

fn legend(area: &Area<'_>, engines: &[(String, RGBColor)], y: i32) -> Outcome<()> {
    let mut x = 10;
    for (name, colour) in engines {
        area.draw(&Rectangle::new([(x, y), (x + 12, y + 12)], colour.filled()))?;
        area.draw(&Text::new(name.clone(), (x + 18, y), (FONT, 13)))?;
        x += 34 + 8 * name.chars().count() as i32;
    }
    Ok(())
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
        let title = "Latency: median, p99, p99.9, longest (logarithmic)";
        area.draw(&Text::new(title, (10, 8), (FONT, 20)))?;
        legend(area, &engines, 34)?;
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
                let colour = colour_of(&engines, &row.first().engine);
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
    let engines: Vec<_> = reports.last().map(engines).unwrap_or_default();
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

/// What the axes of a chart are.
struct Axes<'a> {
    logarithmic_x: bool,
    y_from: f64,
    y_text: &'a dyn Fn(&f64) -> String,
}

const RATES: Axes<'_> = Axes { logarithmic_x: false, y_from: 0.0, y_text: &|y: &f64| rate(*y) };

/// Lines over a common x axis; on logarithmic ones each point is marked.
fn chart(
    title: &str,
    lines: &[Line],
    engines: &[(String, RGBColor)],
    axes: &Axes<'_>,
) -> Outcome<String> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let x_min = points().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let x_max = points().map(|p| p.0).fold(0.0, f64::max);
    let y_max = points().map(|p| p.1).fold(1.0, f64::max) * 1.05;
    drawing(LINE_CHART_HEIGHT, |area| {
        area.draw(&Text::new(title.to_owned(), (10, 8), (FONT, 20)))?;
        legend(area, engines, 34)?;
        let (_, below) = area.split_vertically(HEAD_HEIGHT);
        let mut builder = ChartBuilder::on(&below);
        builder.margin_right(20).x_label_area_size(30).y_label_area_size(70);
        let style = |engine: &str| colour_of(engines, engine).stroke_width(2);
        let (y_text, y_min) = (axes.y_text, axes.y_from);
        if axes.logarithmic_x {
            let axis = (x_min / 1.2..x_max * 1.2).log_scale();
            let mut chart = builder.build_cartesian_2d(axis, y_min..y_max)?;
            let x_text = |x: &f64| rate(*x);
            chart.configure_mesh().x_label_formatter(&x_text).y_label_formatter(y_text).draw()?;
            for (engine, points) in lines {
                chart.draw_series(LineSeries::new(points.iter().copied(), style(engine)))?;
                let dot = |&point: &(f64, f64)| Circle::new(point, 4, style(engine).filled());
                chart.draw_series(points.iter().map(dot))?;
            }
        } else {
            let mut chart = builder.build_cartesian_2d(0.0..x_max.max(0.1), y_min..y_max)?;
            chart.configure_mesh().y_label_formatter(y_text).draw()?;
            for (engine, points) in lines {
                chart.draw_series(LineSeries::new(points.iter().copied(), style(engine)))?;
            }
        }
        Ok(())
    })
}

/// Text that stands in HTML as it is.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A page with everything in it.
fn page(report: &Report, drawings: &[(String, String)]) -> String {
    let mut html = String::from(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Benchmark</title>\n\
         <style>body{font:16px/1.4 sans-serif;max-width:1000px;margin:2em auto;padding:0 1em}\
         pre{overflow-x:auto;font-size:12px}svg{max-width:100%;height:auto}</style>\n<h1>Benchmark</h1>\n",
    );
    let config = serde_json::to_string(&report.config).unwrap_or_default();
    let _ = writeln!(html, "<p>{}</p>", escaped(&report.machine.to_string()));
    for (name, setup) in &report.engines {
        let _ = writeln!(html, "<p><b>{}</b>: {}</p>", escaped(name), escaped(setup));
    }
    let table = crate::table::results(report);
    let _ = writeln!(html, "<pre>{}</pre>", escaped(&table));
    for (_, drawing) in drawings {
        let _ = writeln!(html, "{drawing}");
    }
    let _ = writeln!(html, "<h2>Flags</h2>\n<pre>{}</pre>\n</html>", escaped(&config));
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_stays_text() {
        assert_eq!(escaped("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
    }
}

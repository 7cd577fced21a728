//! The figures of the thesis, under its numbers, with what it measured beside ours where its text
//! says a number.

use super::at_size::{AtSize, MEASURED, OURS};
use super::{DYNAMIC, NAMES, level, palette};
use esker::trace::{Step, Trace, What};
use esker_draw::units::{bytes, duration, rate};
use esker_draw::{Axes, Group, Line, Outcome, Palette, Points, RATES, bars, chart};
use esker_lab::Summary;

/// A file's name and what it shows.
type Drawing = (String, String);

/// Mean amplification of a compaction that the thesis measured at 5 GB, without and with the slice.
const AMPLIFICATION: [(&str, f64); 2] =
    [("RocksDB there, at 5 GB", 62.0), ("Slot there, at 5 GB", 13.0)];

/// Compactions whose effect the thesis shows.
const JOBS_SHOWN: usize = 2_000;

/// Levels that the thesis shows: the first is its C2.
const LEVELS_SHOWN: [(usize, char); 4] = [(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')];

/// Figures 5-1, 5-5 and 5-13, and what 5-6 and 5-7 show in one.
pub(super) fn sizes(all: &[AtSize]) -> Outcome<Vec<Drawing>> {
    let mut drawings = vec![
        ("figure-5-5.svg".to_owned(), throughput(all)?),
        ("figure-5-5-gain.svg".to_owned(), gains(all)?),
        ("figure-5-6-7.svg".to_owned(), most_tables(all)?),
    ];
    if let (Some(least), Some(most)) = (all.first(), all.last()) {
        drawings.push(("figure-5-1.svg".to_owned(), slices("5-1", least)?));
        drawings.push(("figure-5-13.svg".to_owned(), slices("5-13", most)?));
    }
    Ok(drawings)
}

/// Figures 5-9 to 5-12, of traces at one size.
pub(super) fn traces(gigabytes: u64, traces: &[(String, Trace)]) -> Outcome<Vec<Drawing>> {
    let mut drawings = vec![
        ("figure-5-9.svg".to_owned(), amplification(gigabytes, traces)?),
        ("figure-5-11.svg".to_owned(), job_times(traces)?),
        ("figure-5-12.svg".to_owned(), jobs(traces)?),
    ];
    for (at, letter) in LEVELS_SHOWN {
        drawings.push((format!("figure-5-10-{letter}.svg"), tables(traces, at)?));
    }
    Ok(drawings)
}

fn palette_of(traces: &[(String, Trace)]) -> Palette {
    Palette::of(traces.iter().map(|(name, _)| name.clone()))
}

fn by_size(
    heading: &str,
    all: &[AtSize],
    figure: impl Fn(&Summary) -> (f64, String),
) -> Outcome<String> {
    let group = |done: &AtSize| {
        let bars = done.summaries.iter().map(|(name, summary)| (name.as_str(), figure(summary)));
        Group::new(format!("{} GB", done.gigabytes), bars)
    };
    bars(heading, &all.iter().map(group).collect::<Vec<_>>(), &palette())
}

fn throughput(all: &[AtSize]) -> Outcome<String> {
    let figure = |s: &Summary| (s.throughput(), bytes(s.throughput() as u64));
    by_size("Figure 5-5: bytes written a second", all, figure)
}

fn most_tables(all: &[AtSize]) -> Outcome<String> {
    let figure = |s: &Summary| {
        let tables = level(s, 1).tables_max;
        (tables as f64, tables.to_string())
    };
    by_size("Figures 5-6 and 5-7: most tables in level 1", all, figure)
}

fn gains(all: &[AtSize]) -> Outcome<String> {
    let times = |times: f64| (times, format!("x {times:.2}"));
    let group = |done: &AtSize| {
        let base = done.summaries.first().map_or(1.0, |(_, summary)| summary.throughput());
        let ours = done.summaries.iter().skip(1);
        let ours = ours.map(|(name, s)| (name.as_str(), times(s.throughput() / base)));
        let there = MEASURED.iter().filter(|(size, _)| *size == done.gigabytes);
        let there = there.map(|(_, gain)| ("measured there", times(*gain)));
        Group::new(format!("{} GB", done.gigabytes), ours.chain(there))
    };
    let names = NAMES.iter().chain([&"measured there"]).map(|&name| name.to_owned());
    let groups: Vec<Group> = all.iter().map(group).collect();
    bars("Figure 5-5: as many times as with priority", &groups, &Palette::of(names))
}

fn slices(number: &str, done: &AtSize) -> Outcome<String> {
    let lines = done.slices.iter().filter(|(_, points)| !points.is_empty());
    let mut lines: Vec<Line> =
        lines.map(|(name, points)| ((*name).to_owned(), points.clone())).collect();
    // The dynamic slice has no length: a level line over all of them.
    let dynamic = done.summaries.iter().find(|(name, _)| name == DYNAMIC);
    let ours = lines.iter().find(|(name, _)| name == OURS).map(|(_, points)| points.clone());
    if let (Some((name, summary)), Some(points)) = (dynamic, ours) {
        let ends = [points.first(), points.last()].into_iter().flatten();
        lines.push((name.clone(), ends.map(|point| (point.0, summary.throughput())).collect()));
    }
    let axes = Axes {
        logarithmic_x: true,
        y_text: &|y: &f64| bytes(*y as u64),
        x_text: &|ms: &f64| duration(*ms * 1e6),
        ..RATES
    };
    let heading =
        format!("Figure {number}: bytes written a second by the slice, {} GB", done.gigabytes);
    chart(&heading, &lines, &Palette::of(lines.iter().map(|line| line.0.clone())), &axes)
}

fn amplification(gigabytes: u64, traces: &[(String, Trace)]) -> Outcome<String> {
    let figure = |value: f64| (value, format!("{value:.1}"));
    let ours: Vec<(&str, f64)> = traces
        .iter()
        .map(|(name, trace)| (name.as_str(), Summary::of(trace).job_amplification))
        .collect();
    let all = ours.iter().copied().chain(AMPLIFICATION);
    let group =
        Group::new(format!("at {gigabytes} GB"), all.map(|(name, value)| (name, figure(value))));
    let names = ours.iter().map(|(name, _)| *name).chain(AMPLIFICATION.map(|(name, _)| name));
    bars(
        "Figure 5-9: mean amplification of a compaction",
        &[group],
        &Palette::of(names.map(str::to_owned)),
    )
}

/// Tables of a level after each compaction.
fn tables(traces: &[(String, Trace)], at: usize) -> Outcome<String> {
    let held = |step: &Step| step.levels.get(at).map_or(0, |shape| shape.tables) as f64;
    let line = |(name, trace): &(String, Trace)| -> Line {
        let jobs = trace.steps.iter().filter(|step| matches!(step.what, What::Compacted { .. }));
        let points = jobs.map(held).enumerate().map(|(job, tables)| (job as f64, tables));
        (name.clone(), thinned(points.take(JOBS_SHOWN)))
    };
    let lines: Vec<Line> = traces.iter().map(line).collect();
    let axes = Axes { y_text: &|y: &f64| rate(*y), ..RATES };
    let heading = format!("Figure 5-10: tables in level {at} after each compaction");
    chart(&heading, &lines, &palette_of(traces), &axes)
}

fn job_times(traces: &[(String, Trace)]) -> Outcome<String> {
    let line = |(name, trace): &(String, Trace)| -> Line {
        let took = trace.steps.iter().filter_map(|step| match step.what {
            What::Compacted { level: 0, duration_us, .. } => Some(duration_us as f64 / 1e6),
            _ => None,
        });
        (name.clone(), thinned(took.enumerate().map(|(job, seconds)| (job as f64, seconds))))
    };
    let lines: Vec<Line> = traces.iter().map(line).collect();
    let axes = Axes { y_text: &|s: &f64| duration(*s * 1e9), ..RATES };
    chart(
        "Figure 5-11: how long each compaction of level 0 took",
        &lines,
        &palette_of(traces),
        &axes,
    )
}

fn jobs(traces: &[(String, Trace)]) -> Outcome<String> {
    let summaries: Vec<(&str, Summary)> =
        traces.iter().map(|(name, trace)| (name.as_str(), Summary::of(trace))).collect();
    let group = |at: usize| {
        let bars = summaries.iter().map(|(name, summary)| {
            let jobs = level(summary, at).jobs;
            (*name, (jobs as f64, jobs.to_string()))
        });
        Group::new(format!("out of level {at}"), bars)
    };
    let groups: Vec<Group> = (0..LEVELS_SHOWN.len()).map(group).collect();
    bars("Figure 5-12: compactions while the load was written", &groups, &palette_of(traces))
}

/// A quarter of the points, each the highest of four: drawings stay small.
fn thinned(points: impl Iterator<Item = (f64, f64)>) -> Points {
    let points: Points = points.collect();
    let highest = |four: &[(f64, f64)]| four.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    points.chunks(4).filter_map(highest).collect()
}

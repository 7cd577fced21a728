//! Drawings of traces against each other.

use crate::summary::Summary;
use crate::table::table;
use esker::trace::{Step, Trace, What};
use esker_draw::units::{bytes, duration, rate};
use esker_draw::{Axes, Group, Line, Outcome, Page, Palette, Points, RATES, bars, chart};
use std::path::{Path, PathBuf};

/// Points of a line at the most: more could not be told apart.
const POINTS_MAX: usize = 800;

/// Windows into which time is cut where something is counted for each second.
const WINDOWS: usize = 120;

/// Draws traces into `out`: one page, and each drawing in a file. Returns the files, the page
/// first.
///
/// # Errors
/// If there is nothing to draw, or of the file system.
pub fn draw(heading: &str, traces: &[(String, Trace)], out: &Path) -> Outcome<Vec<PathBuf>> {
    if traces.iter().all(|(_, trace)| trace.steps.is_empty()) {
        return Err("nothing happened that could be drawn".into());
    }
    let palette = Palette::of(traces.iter().map(|(name, _)| name.clone()));
    let columns: Vec<(String, Summary)> =
        traces.iter().map(|(name, trace)| (name.clone(), Summary::of(trace))).collect();
    let mut page = Page::new(heading);
    for (name, trace) in traces {
        let about: Vec<String> =
            trace.about.iter().map(|(key, value)| format!("{key} {value}")).collect();
        page.text(name, &about.join(", "));
    }
    page.columns(&table(&columns));
    page.drawing("figures", figures(&columns, &palette)?);
    page.drawing("pace", pace(traces, &palette)?);
    page.drawing("jobs", jobs(&columns, &palette)?);
    let depth = columns.iter().map(|(_, summary)| summary.levels.len()).max().unwrap_or(0);
    for level in 0..depth {
        page.drawing(&format!("level-{level}"), tables(traces, level, &palette)?);
    }
    for level in 0..depth {
        if columns.iter().any(|(_, s)| s.levels.get(level).is_some_and(|l| l.jobs > 1)) {
            page.drawing(&format!("jobs-{level}"), times(traces, level, &palette)?);
        }
    }
    page.write(out)
}

/// The figures that sum a trace up.
fn figures(columns: &[(String, Summary)], palette: &Palette) -> Outcome<String> {
    let group = |label: &str, figure: &dyn Fn(&Summary) -> (f64, String)| {
        Group::new(label, columns.iter().map(|(name, summary)| (name.as_str(), figure(summary))))
    };
    let groups = [
        group("written a second", &|s| (s.throughput(), bytes(s.throughput() as u64))),
        group("write amplification", &|s| {
            let text = s.write_amplification.map_or("-".into(), |times| format!("{times:.1}"));
            (s.write_amplification.unwrap_or(0.0), text)
        }),
        group("amplification of a job", &|s| {
            (s.job_amplification, format!("{:.1}", s.job_amplification))
        }),
        group("longest stop", &|s| (s.stops.longest_s, duration(s.stops.longest_s * 1e9))),
    ];
    bars("In short", &groups, palette)
}

/// Compactions of each level.
fn jobs(columns: &[(String, Summary)], palette: &Palette) -> Outcome<String> {
    let depth = columns.iter().map(|(_, summary)| summary.levels.len()).max().unwrap_or(0);
    let group = |level: usize| {
        let figure = |summary: &Summary| {
            let jobs = summary.levels.get(level).map_or(0, |level| level.jobs);
            (jobs as f64, jobs.to_string())
        };
        let bars = columns.iter().map(|(name, summary)| (name.as_str(), figure(summary)));
        Group::new(format!("out of level {level}"), bars)
    };
    let groups: Vec<Group> = (0..depth).map(group).collect();
    bars("Compactions while the load was written", &groups, palette)
}

const SECONDS: Axes<'_> = Axes { x_text: &|s: &f64| duration(*s * 1e9), ..RATES };

/// Bytes that users wrote in each second, over time.
fn pace(traces: &[(String, Trace)], palette: &Palette) -> Outcome<String> {
    let line = |(name, trace): &(String, Trace)| -> Line {
        let window_us = (trace.loaded_us as usize / WINDOWS).max(1) as u64;
        let mut points = Points::new();
        let (mut from_us, mut from_bytes) = (0, 0);
        for step in trace.steps.iter().filter(|step| step.at_us <= trace.loaded_us) {
            if step.at_us >= from_us + window_us {
                let seconds = (step.at_us - from_us) as f64 / 1e6;
                let middle = (step.at_us + from_us) as f64 / 2e6;
                points.push((middle, step.user_bytes.saturating_sub(from_bytes) as f64 / seconds));
                (from_us, from_bytes) = (step.at_us, step.user_bytes);
            }
        }
        (name.clone(), points)
    };
    let lines: Vec<Line> = traces.iter().map(line).collect();
    let axes = Axes { y_text: &|y: &f64| bytes(*y as u64), ..SECONDS };
    chart("Bytes that users wrote a second, over time", &lines, palette, &axes)
}

/// Tables of a level over time.
fn tables(traces: &[(String, Trace)], level: usize, palette: &Palette) -> Outcome<String> {
    let held = |step: &Step| step.levels.get(level).map_or(0, |shape| shape.tables) as f64;
    let line = |(name, trace): &(String, Trace)| -> Line {
        let points = trace.steps.iter().map(|step| (step.at_us as f64 / 1e6, held(step)));
        (name.clone(), thinned(&points.collect::<Points>()))
    };
    let lines: Vec<Line> = traces.iter().map(line).collect();
    let axes = Axes { y_text: &|y: &f64| rate(*y), ..SECONDS };
    chart(&format!("Tables in level {level}, over time"), &lines, palette, &axes)
}

/// How long each compaction of a level took.
fn times(traces: &[(String, Trace)], level: usize, palette: &Palette) -> Outcome<String> {
    let line = |(name, trace): &(String, Trace)| -> Line {
        let took = trace.steps.iter().filter_map(|step| match step.what {
            What::Compacted { level: of, duration_us, .. } if of == level => Some(duration_us),
            _ => None,
        });
        let points = took.enumerate().map(|(at, us)| (at as f64, us as f64 / 1e6));
        (name.clone(), thinned(&points.collect::<Points>()))
    };
    let lines: Vec<Line> = traces.iter().map(line).collect();
    let axes = Axes { y_text: &|s: &f64| duration(*s * 1e9), ..RATES };
    chart(&format!("How long each compaction of level {level} took"), &lines, palette, &axes)
}

/// The highest of neighbouring points, where there are more than can be drawn.
fn thinned(points: &[(f64, f64)]) -> Points {
    let each = points.len().div_ceil(POINTS_MAX).max(1);
    points
        .chunks(each)
        .filter_map(|chunk| chunk.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_peaks() {
        let points: Points = (0..10_000).map(|at| (f64::from(at), 1.0)).collect();
        let mut peaked = points.clone();
        peaked[7_777].1 = 50.0;
        let thin = thinned(&peaked);
        assert!(thin.len() <= POINTS_MAX && thin.contains(&(7_777.0, 50.0)));
        assert!(thin.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(thinned(&points[..5]), points[..5]);
    }
}

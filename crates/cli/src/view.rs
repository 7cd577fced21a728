//! The view of a tree at work: what a trace has come to, drawn for people.
//!
//! A pure function of the trace and of what may be drawn with.

use crate::paint::{Ink, Paint};
use crate::tree::{self, NAME_WIDTH};
use crate::units;
use esker::trace::{Running, Step};
use esker_lab::Live;

/// Seconds of writes that are drawn beside their rate.
const SECONDS_DRAWN: u64 = 30;
/// Columns of the names of figures.
const LABEL_WIDTH: usize = 12;
/// Heights of a second's writes, none first.
const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const HEIGHTS_ASCII: [char; 9] = [' ', '.', ':', '-', '=', '+', '*', '%', '#'];

/// Draws one trace at a time, line by line. `now_us`: microseconds since its start.
pub(crate) fn draw(name: &str, live: &Live, now_us: u64, paint: &Paint) -> Vec<String> {
    let mut lines = vec![title(name, live, now_us, paint)];
    let Some(step) = &live.step else { return lines };
    let field = tree::field_width(paint);
    let head = format!(
        "{:NAME_WIDTH$}{:^field$}{:>10}{:>13}{:>11}",
        "", "full", "bytes", "limit", "tables"
    );
    lines.extend([String::new(), paint.ink(Ink::Faint, &head)]);
    let memtables = units::bytes(step.memtable_bytes);
    lines.push(format!("{:NAME_WIDTH$}{:field$}{memtables:>10}", "mem", ""));
    for number in 0..step.levels.len() {
        lines.push(level_row(number, step, field, paint));
        lines.extend(tree::cells(number, &step.levels[number], paint));
    }
    lines.push(String::new());
    lines.extend(figures(live, step, now_us, paint));
    lines
}

fn title(name: &str, live: &Live, now_us: u64, paint: &Paint) -> String {
    let user = live.step.as_ref().map_or(0, |step| step.user_bytes);
    let ended = if live.ended { ", over" } else { "" };
    let text = format!("users wrote {} in {}{ended}", units::bytes(user), seconds(now_us));
    format!("{}  {text}", paint.ink(Ink::Strong, &crate::bytes::printable(name.as_bytes())))
}

fn level_row(number: usize, step: &Step, field: usize, paint: &Paint) -> String {
    let level = &step.levels[number];
    let (share, limit) = tree::fullness(level);
    let frame = tree::frame_width(number + 1, step.levels.len() + 1, field);
    let bar = tree::framed(share, frame, field, paint);
    let (bytes, tables) = (units::bytes(level.bytes), units::count(level.tables));
    let mut marks = Vec::new();
    if step.turn == Some(number) {
        marks.push("turn");
    }
    if step.running.iter().any(|job| job.level == number) {
        marks.push(if paint.unicode { "▼" } else { "v" });
    }
    let marks = paint.ink(Ink::Warm, &marks.join(" "));
    let name = format!("L{number}");
    format!("{name:NAME_WIDTH$}{bar}{bytes:>10}{limit:>13}{tables:>11}  {marks}")
}

/// What goes on, and what it has come to.
fn figures(live: &Live, step: &Step, now_us: u64, paint: &Paint) -> Vec<String> {
    let mut lines = Vec::new();
    let mut row = |name: &str, text: String| {
        let name = paint.ink(Ink::Faint, &format!("{name:LABEL_WIDTH$}"));
        lines.push(format!("{name}{text}"));
    };
    for (at, job) in step.running.iter().enumerate() {
        row(if at == 0 { "compacting" } else { "" }, job_text(job, now_us));
    }
    if step.running.is_empty() {
        row("compacting", "nothing".to_owned());
    }
    let rate = units::bytes(live.rate() as u64);
    row("writes", format!("{rate}/s  {}", spark(&live.rates(SECONDS_DRAWN), paint)));
    match step.slowed_to {
        Some(rate) => {
            let text = format!("to {}/s", units::bytes(rate));
            row("slowed", paint.ink(Ink::Warm, &text));
        }
        None => row("slowed", "no".to_owned()),
    }
    let stops = &live.stops;
    match stops.count {
        0 => row("stopped", "never".to_owned()),
        count => {
            let times = units::plural(count, "time", "times");
            let text = format!(
                "{times}, {:.2} s in all, {:.2} s the longest",
                stops.total_s, stops.longest_s
            );
            row("stopped", paint.ink(Ink::Bad, &text));
        }
    }
    let work = format!(
        "{}, {}",
        units::plural(live.flushes, "flush", "flushes"),
        units::plural(live.compactions, "compaction", "compactions")
    );
    let written = match live.write_amplification() {
        Some(times) => format!("{times:.2} bytes of tables for each of users'"),
        None => "nothing by users".to_owned(),
    };
    row("written", format!("{written}; {work}"));
    lines
}

fn job_text(job: &Running, now_us: u64) -> String {
    let tables = units::plural(job.input.tables, "table", "tables");
    let (bytes, since) = (units::bytes(job.input.bytes), now_us.saturating_sub(job.since_us));
    format!("L{} to L{}, {tables}, {bytes}, for {}", job.level, job.output_level, seconds(since))
}

fn seconds(us: u64) -> String {
    format!("{:.1} s", us as f64 / 1e6)
}

/// A column for each rate, as high as its share of the highest.
fn spark(rates: &[f64], paint: &Paint) -> String {
    let heights = if paint.unicode { HEIGHTS } else { HEIGHTS_ASCII };
    let most = rates.iter().copied().fold(0.0, f64::max);
    let column = |rate: &f64| {
        let share = if most > 0.0 { rate / most } else { 0.0 };
        heights[(share * (heights.len() - 1) as f64).ceil() as usize]
    };
    rates.iter().map(column).collect()
}

/// One line, where there is no terminal to draw on.
pub(crate) fn line(name: &str, live: &Live) -> String {
    let name = crate::bytes::printable(name.as_bytes());
    let at = seconds(live.at_us());
    let Some(step) = &live.step else { return format!("{name}: {at}") };
    let levels: Vec<String> = (0..)
        .zip(&step.levels)
        .map(|(number, level)| format!("L{number} {:.0}%", tree::fullness(level).0 * 100.0))
        .collect();
    format!(
        "{name}: {at}, {}/s, {}, {} running, written {} times, stopped {}",
        units::bytes(live.rate() as u64),
        levels.join(" "),
        step.running.len(),
        live.write_amplification().map_or("-".into(), |times| format!("{times:.2}")),
        live.stops.count
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::trace::{Amount, Shape, What};

    fn sample() -> Live {
        let shape = |runs, tables, bytes, limit_bytes, limit_runs| Shape {
            runs,
            tables,
            bytes,
            limit_bytes,
            limit_runs,
        };
        let input = Amount { tables: 7, bytes: 9 << 20 };
        let mut live = Live::default();
        for second in 1..=4 {
            live.add(Step {
                at_us: second * 1_000_000,
                what: What::Stopped { duration_us: 250_000 },
                user_bytes: (second * second) << 20,
                memtable_bytes: 3 << 20,
                slowed_to: Some(5 << 20),
                turn: Some(1),
                levels: vec![
                    shape(3, 3, 3 << 20, 0, 4),
                    shape(1, 4, 300 << 20, 256 << 20, 0),
                    shape(1, 900, 30 << 30, 0, 0),
                ],
                running: vec![Running { level: 1, output_level: 2, input, since_us: 3_500_000 }],
            });
        }
        let written = Amount { tables: 1, bytes: 40 << 20 };
        let last = live.step.clone().expect("a step");
        live.add(Step { what: What::Flushed { written, duration_us: 1 }, ..last });
        live
    }

    #[test]
    fn a_tree_at_work_is_drawn() {
        let lines = draw("default", &sample(), 5_000_000, &Paint::plain());
        let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
        let expected = "\
default  users wrote 16.0 MiB in 5.0 s

                 full                  bytes        limit     tables
mem                                  3.0 MiB
L0         [###########...]          3.0 MiB  3 of 4 runs          3
     o o o
L1      [####################]     300.0 MiB    256.0 MiB          4  turn v
     oooo
L2   [###########################]  30.0 GiB         none        900
     oooooooooooooooooooooooooooooooooooooooooooooooooo  each 18 tables

compacting  L1 to L2, 7 tables, 9.0 MiB, for 1.5 s
writes      4.0 MiB/s  :=*#
slowed      to 5.0 MiB/s
stopped     4 times, 1.00 s in all, 0.25 s the longest
written     2.50 bytes of tables for each of users'; 1 flush, 0 compactions";
        assert_eq!(lines.join("\n"), expected);
        assert_eq!(
            line("default", &sample()),
            "default: 4.0 s, 4.0 MiB/s, L0 75% L1 117% L2 100%, 1 running, written 2.50 times, stopped 4"
        );
    }

    #[test]
    fn it_fits_any_terminal_and_any_moment() {
        let plain = Paint::plain();
        let mut begun = sample();
        begun.step = None;
        for live in [sample(), begun, Live::default()] {
            for paint in [plain, Paint { unicode: true, width: 76, ..plain }] {
                for line in draw("default", &live, 0, &paint) {
                    assert!(line.chars().count() <= paint.width, "{line}");
                }
            }
        }
    }
}

//! A replica is repaired in full: the state of a group is replaced by a new one, of one group and
//! of all: figure 11 of the paper.
//!
//! The new state comes from memory, in the order of its keys, as from a replica that is healthy; or
//! as files that such a one has exported before. A repair is done when it would outlive a crash,
//! and at rest when the store has no more work.

use super::choice::Choice;
use super::figures::percent;
use super::groups::PAIR_BYTES;
use super::lab::{Each, Lab};
use super::replica::{Ours, States, Way};
use super::watch::{Space, space_during};
use crate::machine::disk_bytes;
use crate::place::make_dir;
use crate::report::median;
use esker_draw::units::{bytes, duration};
use esker_draw::{Axes, Line, Outcome, Palette, RATES, chart};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

/// Memtables and tables have about a 256th of a store, as they would in one of the paper's size.
const PARTS: u64 = 256;

/// What the paper saw.
const EXTRA_PERCENT_MAX: f64 = 6.4;
const TIME_PERCENT_MAX: f64 = -72.3;

/// How many groups are repaired, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Scope {
    /// One.
    One,
    /// All.
    All,
}

impl Scope {
    const ALL: [Scope; 2] = [Scope::One, Scope::All];

    fn name(self) -> &'static str {
        match self {
            Scope::One => "one group",
            Scope::All => "all groups",
        }
    }
}

/// One repair.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Repair {
    /// The way, as tables call it.
    way: String,
    scope: Scope,
    /// Until it would outlive a crash, and until the store had no more work.
    done_s: f64,
    rest_s: f64,
    /// Bytes that the store wrote.
    written_bytes: u64,
    /// Bytes of disk of what is alive: when everything was compacted, in the end.
    live_bytes: u64,
    /// Bytes of disk, by seconds since it began.
    space: Space,
}

impl Repair {
    /// The most bytes of disk beyond those of what is alive, as a share of these.
    fn extra(&self) -> f64 {
        let peak = self.space.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        peak as f64 / self.live_bytes.max(1) as f64 - 1.0
    }
}

impl Lab<'_> {
    /// Esker's ways and those of peers, in turns.
    pub(super) fn repair(&mut self, peers: &[&dyn Way], each: Each<'_, Repair>) -> Outcome<()> {
        let place = self.place;
        let ways: Vec<&dyn Way> =
            Ours::ALL.iter().map(|way| way as &dyn Way).chain(peers.iter().copied()).collect();
        for round in 0..self.choice.repeat {
            for turn in 0..ways.len() {
                let way = ways[(turn + round as usize) % ways.len()];
                let repairs =
                    place.within(&format!("repair-{turn}"), |dir| self.repair_by(way, dir))?;
                if self.is_stopped() {
                    return Ok(());
                }
                repairs.into_iter().try_for_each(&mut *each)?;
            }
        }
        Ok(())
    }

    /// Repairs one group of a store, and then all; fewer if it was interrupted.
    fn repair_by(&mut self, way: &dyn Way, dir: &Path) -> Outcome<Vec<Repair>> {
        let (size, groups) = (self.choice.repair_size(), self.choice.repair_groups());
        let part = (size / PARTS).clamp(1 << 20, 64 << 20);
        let states = States { pairs: (size / groups / PAIR_BYTES).max(1), stop: self.stop };
        make_dir(dir)?;
        let mut replica = way.open(dir, groups, part)?;
        for group in 0..groups {
            self.progress.at("groups filled", group, groups);
            states.insert(&mut *replica, group, 0)?;
        }
        replica.persist()?;
        replica.rest()?;
        let mut repairs = Vec::new();
        for (state, scope) in [(1, Scope::One), (2, Scope::All)] {
            let all = if scope == Scope::One { groups / 2..groups / 2 + 1 } else { 0..groups };
            replica.prepare(all.clone(), state, &states)?;
            let written = replica.written_bytes();
            let ((done_s, rest_s), space) = space_during(&dir.join("store"), || {
                // Looks at the disk before and after are not in the times.
                let start = Instant::now();
                for group in all.clone() {
                    self.progress.at(way.name(), group - all.start, all.end - all.start);
                    states.replace(&mut *replica, group, state)?;
                }
                replica.persist()?;
                let done_s = start.elapsed().as_secs_f64();
                replica.rest()?;
                Ok((done_s, start.elapsed().as_secs_f64()))
            })?;
            let written_bytes = replica.written_bytes() - written;
            let way = way.name().to_owned();
            repairs.push(Repair {
                way,
                scope,
                done_s,
                rest_s,
                written_bytes,
                live_bytes: 0,
                space,
            });
        }
        replica.compact()?;
        replica.rest()?;
        let live_bytes = disk_bytes(&dir.join("store"));
        repairs.iter_mut().for_each(|repair| repair.live_bytes = live_bytes);
        replica.close()?;
        Ok(repairs)
    }
}

/// Repairs of one kind.
fn of<'a>(all: &'a [Repair], way: &str, scope: Scope) -> Vec<&'a Repair> {
    all.iter().filter(|repair| repair.way == way && repair.scope == scope).collect()
}

/// The ways, as tables call them: Esker's, then others in the order in which they came.
fn ways(all: &[Repair]) -> Vec<&str> {
    let mut ways: Vec<&str> = Ours::ALL.iter().map(Way::name).collect();
    for repair in all {
        if !ways.contains(&&*repair.way) {
            ways.push(&repair.way);
        }
    }
    ways
}

/// The median of a figure; `None` of no repair.
fn middle(repairs: &[&Repair], figure: impl Fn(&Repair) -> f64) -> Option<f64> {
    (!repairs.is_empty()).then(|| median(repairs.iter().map(|repair| figure(repair)).collect()))
}

/// The table of all ways.
pub(super) fn page(choice: &Choice, all: &[Repair]) -> String {
    let ways = ways(all);
    let mut text = format!(
        "## Full repair\n\nThe states of one of {} groups, and of all of them one after the other, replaced by new ones; {} of pairs of {} \
         bytes before compression, medians of {} rounds. Space beyond that of what is alive.\n\n| | | most extra space | done in | against \
         the first | at rest in | written |\n|---|---|---|---|---|---|---|\n",
        choice.repair_groups(),
        bytes(choice.repair_size()),
        PAIR_BYTES,
        all.len().div_ceil(ways.len() * Scope::ALL.len()),
    );
    for scope in Scope::ALL {
        let first = middle(&of(all, ways[0], scope), |repair| repair.done_s);
        for way in &ways {
            let repairs = of(all, way, scope);
            let figures = (
                middle(&repairs, Repair::extra),
                middle(&repairs, |repair| repair.done_s),
                middle(&repairs, |repair| repair.rest_s),
                middle(&repairs, |repair| repair.written_bytes as f64),
            );
            let (Some(extra), Some(done), Some(rest), Some(written)) = figures else { continue };
            let _ = writeln!(
                text,
                "| {} | {} | {:.1} % | {} | {} | {} | {} |",
                scope.name(),
                way,
                100.0 * extra,
                duration(1e9 * done),
                first.map(|first| percent(done, first)).unwrap_or_default(),
                duration(1e9 * rest),
                bytes(written as u64),
            );
        }
    }
    let _ = writeln!(
        text,
        "\nGoals: at most {EXTRA_PERCENT_MAX} % more space, {TIME_PERCENT_MAX} % of time against the first; the paper had 65.6 % and \
         4 398 s before, {EXTRA_PERCENT_MAX} % and 1 217 s after.\n"
    );
    text
}

/// Space over time while all groups are repaired, by way: the last round of each.
pub(super) fn drawing(all: &[Repair]) -> Outcome<String> {
    let ways = ways(all);
    let line = |way: &&str| -> Option<Line> {
        let repair = *of(all, way, Scope::All).last()?;
        let points = repair.space.iter().map(|&(seconds, bytes)| (seconds, bytes as f64));
        Some(((*way).to_owned(), points.collect()))
    };
    let lines: Vec<Line> = ways.iter().filter_map(line).collect();
    let palette = Palette::of(ways.iter().map(|way| (*way).to_owned()));
    let axes = Axes {
        x_text: &|seconds: &f64| duration(1e9 * seconds),
        y_text: &|held: &f64| bytes(*held as u64),
        ..RATES
    };
    chart("Bytes of disk while all groups are repaired, over time", &lines, &palette, &axes)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A repair that took so many seconds, and as many times 10 MiB at its peak, of 100 MiB.
    fn repair(way: &str, scope: Scope, times: u64) -> Repair {
        let space = vec![(0.0, 100 << 20), (0.5, times * (10 << 20)), (1.0, 100 << 20)];
        let (done_s, rest_s) = (times as f64, 2.0 * times as f64);
        Repair {
            way: way.to_owned(),
            scope,
            done_s,
            rest_s,
            written_bytes: times << 20,
            live_bytes: 100 << 20,
            space,
        }
    }

    pub(in super::super) fn repairs() -> Vec<Repair> {
        let ours = Ours::ALL.iter().map(Way::name).zip([16, 12, 4, 1]);
        let all = ours.chain([("another store", 20)]);
        all.flat_map(|(way, times)| Scope::ALL.map(|scope| repair(way, scope, times))).collect()
    }

    #[test]
    fn ways_stand_beside_the_first() {
        let mut all = repairs();
        let text = page(&super::super::choice::tests::choice(), &all);
        for line in [
            "medians of 1 rounds",
            "\n| one group | log, delete_range, batches | 60.0 % | 16.0 s | +0.0 % | 32.0 s | 16.0 MiB |",
            "\n| all groups | delete_range, apply | 20.0 % | 12.0 s | -25.0 % | 24.0 s | 12.0 MiB |",
            // What was there before is the peak.
            "\n| all groups | delete_group, apply | 0.0 % | 4.00 s | -75.0 % | 8.00 s | 4.00 MiB |",
            "\n| one group | another store | 100.0 % | 20.0 s | +25.0 % | 40.0 s | 20.0 MiB |",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let drawn = drawing(&all).expect("a drawing");
        for word in ["delete_group, apply", "another store", "MiB"] {
            assert!(drawn.contains(word), "{word}: {drawn}");
        }
        all.retain(|repair| repair.way == Ours::Group.name());
        let text = page(&super::super::choice::tests::choice(), &all);
        assert!(text.contains("| one group | delete_group, apply | 0.0 % | 4.00 s |  |"), "{text}");
        assert!(!text.contains("batches"), "{text}");
    }
}

//! What a write costs by what makes it durable: figure 8 of the paper.

use super::choice::Choice;
use super::figures::{latencies, percent};
use super::groups::{self, name, options, write_key};
use super::lab::{Each, Lab};
use crate::race::{Race, Runner};
use crate::report::median;
use crate::result::Latency;
use esker::base::checksum::mix64;
use esker::{Applied, Batch, Db, Durability, WriteOptions};
use esker_draw::units::{duration, rate};
use esker_draw::{Group, Outcome, Palette, bars};
use hdrhistogram::Histogram;
use rand::rngs::Xoshiro256PlusPlus as Random;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time between two looks at how far the threads are.
const ROUND: Duration = Duration::from_millis(50);

/// Numbers of keys in a group, of which every write draws one.
const NUMBERS: u64 = 1 << 20;

/// What makes a write durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Arm {
    /// The store's log, which is synced before a write returns.
    Synced,
    /// The store's log, which is not synced.
    Logged,
    /// Nothing: single puts below a log of somebody else's, who is told of nothing.
    Unlogged,
    /// The same in batches of one put, as requests are.
    Written,
    /// The same where groups share tables: elsewhere each has its own.
    Shared,
    /// Two puts: the second says how far the log of the group was applied, as a key of its own.
    Sentinel,
    /// Somebody else's log: each write is a request of its group.
    Applied,
}

impl Arm {
    pub(super) const ALL: [Arm; 7] = [
        Arm::Synced,
        Arm::Logged,
        Arm::Unlogged,
        Arm::Written,
        Arm::Shared,
        Arm::Sentinel,
        Arm::Applied,
    ];

    fn name(self) -> &'static str {
        match self {
            Arm::Synced => "log, each write synced",
            Arm::Logged => "log, not synced",
            Arm::Unlogged => "no log: put",
            Arm::Written => "no log: write",
            Arm::Shared => "no log: write, groups share tables",
            Arm::Sentinel => "no log: write with a sentinel key",
            Arm::Applied => "no log: apply",
        }
    }

    fn open(self, dir: &Path) -> Outcome<Db> {
        let durability = match self {
            Arm::Synced | Arm::Logged => Durability::Wal,
            _ => Durability::External,
        };
        Ok(Db::open(dir, options(durability, self != Arm::Shared))?)
    }
}

/// One run of an arm.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Run {
    arm: Arm,
    writes_per_second: f64,
    latency: Latency,
}

/// What a thread does: its share of the writes, to groups that nobody else writes to.
#[derive(Clone, Copy)]
struct Seat {
    thread: u64,
    threads: u64,
    groups: u64,
    writes: u64,
    seed: u64,
}

/// How many writes a thread has done, on a line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Done(AtomicU64);

impl Lab<'_> {
    /// All arms, each once in a round, in another order each time.
    pub(super) fn latency(&mut self, each: Each<'_, Run>) -> Outcome<()> {
        let place = self.place;
        for round in 0..self.choice.repeat {
            // What an arm leaves behind, such as files to be removed, is met by another one each
            // time.
            let mut arms = Arm::ALL;
            arms.shuffle(&mut Random::seed_from_u64(u64::from(round)));
            for (turn, arm) in arms.into_iter().enumerate() {
                let run = place.within(&format!("latency-{turn}"), |dir| {
                    let db = arm.open(dir)?;
                    let run = self.writes(&db, arm, round)?;
                    db.close()?;
                    Ok(run)
                })?;
                if self.is_stopped() {
                    return Ok(());
                }
                each(run)?;
            }
        }
        Ok(())
    }

    /// Writes from all threads.
    fn writes(&mut self, db: &Db, arm: Arm, round: u32) -> Outcome<Run> {
        let (threads, all) = (self.choice.threads, self.choice.writes());
        let (groups, stop) = (self.choice.groups, self.stop);
        let done: Vec<Done> = (0..threads).map(|_| Done::default()).collect();
        let (race, runners) = Race::of(threads as usize, 0);
        let (start, workers) = std::thread::scope(|scope| {
            // Goes before the threads are waited for, so that none waits in vain for the others.
            let race = race;
            let workers: Vec<_> = (0..threads)
                .zip(runners)
                .map(|(thread, runner)| {
                    let writes = all / threads + u64::from(thread < all % threads);
                    let seed = mix64(u64::from(round)) ^ thread;
                    let seat = Seat { thread, threads, groups, writes, seed };
                    let done = &done[thread as usize];
                    scope.spawn(move || work(db, arm, seat, runner, done, stop))
                })
                .collect();
            let (start, mut is_over) = (race.start(Instant::now), false);
            while !is_over {
                is_over = race.is_over_by(Instant::now() + ROUND);
                let count = done.iter().map(|done| done.0.load(Ordering::Relaxed)).sum();
                self.progress.at(arm.name(), count, all);
            }
            let joined = workers.into_iter().map(|worker| {
                worker.join().unwrap_or_else(|_| Err("a thread of the benchmark panicked".into()))
            });
            joined.collect::<Outcome<Vec<_>>>().map(|workers| (start, workers))
        })?;
        let mut taken = latencies()?;
        let (mut longest, mut ended) = (0, start);
        for (worker, max, end) in workers {
            taken.add(worker)?;
            (longest, ended) = (longest.max(max), ended.max(end));
        }
        let seconds = ended.duration_since(start).as_secs_f64();
        let writes_per_second = taken.len() as f64 / seconds.max(1e-9);
        Ok(Run { arm, writes_per_second, latency: Latency::of(&taken, longest) })
    }
}

/// One thread, which makes ready and begins with the others: its latencies, the longest of them,
/// and when it was done.
fn work(
    db: &Db,
    arm: Arm,
    seat: Seat,
    mut runner: Runner,
    done: &Done,
    stop: &AtomicBool,
) -> Outcome<(Histogram<u64>, u64, Instant)> {
    let mut taken = latencies()?;
    let mut random = Random::seed_from_u64(seat.seed);
    let mut values = groups::values(seat.seed);
    let own: Vec<u64> = (seat.thread..seat.groups).step_by(seat.threads as usize).collect();
    let names: Vec<_> = own.iter().map(|&group| name(group)).collect();
    let mut indexes = vec![0u64; own.len()];
    let (mut key, mut longest) = (Vec::new(), 0);
    runner.begin()?;
    for count in 0..seat.writes {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let at = random.random_range(0..own.len());
        write_key(own[at], random.random_range(0..NUMBERS), &mut key);
        let value = values.give();
        indexes[at] += 1;
        let before = Instant::now();
        match arm {
            Arm::Logged | Arm::Unlogged => db.put(&key, value)?,
            Arm::Synced | Arm::Written | Arm::Shared => {
                let mut batch = Batch::new();
                batch.put(&key, value);
                db.write(batch, WriteOptions { sync: arm == Arm::Synced })?;
            }
            Arm::Sentinel => {
                let mut batch = Batch::new();
                batch.put(&key, value);
                batch.put(&names[at], &indexes[at].to_le_bytes());
                db.write(batch, WriteOptions::default())?;
            }
            Arm::Applied => {
                let mut batch = Batch::new();
                batch.put(&key, value);
                db.apply(Applied { group: &names[at], index: indexes[at], note: b"" }, batch)?;
            }
        }
        let ns = before.elapsed().as_nanos() as u64;
        taken.saturating_record(ns);
        longest = longest.max(ns);
        done.0.store(count + 1, Ordering::Relaxed);
    }
    Ok((taken, longest, Instant::now()))
}

/// Medians of an arm.
#[derive(Clone, Copy, Debug)]
struct Medians {
    rate: f64,
    mean: f64,
    p50: f64,
    p99: f64,
    p999: f64,
}

/// Medians of the runs of an arm; `None` if it has none.
fn medians(runs: &[Run], arm: Arm) -> Option<Medians> {
    let of = |figure: &dyn Fn(&Run) -> f64| -> Option<f64> {
        let all: Vec<f64> = runs.iter().filter(|run| run.arm == arm).map(figure).collect();
        (!all.is_empty()).then(|| median(all))
    };
    Some(Medians {
        rate: of(&|run| run.writes_per_second)?,
        mean: of(&|run| run.latency.mean)?,
        p50: of(&|run| run.latency.p50 as f64)?,
        p99: of(&|run| run.latency.p99 as f64)?,
        p999: of(&|run| run.latency.p999 as f64)?,
    })
}

/// The table of all arms, and how they stand to each other.
pub(super) fn page(choice: &Choice, runs: &[Run]) -> String {
    let mut text = format!(
        "## Latency of a write\n\n{} threads, {} writes in each run, {} groups, keys of {} and values of {} bytes, medians of {} \
         rounds in which the arms take turns.\n\n| | writes a second | mean | p50 | p99 | p99.9 |\n|---|---|---|---|---|---|\n",
        choice.threads,
        choice.writes(),
        choice.groups,
        groups::KEY_BYTES,
        groups::VALUE_BYTES,
        runs.len().div_ceil(Arm::ALL.len()),
    );
    for arm in Arm::ALL {
        let Some(found) = medians(runs, arm) else { continue };
        let latencies = [found.mean, found.p50, found.p99, found.p999].map(duration);
        let _ =
            writeln!(text, "| {} | {} | {} |", arm.name(), rate(found.rate), latencies.join(" | "));
    }
    text.push('\n');
    let Some(applied) = medians(runs, Arm::Applied) else { return text };
    for (arm, goal) in [
        (Arm::Synced, "goal: mean and p99 -94 % or better"),
        (Arm::Unlogged, "no goal"),
        (Arm::Written, "goal: within 3 %"),
        (Arm::Shared, "no goal"),
        (Arm::Sentinel, "no goal"),
        (Arm::Logged, "no goal"),
    ] {
        let Some(other) = medians(runs, arm) else { continue };
        let _ = writeln!(
            text,
            "- \"{}\" against \"{}\": mean {}, p50 {}, p99 {}, writes a second {} ({goal})",
            Arm::Applied.name(),
            arm.name(),
            percent(applied.mean, other.mean),
            percent(applied.p50, other.p50),
            percent(applied.p99, other.p99),
            percent(applied.rate, other.rate),
        );
    }
    text.push('\n');
    text
}

/// Latencies of all arms as bars.
pub(super) fn drawing(runs: &[Run]) -> Outcome<String> {
    let group = |label: &str, figure: &dyn Fn(&Medians) -> f64| {
        let bars = Arm::ALL.into_iter().filter_map(|arm| {
            let ns = figure(&medians(runs, arm)?);
            Some((arm.name(), (ns, duration(ns))))
        });
        Group::new(label, bars)
    };
    let groups = [
        group("mean", &|found| found.mean),
        group("p50", &|found| found.p50),
        group("p99", &|found| found.p99),
        group("p99.9", &|found| found.p999),
    ];
    let palette = Palette::of(Arm::ALL.map(|arm| arm.name().to_owned()));
    bars("Time of a write, by what makes it durable", &groups, &palette)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A run whose latencies are so many times as long as those of applied requests.
    pub(in super::super) fn run(arm: Arm, times: f64) -> Run {
        let ns = |ns: f64| (ns * times) as u64;
        let latency = Latency {
            count: 10,
            mean: 1_000.0 * times,
            p50: ns(900.0),
            p99: ns(2_000.0),
            p999: ns(3_000.0),
            max: ns(9_000.0),
        };
        Run { arm, writes_per_second: 1e6 / times, latency }
    }

    #[test]
    fn arms_stand_beside_each_other() {
        let runs = [
            run(Arm::Synced, 50.0),
            run(Arm::Logged, 2.0),
            run(Arm::Unlogged, 0.8),
            run(Arm::Applied, 1.0),
            // The middle one of three counts.
            run(Arm::Applied, 1.0),
            run(Arm::Applied, 70.0),
        ];
        let text = page(&super::super::choice::tests::choice(), &runs);
        for line in [
            "| log, each write synced | 20.0 k | 50.0 µs | 45.0 µs | 100 µs | 150 µs |",
            "| no log: apply | 1.00 M | 1.00 µs | 900 ns | 2.00 µs | 3.00 µs |",
            "\"log, each write synced\": mean -98.0 %, p50 -98.0 %, p99 -98.0 %, writes a second +4900.0 %",
            "\"no log: put\": mean +25.0 %, p50 +25.0 %, p99 +25.0 %, writes a second -20.0 %",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let drawn = drawing(&runs).expect("a drawing");
        assert!(drawn.contains("no log: apply") && drawn.contains("p99.9"), "{drawn}");
    }

    #[test]
    fn an_arm_that_was_not_measured_has_no_row() {
        let text = page(&super::super::choice::tests::choice(), &[run(Arm::Applied, 1.0)]);
        assert!(text.contains("| no log: apply |") && !text.contains("against"), "{text}");
        assert!(!text.contains("synced"), "{text}");
    }
}

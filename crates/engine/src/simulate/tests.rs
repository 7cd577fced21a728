//! What simulations must have in common with stores and with arithmetic.

use super::{Keys, LevelScore, Load, Machine, Plan, Progress, Rule, Writers, run, run_by};
use crate::options::{Compaction, KeyspaceOptions, Scheduler, TimeSlice};
use crate::trace::{Amount, Shape, Step, Trace, What};
use esker_base::Error;

const MIB: u64 = 1 << 20;

/// Small tables on a disk that turns, as in the paper on time slices.
fn plan(scheduler: Scheduler) -> Plan {
    Plan {
        options: KeyspaceOptions {
            scheduler,
            memtable_bytes: 2 * MIB,
            table_bytes_max: 2 * MIB,
            level_base_bytes: 10 * MIB,
            level0_runs_slow: 8,
            level0_runs_max: 12,
            ..KeyspaceOptions::default()
        },
        memtables_bytes_max: 4 * MIB,
        compaction_threads: 1,
        load: Load {
            bytes: 512 * MIB,
            record_bytes: 1 << 10,
            keys: Keys::Random,
            bytes_per_second: 100 * MIB,
            log: false,
        },
        machine: Machine::DISK,
        writers: Writers::Stopped,
    }
}

fn trace(plan: &Plan) -> Trace {
    run(plan, |_| true).expect("a simulation")
}

fn slice(slice_ms: u64) -> Scheduler {
    Scheduler::TimeSlice(TimeSlice { slice_ms: Some(slice_ms), ..TimeSlice::default() })
}

fn most_tables(trace: &Trace, level: usize) -> u64 {
    let held = |step: &Step| step.levels.get(level).map_or(0, |shape| shape.tables);
    trace.steps.iter().map(held).max().unwrap_or(0)
}

/// Bytes that a step read and wrote.
fn moved_bytes(step: &Step) -> u64 {
    match step.what {
        What::Flushed { written, .. } => written.bytes,
        What::Compacted { taken, rewritten, written, .. } => {
            taken.bytes + rewritten.bytes + written.bytes
        }
        What::Started | What::Moved { .. } | What::Stopped { .. } => 0,
    }
}

fn last(trace: &Trace) -> &[Shape] {
    &trace.steps.last().expect("steps").levels
}

#[test]
fn under_priority_level_1_piles_up_and_under_the_slice_it_does_not() {
    let [priority, slice] = [Scheduler::Priority, slice(8_000)].map(|scheduler| {
        let mut plan = plan(scheduler);
        plan.load.bytes = 1 << 30;
        trace(&plan)
    });
    let most = [&priority, &slice].map(|trace| most_tables(trace, 1));
    assert!(most[0] > 300 && most[1] < 150, "{most:?}");
    assert!(slice.loaded_us * 2 < priority.loaded_us, "{} {}", slice.loaded_us, priority.loaded_us);
    let stopped = |trace: &Trace| {
        let stop = |step: &Step| match step.what {
            What::Stopped { duration_us } => duration_us,
            _ => 0,
        };
        trace.steps.iter().map(stop).max().unwrap_or(0)
    };
    assert!(stopped(&slice) < stopped(&priority), "shorter waits");
}

#[test]
fn paced_writers_never_stop() {
    let plan = Plan { writers: Writers::Paced, ..plan(Scheduler::Ratio) };
    let stop = |step: &Step| matches!(step.what, What::Stopped { .. });
    let trace = trace(&plan);
    assert!(!trace.steps.iter().any(stop));
    let runs = trace.steps.iter().map(|step| step.levels[..].first().map_or(0, |l| l.runs)).max();
    // At the slowest pace they still come faster than a disk like this takes them away.
    assert!(runs > Some(8) && runs <= Some(20), "{runs:?}");
}

#[test]
fn compactions_are_under_way_until_they_are_told() {
    let plan = Plan { writers: Writers::Paced, compaction_threads: 3, ..plan(Scheduler::Ratio) };
    let (mut known, mut most) = (Vec::new(), 0);
    for step in trace(&plan).steps {
        match step.what {
            What::Started => {
                let begun = step.running.last().expect("the one that began");
                assert_eq!(begun.since_us, step.at_us);
                known.push(*begun);
            }
            What::Compacted { level, output_level, taken, rewritten, duration_us, .. } => {
                let input = Amount {
                    tables: taken.tables + rewritten.tables,
                    bytes: taken.bytes + rewritten.bytes,
                };
                let over = known.iter().position(|job| {
                    (job.level, job.output_level, job.input) == (level, output_level, input)
                        && (job.since_us + duration_us).abs_diff(step.at_us) <= 1
                });
                known.remove(over.expect("it had begun"));
            }
            _ => {}
        }
        assert_eq!(step.running, known, "at {}", step.at_us);
        most = most.max(known.len());
    }
    assert!(most > 1 && known.is_empty(), "{most} at once, {} at the end", known.len());
}

#[test]
fn steps_tell_limits_and_the_pace() {
    let plan = Plan { writers: Writers::Paced, ..plan(Scheduler::Ratio) };
    let trace = trace(&plan);
    for step in &trace.steps {
        for (number, level) in step.levels.iter().enumerate() {
            let (bytes, runs) = (plan.options.level_base_bytes, plan.options.level0_runs_compact);
            let expected = match number {
                0 => (0, u64::from(runs)),
                1 => (bytes, 0),
                2 => (bytes * plan.options.level_fanout as u64, 0),
                _ => continue,
            };
            assert_eq!((level.limit_bytes, level.limit_runs), expected, "level {number}");
        }
        assert!(step.memtable_bytes <= plan.memtables_bytes_max, "{}", step.memtable_bytes);
    }
    let slowed = trace.steps.iter().filter_map(|step| step.slowed_to);
    assert!(slowed.clone().count() > 0, "a disk like this is too slow");
    assert!(slowed.min() > Some(0), "nobody is stopped");
}

/// Memtables are as large as a store's with the same options would be.
#[test]
fn a_memtable_is_sealed_at_a_quarter_of_what_all_may_hold() {
    let flushed = |writers, memtables_bytes_max| {
        let plan = Plan { writers, memtables_bytes_max, ..plan(Scheduler::Ratio) };
        let bytes = |step: &Step| match step.what {
            What::Flushed { written, .. } => Some(written.bytes),
            _ => None,
        };
        trace(&plan).steps.iter().find_map(bytes).expect("a flush")
    };
    assert_eq!(flushed(Writers::Paced, 4 * MIB), MIB);
    assert_eq!(flushed(Writers::Paced, 6 * MIB), 3 * MIB / 2);
    assert_eq!(flushed(Writers::Paced, 16 * MIB), 2 * MIB, "no more than one may hold");
    assert_eq!(flushed(Writers::Stopped, 4 * MIB), 2 * MIB, "that is not their way");
}

#[test]
fn a_load_that_is_slow_enough_is_not_held_back() {
    let mut plan = plan(Scheduler::Ratio);
    plan.load.bytes_per_second = 2 * MIB;
    let trace = trace(&plan);
    let expected_us = plan.load.bytes as f64 / plan.load.bytes_per_second as f64 * 1e6;
    let late = trace.loaded_us as f64 / expected_us;
    assert!((0.999..1.001).contains(&late), "{late}");
}

#[test]
fn a_device_does_no_more_than_it_can() {
    for writers in [Writers::Paced, Writers::Stopped] {
        for (threads, heads) in [(1, 1), (3, 1), (3, 2)] {
            let mut plan = Plan { writers, compaction_threads: threads, ..plan(Scheduler::Ratio) };
            plan.machine.heads = heads;
            plan.load.log = true;
            let trace = trace(&plan);
            let end = trace.steps.last().expect("steps");
            let moved: u64 = trace.steps.iter().map(moved_bytes).sum::<u64>() + end.user_bytes;
            let able = end.at_us as f64 / 1e6 * 1e8 * f64::from(heads);
            assert!(moved as f64 <= able * 1.001, "{writers:?}, {threads} threads: {moved} {able}");
            assert_eq!(end.user_bytes, plan.load.bytes);
        }
    }
}

#[test]
fn at_the_end_no_level_is_over_its_limit_and_nothing_is_lost() {
    for scheduler in [
        Scheduler::Ratio,
        Scheduler::Priority,
        slice(1),
        Scheduler::TimeSlice(TimeSlice::default()),
    ] {
        let plan = plan(scheduler);
        let trace = trace(&plan);
        let levels = last(&trace);
        assert!(levels[0].runs < 4, "{levels:?}");
        for (level, limit) in [(1, 10 * MIB), (2, 100 * MIB), (3, 1_000 * MIB)] {
            assert!(levels[level].bytes < limit, "{levels:?}");
        }
        let bytes: u64 = levels.iter().map(|level| level.bytes).sum();
        let share = bytes as f64 / plan.load.bytes as f64;
        assert!((0.999..1.001).contains(&share), "{share}");
    }
}

#[test]
fn nothing_is_lost_of_records_of_which_a_table_holds_few() {
    for record_bytes in [600 << 10, 1_400 << 10] {
        let mut plan = plan(Scheduler::Ratio);
        plan.load.record_bytes = record_bytes;
        let trace = trace(&plan);
        let bytes: u64 = last(&trace).iter().map(|level| level.bytes).sum();
        let share = bytes as f64 / plan.load.bytes as f64;
        assert!((0.999..1.001).contains(&share), "{record_bytes}: {share}");
    }
}

#[test]
fn tiers_write_a_byte_once_for_each_level() {
    let mut plan = plan(Scheduler::Ratio);
    plan.options.compaction = Compaction::Tiered;
    let trace = trace(&plan);
    let mut written = [0u64; 8];
    for step in &trace.steps {
        if let What::Compacted { output_level, written: amount, .. } = step.what {
            written[output_level] += amount.bytes;
        }
        assert!(step.levels.iter().skip(1).all(|level| level.runs < 3 * 4), "{:?}", step.levels);
    }
    assert!(written[3] > 0, "{written:?}");
    for bytes in written {
        assert!(bytes <= plan.load.bytes * 101 / 100, "{written:?}");
    }
}

#[test]
fn ascending_keys_are_written_once() {
    for compaction in [Compaction::Leveled, Compaction::Tiered] {
        let mut plan = plan(Scheduler::Ratio);
        plan.options.compaction = compaction;
        plan.load.keys = Keys::Ascending;
        let trace = trace(&plan);
        let written: u64 = trace.steps.iter().map(moved_bytes).sum();
        let share = written as f64 / plan.load.bytes as f64;
        assert!((0.999..1.001).contains(&share), "{compaction:?}: {share}");
        assert!(last(&trace).len() > 2, "{:?}", last(&trace));
    }
}

#[test]
fn keys_that_are_written_again_take_no_more_space() {
    let mut plan = plan(Scheduler::Ratio);
    plan.load.keys = Keys::Out { of: 50 << 10 };
    let trace = trace(&plan);
    let bytes: u64 = last(&trace).iter().map(|level| level.bytes).sum();
    assert!((45 * MIB..75 * MIB).contains(&bytes), "50 MiB are live: {bytes}");
}

#[test]
fn a_plan_gives_one_trace() {
    let plan = Plan { compaction_threads: 3, ..plan(slice(200)) };
    assert_eq!(trace(&plan), trace(&plan));
}

#[test]
fn a_simulation_can_be_ended() {
    let mut seen = Vec::new();
    let result = run(&plan(Scheduler::Ratio), |progress: &Progress| {
        seen.push(progress.user_bytes);
        seen.len() < 50
    });
    assert!(matches!(result, Err(Error::Cancelled)));
    assert_eq!(seen.len(), 50);
    assert!(seen.is_sorted());
}

#[test]
fn plans_that_make_no_sense_are_refused() {
    let refused = |change: fn(&mut Plan), name: &str| {
        let mut plan = plan(Scheduler::Ratio);
        change(&mut plan);
        let message = run(&plan, |_| true).expect_err(name).to_string();
        assert!(message.contains(name), "{message}");
    };
    refused(|plan| plan.memtables_bytes_max = 2 * MIB, "memtables_bytes_max");
    refused(|plan| plan.load.record_bytes = 0, "record_bytes");
    refused(|plan| plan.load.record_bytes = 2 * MIB + 1, "record_bytes");
    refused(
        |plan| (plan.writers, plan.load.record_bytes) = (Writers::Paced, MIB + 1),
        "1048576 bytes with which a memtable is full",
    );
    refused(|plan| plan.load.bytes_per_second = 0, "bytes_per_second");
    refused(|plan| plan.load.keys = Keys::Out { of: 0 }, "distinct keys");
    refused(|plan| plan.machine.heads = 0, "heads");
    refused(|plan| plan.machine.request_bytes = 0, "request_bytes");
    refused(|plan| plan.machine.thread_bytes_per_second = 0, "thread_bytes_per_second");
    refused(|plan| plan.compaction_threads = 0, "compaction_threads = 0 is below its minimum 1");
    refused(|plan| plan.compaction_threads = 65, "compaction_threads = 65 is above its maximum 64");
    refused(|plan| plan.options.tiered_runs = 1, "tiered_runs");
}

#[test]
fn a_measured_slice_is_as_good_as_the_best_of_a_given_length() {
    let loaded_us = |scheduler| {
        let plan = plan(scheduler);
        let load = Load { bytes: 2 << 30, ..plan.load };
        trace(&Plan { load, ..plan }).loaded_us
    };
    let given = [200, 1_000, 4_000].map(|ms| loaded_us(slice(ms)));
    let measured = loaded_us(Scheduler::TimeSlice(TimeSlice::default()));
    let best = given.into_iter().min().expect("several");
    // Turns as long as each level's own excess takes need a fifth more.
    assert!(measured as f64 <= 1.05 * best as f64, "{measured} beside {given:?} us");
}

/// Levels 0 and 1 alone, the upper one first.
struct Shallow;

impl Rule for Shallow {
    fn candidates(&mut self, scores: &[LevelScore]) -> Vec<(usize, f64)> {
        let over = scores.iter().filter(|score| score.is_over());
        over.map(|score| (score.level, score.score)).filter(|(level, _)| *level < 2).collect()
    }

    fn note_job(&mut self, level: usize, _bytes: u64, _duration_ns: u64) {
        assert!(level < 2, "only what it wanted");
    }

    fn turn(&self) -> Option<usize> {
        Some(5)
    }
}

#[test]
fn a_rule_of_ones_own_decides() {
    let trace = run_by(&mut Shallow, &plan(Scheduler::Ratio), |_| true).expect("a simulation");
    let of = |step: &Step| match step.what {
        What::Compacted { level, .. } => Some(level),
        _ => None,
    };
    let levels: Vec<usize> = trace.steps.iter().filter_map(of).collect();
    assert!(levels.iter().all(|&level| level < 2), "{levels:?}");
    assert!(last(&trace)[2].tables > 50, "nothing leaves level 2: {:?}", last(&trace));
    assert_eq!(trace.steps[0].turn, Some(5));
}

#[test]
fn what_is_not_simulated_is_refused() {
    let apart = KeyspaceOptions { value_log_bytes_min: Some(512), ..KeyspaceOptions::default() };
    let indexed = KeyspaceOptions {
        compaction: Compaction::Tiered,
        run_index: true,
        ..KeyspaceOptions::default()
    };
    for (name, options) in [("value_log_bytes_min", apart), ("run_index", indexed)] {
        let plan = Plan { options, memtables_bytes_max: 1 << 30, ..plan(Scheduler::default()) };
        let refused = run(&plan, |_| true);
        let Err(Error::InvalidArgument { what }) = refused else {
            panic!("{name}: simulated");
        };
        assert!(what.starts_with(name), "{what}");
    }
}

//! What it takes to delete one group of many, and what those of the others notice who read and
//! write.

use super::choice::Choice;
use super::figures::{latencies, percent};
use super::groups::{Owner, end_of, name, options, values, write_key};
use super::lab::{Each, Lab};
use super::watch::Told;
use crate::keys::Shuffled;
use crate::machine::disk_bytes;
use crate::report::median;
use crate::result::Latency;
use esker::{Batch, Db, Durability};
use esker_draw::units::{bytes, duration};
use esker_draw::{Group, Outcome, Palette, bars};
use rand::rngs::Xoshiro256PlusPlus as Random;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use std::fmt::Write as _;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Writes between two looks at whether one was interrupted.
const LOOK: u64 = 4_096;

/// Requests of the group that are in memtables when it is deleted.
const FRESH: u64 = 1_000;

/// The second that begins with the deletion.
const DURING: Duration = Duration::from_secs(1);

/// The longest that a deletion may take, and by how much longer than before the p99 of others may
/// be meanwhile.
const DELETION_MS_MAX: u64 = 50;
const P99_PERCENT_MAX: u64 = 20;

const PHASES: [&str; 3] = ["before", "the second it begins", "after"];
/// Where the load ends.
const OVER: usize = PHASES.len();
/// When it does not count: what a store reads for the first time it reads slowly, and that is not
/// to count as what was before.
const UNCOUNTED: usize = OVER + 1;
/// So many times as long as what is measured before the deletion.
const WARM_UP_FACTOR: u32 = 2;

/// One deletion.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Deletion {
    /// Bytes of the group on the disk, about.
    group_bytes: u64,
    took_ns: u64,
    /// Bytes that flushes, and that compactions, wrote before it returned.
    flushed_bytes: u64,
    compacted_bytes: u64,
    /// Tables that held nothing else, and tables shared with others.
    tables: u64,
    shared_tables: u64,
    /// Bytes of disk before, when the second was over that began with it, and when the store had no
    /// more work.
    disk_bytes: [u64; 3],
    /// Bytes that compactions wrote after it returned.
    compacted_later_bytes: u64,
    /// Reads and writes of the other groups in each of [`PHASES`].
    reads: [Latency; 3],
    writes: [Latency; 3],
}

/// What was seen of the call itself.
struct Call {
    took_ns: u64,
    tables: u64,
    shared_tables: u64,
    /// What flushes and compactions had written when it began and when it returned.
    told: [[u64; 2]; 2],
    disk_bytes: [u64; 2],
}

impl Lab<'_> {
    /// Deletes groups of a store of its own in each round.
    pub(super) fn deletion(&mut self, each: Each<'_, Deletion>) -> Outcome<()> {
        let place = self.place;
        for _ in 0..self.choice.repeat {
            let went_on = place.within("deletion", |dir| {
                let (told, setup) = Told::listen();
                let db = Db::open_with(dir, options(Durability::External, true), setup)?;
                let Some(mut owner) = self.fill_for_deletion(&db)? else { return Ok(false) };
                for victim in self.choice.victims() {
                    let deleted = self.delete(&db, &mut owner, victim, &told, dir)?;
                    let Some(deleted) = deleted else { return Ok(false) };
                    each(deleted)?;
                }
                db.close()?;
                Ok(true)
            })?;
            if !went_on {
                break;
            }
        }
        Ok(())
    }

    /// Fills all groups, in random order; `None` if it was interrupted.
    fn fill_for_deletion(&mut self, db: &Db) -> Outcome<Option<Owner>> {
        let groups = self.choice.groups;
        let pairs = self.choice.pairs_of_group();
        let (order, mut owner) = (Shuffled::new(groups * pairs), Owner::new(groups));
        let mut values = values(pairs);
        let mut put = |group, number| {
            let (mut key, mut batch) = (Vec::new(), Batch::new());
            write_key(group, number, &mut key);
            batch.put(&key, values.give());
            owner.apply(db, group, batch)
        };
        for at in 0..groups * pairs {
            if at % LOOK == 0 {
                self.progress.at("pairs", at, groups * pairs);
                if self.is_stopped() {
                    return Ok(None);
                }
            }
            let number = order.at(at);
            put(number % groups, number / groups)?;
        }
        db.flush()?;
        db.wait_idle()?;
        Ok(Some(owner))
    }

    /// Deletes a group under a steady load of those that stay; `None` if it was interrupted.
    fn delete(
        &mut self,
        db: &Db,
        owner: &mut Owner,
        victim: u64,
        told: &Told,
        dir: &Path,
    ) -> Outcome<Option<Deletion>> {
        let pairs = self.choice.pairs_of_group();
        let (mut key, mut values) = (Vec::new(), values(pairs));
        for number in 0..FRESH.min(pairs) {
            write_key(victim, number, &mut key);
            let mut batch = Batch::new();
            batch.put(&key, values.give());
            owner.apply(db, victim, batch)?;
        }
        let group_bytes = size_of(db, victim)?;
        let load = Load {
            db,
            victim,
            others: others(self.choice.groups, &self.choice.victims()),
            numbers: pairs,
            interval: Duration::from_secs_f64(1.0 / self.choice.rate as f64),
            phase: AtomicUsize::new(UNCOUNTED),
        };
        self.progress.tell("a steady load, and a deletion in the midst of it");
        let (call, reads, writes) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| load.run(None));
            let writer = scope.spawn(|| load.run(Some(owner)));
            let call = load.with_call(told, dir, self.choice.seconds, self.stop);
            load.phase.store(OVER, Ordering::Relaxed);
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>((
                call?,
                joined(reader)?,
                joined(writer)?,
            ))
        })?;
        let Some(call) = call else { return Ok(None) };
        db.wait_idle()?;
        let [begun, returned] = call.told;
        Ok(Some(Deletion {
            group_bytes,
            took_ns: call.took_ns,
            flushed_bytes: returned[0] - begun[0],
            compacted_bytes: returned[1] - begun[1],
            tables: call.tables,
            shared_tables: call.shared_tables,
            disk_bytes: [call.disk_bytes[0], call.disk_bytes[1], disk_bytes(dir)],
            compacted_later_bytes: told.bytes()[1] - returned[1],
            reads,
            writes,
        }))
    }
}

fn joined<T>(thread: ScopedJoinHandle<'_, Outcome<T>>) -> Outcome<T> {
    thread.join().unwrap_or_else(|_| Err("a thread of the benchmark panicked".into()))
}

fn size_of(db: &Db, group: u64) -> Outcome<u64> {
    let (start, end) = (name(group), end_of(group));
    Ok(db.default_keyspace().approximate_size(Some(&start), Some(&end))?)
}

/// The groups that stay.
fn others(groups: u64, victims: &[u64]) -> Vec<u64> {
    (0..groups).filter(|group| !victims.contains(group)).collect()
}

/// Reads and writes of the groups that stay, each by a thread, at a steady rate.
struct Load<'a> {
    db: &'a Db,
    victim: u64,
    others: Vec<u64>,
    /// Keys of each of them.
    numbers: u64,
    interval: Duration,
    /// Which of [`PHASES`] it is, or [`OVER`], or [`UNCOUNTED`].
    phase: AtomicUsize,
}

impl Load<'_> {
    /// Reads, or writes if there is an owner, until it is over. Latencies are from when an
    /// operation was due.
    fn run(&self, mut owner: Option<&mut Owner>) -> Outcome<[Latency; 3]> {
        // By default the system lets a thread sleep 50 us too long, more than most operations take.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut random = Random::seed_from_u64(u64::from(owner.is_some()));
        let (mut values, mut key) = (values(1), Vec::new());
        let mut taken = [(latencies()?, 0), (latencies()?, 0), (latencies()?, 0)];
        let mut due = Instant::now();
        loop {
            due += self.interval;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let phase = self.phase.load(Ordering::Relaxed);
            if phase == OVER {
                break;
            }
            let group = self.others[random.random_range(0..self.others.len())];
            write_key(group, random.random_range(0..self.numbers), &mut key);
            match &mut owner {
                None => drop(self.db.get(&key)?),
                Some(owner) => {
                    let mut batch = Batch::new();
                    batch.put(&key, values.give());
                    owner.apply(self.db, group, batch)?;
                }
            }
            if let Some((taken, longest)) = taken.get_mut(phase) {
                let ns = due.elapsed().as_nanos() as u64;
                taken.saturating_record(ns);
                *longest = ns.max(*longest);
            }
        }
        Ok(taken.map(|(taken, longest)| Latency::of(&taken, longest)))
    }

    /// Waits, deletes the group, and waits again; `None` if it was interrupted.
    fn with_call(
        &self,
        told: &Told,
        dir: &Path,
        seconds: f64,
        stop: &AtomicBool,
    ) -> Outcome<Option<Call>> {
        let pause = Duration::from_secs_f64(seconds);
        if !wait(pause * WARM_UP_FACTOR, stop) {
            return Ok(None);
        }
        // Looking at thousands of files takes a processor for a hundredth of a second: not while
        // anything counts.
        let before = disk_bytes(dir);
        self.phase.store(0, Ordering::Relaxed);
        if !wait(pause, stop) {
            return Ok(None);
        }
        let told_before = told.bytes();
        self.phase.store(1, Ordering::Relaxed);
        let begun = Instant::now();
        let deleted = self.db.delete_group(&name(self.victim))?;
        let took = begun.elapsed();
        let told_after = told.bytes();
        let went_on = wait(DURING.saturating_sub(took), stop);
        self.phase.store(UNCOUNTED, Ordering::Relaxed);
        let after = disk_bytes(dir);
        self.phase.store(2, Ordering::Relaxed);
        Ok((went_on && wait(pause, stop)).then_some(Call {
            took_ns: took.as_nanos() as u64,
            tables: deleted.tables,
            shared_tables: deleted.shared_tables,
            told: [told_before, told_after],
            disk_bytes: [before, after],
        }))
    }
}

/// Waits; false if that was interrupted.
fn wait(time: Duration, stop: &AtomicBool) -> bool {
    const STEP: Duration = Duration::from_millis(50);
    let end = Instant::now() + time;
    while !stop.load(Ordering::Relaxed) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(STEP));
    }
    false
}

/// The median of a figure. Needs one deletion at least.
fn middle(all: &[Deletion], figure: impl Fn(&Deletion) -> u64) -> f64 {
    median(all.iter().map(|deletion| figure(deletion) as f64).collect())
}

/// The tables of all rounds.
pub(super) fn page(choice: &Choice, all: &[Deletion]) -> String {
    let mut text = format!(
        "## Deletion of a group\n\n{} of {} groups of equal size, one after the other; {} reads and {} writes a second of the \
         others meanwhile; {} s before, once the load had gone on for {} s, and after the second in which one is deleted.\n\n| bytes of the group | took | flushed, and \
         compacted, before it returned | tables gone | shared | disk before | a second later | at rest | rewritten later | p99 of others' reads \
         before, and in the second it begins | of their writes |\n|{}\n",
        choice.deletions,
        choice.groups,
        choice.rate,
        choice.rate,
        choice.seconds,
        choice.seconds * f64::from(WARM_UP_FACTOR),
        "---|".repeat(11),
    );
    let p99s = |phases: &[Latency; 3]| {
        let [before, during, _] = phases.map(|latency| duration(latency.p99 as f64));
        format!("{before}, {during}")
    };
    for deletion in all {
        let [before, later, rest] = deletion.disk_bytes.map(bytes);
        let _ = writeln!(
            text,
            "| {} | {} | {}, {} | {} | {} | {before} | {later} | {rest} | {} | {} | {} |",
            bytes(deletion.group_bytes),
            duration(deletion.took_ns as f64),
            bytes(deletion.flushed_bytes),
            bytes(deletion.compacted_bytes),
            deletion.tables,
            deletion.shared_tables,
            bytes(deletion.compacted_later_bytes),
            p99s(&deletion.reads),
            p99s(&deletion.writes),
        );
    }
    let _ = write!(
        text,
        "\nGoals: at most {DELETION_MS_MAX} ms, nothing flushed or compacted.\n\n| p99 of the others, medians | {} | {} | {} | second against \
         before (goal: at most +{P99_PERCENT_MAX} %) |\n|---|---|---|---|---|\n",
        PHASES[0], PHASES[1], PHASES[2]
    );
    let kinds: [(&str, Of); 2] = [("reads", |one| one.reads), ("writes", |one| one.writes)];
    for (kind, of) in kinds {
        let p99 = |phase: usize| middle(all, |one| of(one)[phase].p99);
        let _ = writeln!(
            text,
            "| {kind} | {} | {} | {} | {} |",
            duration(p99(0)),
            duration(p99(1)),
            duration(p99(2)),
            percent(p99(1), p99(0)),
        );
    }
    text.push('\n');
    text
}

/// Latencies of one kind.
type Of = fn(&Deletion) -> [Latency; 3];

/// p99 of reads and writes in each phase, as bars.
pub(super) fn drawing(all: &[Deletion]) -> Outcome<String> {
    let group = |label: &str, of: Of| {
        let bar = |phase: usize| {
            let ns = middle(all, |one| of(one)[phase].p99);
            (PHASES[phase], (ns, duration(ns)))
        };
        Group::new(label, (0..PHASES.len()).map(bar))
    };
    let groups = [group("reads", |one| one.reads), group("writes", |one| one.writes)];
    let heading = "p99 of other groups, before, while and after a group is deleted";
    bars(heading, &groups, &Palette::of(PHASES.map(str::to_owned)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A deletion in which nothing was written.
    pub(in super::super) fn deletion(took_ms: u64) -> Deletion {
        let latency = |p99| Latency { count: 9, p99, ..Latency::default() };
        Deletion {
            group_bytes: 64 << 20,
            took_ns: took_ms * 1_000_000,
            flushed_bytes: 0,
            compacted_bytes: 3 << 10,
            tables: 7,
            shared_tables: 2,
            disk_bytes: [128 << 20, 65 << 20, 64 << 20],
            compacted_later_bytes: 2 << 20,
            reads: [10_000, 11_000, 10_000].map(latency),
            writes: [20_000, 30_000 * took_ms, 20_000].map(latency),
        }
    }

    #[test]
    fn every_round_has_its_row_and_the_others_their_medians() {
        let all = [deletion(5), deletion(1), deletion(2)];
        let text = page(&super::super::choice::tests::choice(), &all);
        for line in [
            "\n| 64.0 MiB | 5.00 ms | 0 B, 3.00 KiB | 7 | 2 | 128 MiB | 65.0 MiB | 64.0 MiB | 2.00 MiB | 10.0 µs, 11.0 µs | 20.0 µs, 150 µs |",
            "\n| reads | 10.0 µs | 11.0 µs | 10.0 µs | +10.0 % |",
            "\n| writes | 20.0 µs | 60.0 µs | 20.0 µs | +200.0 % |",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let drawn = drawing(&all).expect("a drawing");
        assert!(drawn.contains("60.0 µs") && drawn.contains("the second it begins"), "{drawn}");
    }

    #[test]
    fn the_load_leaves_those_alone_that_are_deleted() {
        assert_eq!(others(5, &[2]), [0, 1, 3, 4]);
        assert_eq!(others(5, &[1, 4]), [0, 2, 3]);
    }

    #[test]
    fn a_wait_ends_when_it_is_interrupted() {
        let (stop, start) = (AtomicBool::new(false), Instant::now());
        assert!(wait(Duration::from_millis(60), &stop));
        assert!(start.elapsed() >= Duration::from_millis(60));
        stop.store(true, Ordering::Relaxed);
        assert!(!wait(Duration::from_secs(600), &stop));
    }
}

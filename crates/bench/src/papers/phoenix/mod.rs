//! The experiments of PheonixLSM on one machine: what a write costs without a log, how many tables groups of their own
//! make, what deleting a group takes, and what replacing the state of a replica does to time and space.
//!
//! Source: PheonixLSM, the engine of PheonixKV, was measured beside RocksDB 5.18. Here Esker is measured in the same
//! ways of working: with a log of its own and below one of somebody else's, with and without groups.

mod deletion;
mod groups;
mod latency;
mod repair;
mod tables;
mod watch;

use super::basics::amount;
use crate::machine::Machine;
use crate::place::{self, Place, make_dir};
use crate::progress::Progress;
use esker_draw::Outcome;
use groups::GROUPS_MAX;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is to be done.
#[derive(Clone, Debug, clap::Args)]
pub struct Choice {
    /// Parts; all if not given
    #[arg(long, value_delimiter = ',')]
    parts: Vec<Part>,
    /// The paper's sizes where none are given: 10 million writes, 1 and 10 million pairs, and 10 GB where groups are
    /// deleted or repaired. Takes an hour and 45 GB of disk
    #[arg(long)]
    paper: bool,
    /// Writes of each arm; 300 thousand if not given
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    writes: Option<u64>,
    /// Threads that write
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: u64,
    /// Groups, but for repairs
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(2..=GROUPS_MAX))]
    groups: u64,
    /// Pairs of the stores whose tables are counted; 1000000 if not given
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pairs: Vec<u64>,
    /// Bytes of the group that is deleted, before compression, and of all others together; 200MB if not given
    #[arg(long = "group_size", alias = "group-size", value_parser = amount, value_name = "BYTES")]
    group_size: Option<u64>,
    /// Reads, and writes, a second while a group is deleted
    #[arg(long, default_value_t = 4_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rate: u64,
    /// Seconds of these before and after
    #[arg(long, default_value = "3", value_parser = seconds, value_name = "SECONDS")]
    seconds: f64,
    /// Bytes of the store that is repaired, before compression; 200MB if not given
    #[arg(long = "repair_size", alias = "repair-size", value_parser = amount, value_name = "BYTES")]
    repair_size: Option<u64>,
    /// Its groups; 16 if not given, or 256 with --paper
    #[arg(long = "repair_groups", alias = "repair-groups", value_parser = clap::value_parser!(u64).range(1..=GROUPS_MAX))]
    repair_groups: Option<u64>,
    /// Measure so often; tables show medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Where the stores go, one after the other. A temporary directory if not given
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Where tables, drawings and all figures go
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// A part of the experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Latency of writes.
    Latency,
    /// Counts of tables.
    Tables,
    /// Deletion of a group.
    Deletion,
    /// Full repair.
    Repair,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.1..=3_600.0).contains(number));
    number.ok_or_else(|| "must be between 0.1 and 3600".to_owned())
}

impl Choice {
    fn of_size<T>(&self, given: Option<T>, paper: T, small: T) -> T {
        given.unwrap_or(if self.paper { paper } else { small })
    }

    fn writes(&self) -> u64 {
        self.of_size(self.writes, 10_000_000, 300_000)
    }

    fn pairs(&self) -> Vec<u64> {
        let given = (!self.pairs.is_empty()).then(|| self.pairs.clone());
        self.of_size(given, vec![1_000_000, 10_000_000], vec![1_000_000])
    }

    fn group_size(&self) -> u64 {
        self.of_size(self.group_size, 10_000_000_000, 200_000_000)
    }

    fn repair_size(&self) -> u64 {
        self.of_size(self.repair_size, 10_000_000_000, 200_000_000)
    }

    fn repair_groups(&self) -> u64 {
        self.of_size(self.repair_groups, 256, 16)
    }

    fn has(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    fn check(&self) -> Outcome<()> {
        if self.has(Part::Latency) && self.groups < self.threads {
            return Err(
                "--groups: each thread needs a group of its own, so not fewer than --threads"
                    .into(),
            );
        }
        Ok(())
    }
}

/// What was found, as it stands in `phoenix.json`.
#[derive(Debug, Default, Serialize)]
struct Found {
    machine: Machine,
    latency: Vec<latency::Run>,
    tables: Vec<tables::Filled>,
    deletions: Vec<deletion::Deletion>,
    repairs: Vec<repair::Repair>,
}

/// Does all of it. Ends early if `stop` is set; what was measured before is kept.
///
/// # Errors
/// Of a store, or of the file system.
pub fn run(choice: &Choice, stop: &AtomicBool, progress: &mut Progress) -> Outcome<()> {
    choice.check()?;
    make_dir(&choice.out)?;
    let place = Place::new("phoenix", choice.db.as_deref());
    let found = Found { machine: Machine::this(), ..Found::default() };
    let mut lab = Lab { choice, stop, progress, place: &place, found };
    let parts: [(Part, Work); 4] = [
        (Part::Latency, |lab| lab.latency()),
        (Part::Tables, |lab| lab.tables()),
        (Part::Deletion, |lab| lab.deletion()),
        (Part::Repair, |lab| lab.repair()),
    ];
    for (part, work) in parts {
        if choice.has(part) && !stop.load(Ordering::Relaxed) {
            work(&mut lab)?;
        }
    }
    Ok(())
}

/// Does a part.
type Work = fn(&mut Lab<'_>) -> Outcome<()>;

struct Lab<'a> {
    choice: &'a Choice,
    stop: &'a AtomicBool,
    progress: &'a mut Progress,
    place: &'a Place,
    found: Found,
}

impl Lab<'_> {
    /// Writes what is known so far.
    fn keep(&self) -> Outcome<()> {
        let Found { latency, tables, deletions, repairs, .. } = &self.found;
        self.write("phoenix.md", &page(self.choice, &self.found))?;
        self.write("phoenix.json", &serde_json::to_string_pretty(&self.found)?)?;
        if !latency.is_empty() {
            self.write("latency.svg", &latency::drawing(latency)?)?;
        }
        if !tables.is_empty() {
            self.write("tables.svg", &tables::drawing(tables)?)?;
        }
        if !deletions.is_empty() {
            self.write("deletion.svg", &deletion::drawing(deletions)?)?;
        }
        if !repairs.is_empty() {
            self.write("repair.svg", &repair::drawing(repairs)?)?;
        }
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> Outcome<()> {
        place::write(&self.choice.out.join(name), text)
    }
}

/// The tables of all parts that were measured.
fn page(choice: &Choice, found: &Found) -> String {
    let mut text = format!("{}\n\n", found.machine);
    if !found.latency.is_empty() {
        text.push_str(&latency::page(choice, &found.latency));
    }
    if !found.tables.is_empty() {
        text.push_str(&tables::page(choice.groups, &found.tables));
    }
    if !found.deletions.is_empty() {
        text.push_str(&deletion::page(choice, &found.deletions));
    }
    if !found.repairs.is_empty() {
        text.push_str(&repair::page(choice, &found.repairs));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        choice: Choice,
    }

    fn chosen(flags: &[&str]) -> Choice {
        let flags = [&["phoenix", "--out", "out"][..], flags].concat();
        Arguments::try_parse_from(flags).expect("flags").choice
    }

    /// What is done without flags.
    pub(super) fn choice() -> Choice {
        chosen(&[])
    }

    #[test]
    fn sizes_are_small_or_the_papers_or_those_that_are_given() {
        let sizes = |choice: &Choice| {
            (choice.writes(), choice.pairs(), choice.group_size(), choice.repair_groups())
        };
        assert_eq!(sizes(&choice()), (300_000, vec![1_000_000], 200_000_000, 16));
        let paper = sizes(&chosen(&["--paper"]));
        assert_eq!(paper, (10_000_000, vec![1_000_000, 10_000_000], 10_000_000_000, 256));
        let given = ["--paper", "--pairs", "100000000", "--writes", "7", "--group-size", "1GB"];
        assert_eq!(sizes(&chosen(&given)), (7, vec![100_000_000], 1_000_000_000, 256));
    }

    #[test]
    fn a_thread_without_a_group_is_refused() {
        let refused = chosen(&["--groups", "8"]).check().expect_err("16 threads");
        assert!(refused.to_string().contains("--groups"), "{refused}");
        chosen(&["--groups", "8", "--threads", "8"]).check().expect("a group each");
        chosen(&["--groups", "8", "--parts", "tables,repair"]).check().expect("no threads");
    }

    #[test]
    fn only_what_was_measured_is_told() {
        let mut found = Found::default();
        let headings = |found: &Found| page(&choice(), found).matches("\n## ").count();
        assert_eq!(headings(&found), 0);
        found.latency = vec![latency::tests::run(latency::Arm::Applied, 1.0)];
        found.tables = vec![tables::tests::filled(1, true)];
        assert_eq!(headings(&found), 2);
        found.deletions = vec![deletion::tests::deletion(1)];
        found.repairs = repair::tests::repairs();
        assert_eq!(headings(&found), 4);
        let text = serde_json::to_string(&found).expect("JSON");
        for name in ["\"applied\"", "took_ns", "live_bytes", "\"range-applied\""] {
            assert!(text.contains(name), "{name} in {text}");
        }
    }
}

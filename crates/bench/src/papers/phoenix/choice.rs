//! What is to be done, and at which sizes.

use super::groups::{GROUPS_MAX, PAIR_BYTES};
use crate::papers::basics::amount;
use esker_draw::Outcome;
use std::path::PathBuf;

/// What is to be done.
#[derive(Clone, Debug, clap::Args)]
pub struct Choice {
    /// Parts; all if not given
    #[arg(long, value_delimiter = ',')]
    parts: Vec<Part>,
    /// The paper's sizes where none are given: 10 million writes, 1 and 10 million pairs, and 10 GB
    /// where groups are deleted or repaired. Takes about an hour and 15 GB of disk
    #[arg(long)]
    paper: bool,
    /// Writes of each arm; 200 thousand if not given
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    writes: Option<u64>,
    /// Threads that write
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(super) threads: u64,
    /// Groups, but for repairs
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(2..=GROUPS_MAX))]
    pub(super) groups: u64,
    /// Pairs of the stores whose tables are counted; 1000000 if not given
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pairs: Vec<u64>,
    /// Bytes of the store of which one group is deleted, before compression; 500MB if not given
    #[arg(long = "store_size", alias = "store-size", value_parser = amount, value_name = "BYTES")]
    store_size: Option<u64>,
    /// Groups deleted of that store, one after the other
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..GROUPS_MAX))]
    pub(super) deletions: u64,
    /// Reads, and writes, a second while a group is deleted
    #[arg(long, default_value_t = 4_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(super) rate: u64,
    /// Seconds of these before and after
    #[arg(long, default_value = "3", value_parser = seconds, value_name = "SECONDS")]
    pub(super) seconds: f64,
    /// Bytes of the store that is repaired, before compression; 200MB if not given
    #[arg(long = "repair_size", alias = "repair-size", value_parser = amount, value_name = "BYTES")]
    repair_size: Option<u64>,
    /// Its groups; 16 if not given, or 256 with --paper
    #[arg(long = "repair_groups", alias = "repair-groups", value_parser = clap::value_parser!(u64).range(1..=GROUPS_MAX))]
    repair_groups: Option<u64>,
    /// Measure so often; tables show medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) repeat: u32,
    /// Where the stores go, one after the other. A temporary directory if not given
    #[arg(long, value_name = "DIR")]
    pub(super) db: Option<PathBuf>,
    /// Where tables, drawings and all figures go
    #[arg(long, value_name = "DIR")]
    pub(super) out: PathBuf,
}

/// A part of the experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Part {
    /// Latency of writes
    Latency,
    /// Counts of tables
    Tables,
    /// Deletion of a group
    Deletion,
    /// Full repair
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

    pub(super) fn writes(&self) -> u64 {
        self.of_size(self.writes, 10_000_000, 200_000)
    }

    pub(super) fn pairs(&self) -> Vec<u64> {
        let given = (!self.pairs.is_empty()).then(|| self.pairs.clone());
        self.of_size(given, vec![1_000_000, 10_000_000], vec![1_000_000])
    }

    fn store_size(&self) -> u64 {
        self.of_size(self.store_size, 10_000_000_000, 500_000_000)
    }

    /// The groups that are deleted stand in the midst of the others, at equal distances.
    pub(super) fn victims(&self) -> Vec<u64> {
        let at = |number| (2 * number + 1) * self.groups / (2 * self.deletions);
        (0..self.deletions).map(at).collect()
    }

    /// Its pairs, which are as many as those of any other.
    pub(super) fn pairs_of_group(&self) -> u64 {
        (self.store_size() / self.groups / PAIR_BYTES).max(1)
    }

    pub(super) fn repair_size(&self) -> u64 {
        self.of_size(self.repair_size, 10_000_000_000, 200_000_000)
    }

    pub(super) fn repair_groups(&self) -> u64 {
        self.of_size(self.repair_groups, 256, 16)
    }

    pub(super) fn has(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    pub(super) fn check(&self) -> Outcome<()> {
        if self.has(Part::Latency) && self.groups < self.threads {
            return Err(
                "--groups: each thread needs a group of its own, so not fewer than --threads"
                    .into(),
            );
        }
        if self.has(Part::Deletion) && self.groups <= self.deletions {
            return Err("--deletions: others must stay, so fewer than --groups".into());
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
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
    pub(in super::super) fn choice() -> Choice {
        chosen(&[])
    }

    #[test]
    fn sizes_are_small_or_the_papers_or_those_that_are_given() {
        let sizes = |choice: &Choice| {
            (choice.writes(), choice.pairs(), choice.store_size(), choice.repair_groups())
        };
        assert_eq!(sizes(&choice()), (200_000, vec![1_000_000], 500_000_000, 16));
        let paper = sizes(&chosen(&["--paper"]));
        assert_eq!(paper, (10_000_000, vec![1_000_000, 10_000_000], 10_000_000_000, 256));
        let given = ["--paper", "--pairs", "100000000", "--writes", "7", "--store-size", "1GB"];
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
    fn groups_that_are_deleted_are_different_ones_and_some_stay() {
        assert_eq!(choice().victims(), [128]);
        assert_eq!(chosen(&["--deletions", "4"]).victims(), [32, 96, 160, 224]);
        let most = chosen(&["--groups", "16", "--deletions", "15"]);
        most.check().expect("one stays");
        let victims: std::collections::BTreeSet<u64> = most.victims().into_iter().collect();
        assert!(victims.len() == 15 && victims.iter().all(|&victim| victim < 16), "{victims:?}");
        let refused =
            chosen(&["--groups", "16", "--deletions", "16"]).check().expect_err("none stays");
        assert!(refused.to_string().contains("--deletions"), "{refused}");
    }
}

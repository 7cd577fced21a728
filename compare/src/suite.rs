//! Suites: the runs that the page of benchmarks shows, each chapter with its engines and flags.

use crate::turns::{self, Show, run_in_turns};
use clap::{Parser, ValueEnum};
use esker_bench::config::Config;
use esker_bench::report::Report;
use esker_bench::{Outcome, markdown, plot};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// One run of a suite.
struct Chapter {
    name: &'static str,
    about: &'static str,
    engines: &'static str,
    flags: &'static str,
}

/// Chapters that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// Small and large records, one thread and sixteen, synced and not
    Basic,
    /// YCSB load and A to F, on a million records of 1 kB and on ten million
    Ycsb,
    /// Puts and gets at 1, 10 and 50 million records; drawn against each other
    Growth,
    /// What the paper on LooseKV measured: tiers, with and without a run index, beside LevelDB
    Loose,
    /// Values of 512 bytes to 64 KiB, kept in the tree and apart from it
    Values,
}

const LSM_TREES: &str = "esker,rocksdb,leveldb,fjall";
const MANY_WRITERS: &str = "esker,rocksdb,rocksdb+pipeline,leveldb,fjall";
const WITH_LMDB: &str = "esker,rocksdb,leveldb,fjall,lmdb";
const WITH_B_TREES: &str = "esker,rocksdb,leveldb,fjall,lmdb,redb";

const BASIC: &[Chapter] = &[
    Chapter {
        name: "small",
        about: "3 million records, keys of 16 and values of 100 bytes, one thread",
        engines: WITH_B_TREES,
        flags: "--num 3000000 --reads 1000000 --duration_min 5 --benchmarks \
                fillrandom,reopen,readrandom,readrandom,multireadrandom,readmissing,readseq,seekrandom",
    },
    Chapter {
        name: "present",
        about: "the same, each key put once, so that every get finds its key",
        engines: WITH_B_TREES,
        flags: "--num 3000000 --reads 1000000 --duration_min 5 --benchmarks \
                filluniquerandom,reopen,readrandom,readrandom,multireadrandom",
    },
    Chapter {
        name: "one-processor",
        about: "the same on one processor",
        engines: WITH_LMDB,
        flags: "--num 3000000 --reads 1000000 --duration_min 5 --processors 1 --benchmarks \
                filluniquerandom,readrandom,readmissing,readseq,seekrandom",
    },
    Chapter {
        name: "large",
        about: "1.5 million records, keys of 24 and values of 1 000 bytes, one thread",
        engines: "esker,rocksdb,rocksdb+blobs,leveldb,fjall,fjall+separation",
        flags: "--num 1500000 --reads 500000 --key_size 24 --value_size 1000 --warmup 10 --duration_min 5 \
                --benchmarks fillrandom,overwrite,readrandom",
    },
    Chapter {
        name: "threads",
        about: "a million records, keys and values of 128 bytes, 16 threads, half of the operations gets",
        engines: MANY_WRITERS,
        flags: "--num 1000000 --reads 20000000 --duration 20 --threads 16 --key_size 128 --value_size 128 --readwritepercent 50 \
                --benchmarks fillrandom,readrandomwriterandom",
    },
    Chapter {
        name: "paced",
        about: "the same threads at 50 000 operations a second, which all can do",
        engines: MANY_WRITERS,
        flags: "--num 1000000 --threads 16 --key_size 128 --value_size 128 --readwritepercent 50 \
                --rate 50000 --benchmarks fillrandom,readrandomwriterandom",
    },
    Chapter {
        name: "sync",
        about: "each put on disk before the next, one thread",
        engines: LSM_TREES,
        flags: "--num 1000000 --duration 10 --benchmarks fillsync",
    },
    Chapter {
        name: "sync-threads",
        about: "each put on disk before the next of its thread, 16 threads",
        engines: MANY_WRITERS,
        flags: "--num 10000000 --duration 10 --threads 16 --benchmarks fillsync",
    },
];

const YCSB: &[Chapter] = &[
    Chapter {
        name: "ycsb-1m",
        about: "YCSB, a million records of 1 kB",
        engines: WITH_LMDB,
        flags: "--num 1000000 --reads 3000000 --key_size 24 --value_size 1000 --duration 20 \
                --benchmarks ycsb-load,ycsb-a,ycsb-b,ycsb-c,ycsb-d,ycsb-e,ycsb-f",
    },
    Chapter {
        name: "ycsb-10m",
        about: "YCSB, ten million records of 1 kB",
        engines: WITH_LMDB,
        flags: "--num 10000000 --reads 2000000 --key_size 24 --value_size 1000 --duration 30 \
                --benchmarks ycsb-load,ycsb-a,ycsb-b,ycsb-c,ycsb-d,ycsb-e,ycsb-f",
    },
];

const GROWTH: &[Chapter] = &[
    Chapter {
        name: "growth-1m",
        about: "a million records, keys of 16 and values of 100 bytes",
        engines: WITH_LMDB,
        flags: "--num 1000000 --reads 1000000 --benchmarks fillrandom,reopen,readrandom",
    },
    Chapter {
        name: "growth-10m",
        about: "ten million of them",
        engines: WITH_LMDB,
        flags: "--num 10000000 --reads 1000000 --benchmarks fillrandom,reopen,readrandom",
    },
    Chapter {
        name: "growth-50m",
        about: "fifty million of them",
        engines: WITH_LMDB,
        flags: "--num 50000000 --reads 1000000 --benchmarks fillrandom,reopen,readrandom",
    },
];

const TIERS: &str = "esker+tiered,esker+index:16,leveldb";

const LOOSE: &[Chapter] = &[
    Chapter {
        name: "loose-256",
        about: "4 million records, keys of 16 and values of 256 bytes",
        engines: TIERS,
        flags: "--num 4000000 --reads 1000000 --duration_min 5 --value_size 256 --benchmarks fillrandom,readrandom,readseq",
    },
    Chapter {
        name: "loose-512",
        about: "values of 512 bytes",
        engines: TIERS,
        flags: "--num 4000000 --reads 1000000 --duration_min 5 --value_size 512 --benchmarks fillrandom,readrandom,readseq",
    },
    Chapter {
        name: "loose-1024",
        about: "values of 1 024 bytes",
        engines: TIERS,
        flags: "--num 4000000 --reads 1000000 --duration_min 5 --value_size 1024 --benchmarks fillrandom,readrandom,readseq",
    },
    Chapter {
        name: "loose-2048",
        about: "values of 2 048 bytes",
        engines: TIERS,
        flags: "--num 4000000 --reads 1000000 --duration_min 5 --value_size 2048 --benchmarks fillrandom,readrandom,readseq",
    },
    Chapter {
        name: "loose-ycsb",
        about: "YCSB, 4 million records of 1 024 bytes",
        engines: TIERS,
        flags: "--num 4000000 --reads 500000 --value_size 1024 --duration 30 \
                --benchmarks ycsb-load,ycsb-a,ycsb-b,ycsb-c,ycsb-d,ycsb-e,ycsb-f",
    },
];

const SEPARATING: &str = "esker,esker+values,rocksdb,rocksdb+blobs,leveldb,fjall,fjall+separation";

const VALUES: &[Chapter] = &[
    Chapter {
        name: "values-5000",
        about: "a million records, keys of 16 and values of 5 000 bytes",
        engines: SEPARATING,
        flags: "--num 1000000 --reads 300000 --duration_min 5 --value_size 5000 --benchmarks \
                fillseq,fillrandom,readrandom,readseq,readunordered,overwrite,compact",
    },
    Chapter {
        name: "values-512",
        about: "3 million records, values of 512 bytes",
        engines: SEPARATING,
        flags: "--num 3000000 --reads 500000 --duration_min 5 --value_size 512 --benchmarks \
                fillrandom,readrandom,readseq,readunordered,overwrite,compact",
    },
    Chapter {
        name: "values-1024",
        about: "2 million records, values of 1 KiB",
        engines: SEPARATING,
        flags: "--num 2000000 --reads 500000 --duration_min 5 --value_size 1024 --benchmarks \
                fillrandom,readrandom,readseq,readunordered,overwrite,compact",
    },
    Chapter {
        name: "values-16384",
        about: "300 thousand records, values of 16 KiB",
        engines: SEPARATING,
        flags: "--num 300000 --reads 100000 --duration_min 5 --value_size 16384 --benchmarks \
                fillrandom,readrandom,readseq,readunordered,overwrite,compact",
    },
    Chapter {
        name: "values-65536",
        about: "80 thousand records, values of 64 KiB",
        engines: SEPARATING,
        flags: "--num 80000 --reads 50000 --duration_min 5 --value_size 65536 --benchmarks \
                fillrandom,readrandom,readseq,readunordered,overwrite,compact",
    },
];

/// What is to be run of a suite.
#[derive(Clone, Debug, clap::Args)]
pub struct Choice {
    /// Which
    suite: Suite,
    /// Keep results, drawings and tables here. Chapters that are there already are not run again
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Only these chapters
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    chapters: Vec<String>,
    /// Only these engines
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    engines: Vec<String>,
    /// Do everything so often; tables show medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// A fiftieth of the records and operations: to see whether it works
    #[arg(long)]
    quick: bool,
}

/// Flags as on the command line.
#[derive(Debug, Parser)]
struct Flags {
    #[command(flatten)]
    config: Config,
}

impl Suite {
    fn chapters(self) -> &'static [Chapter] {
        match self {
            Suite::Basic => BASIC,
            Suite::Ycsb => YCSB,
            Suite::Growth => GROWTH,
            Suite::Loose => LOOSE,
            Suite::Values => VALUES,
        }
    }
}

impl Chapter {
    fn engines(&self, choice: &Choice) -> Vec<String> {
        let chosen = |name: &String| choice.engines.is_empty() || choice.engines.contains(name);
        self.engines.split(',').map(str::to_owned).filter(chosen).collect()
    }

    fn config(&self, choice: &Choice) -> Outcome<Config> {
        let words = ["esker-compare"].into_iter().chain(self.flags.split_whitespace());
        let mut config = Flags::try_parse_from(words)?.config;
        config.repeat = choice.repeat;
        if choice.quick {
            const SHARE: u64 = 50;
            config.num /= SHARE;
            config.reads = config.reads.map(|reads| reads / SHARE);
            config.duration = config.duration.map(|seconds| seconds / SHARE as f64);
            config.warmup /= SHARE as f64;
            config.duration_min /= SHARE as f64;
        }
        Ok(config)
    }
}

/// Runs the chapters of a suite. Returns false if it was interrupted.
///
/// # Errors
/// Of an engine or the file system; chapters that were finished are kept.
pub fn run(choice: &Choice, show: &Show) -> Outcome<bool> {
    let all = choice.suite.chapters();
    for name in &choice.chapters {
        if !all.iter().any(|chapter| chapter.name == name) {
            let names: Vec<_> = all.iter().map(|chapter| chapter.name).collect();
            let names = names.join(", ");
            return Err(format!("no chapter is called {name:?}; there are {names}").into());
        }
    }
    let shown = choice.out.display();
    fs::create_dir_all(&choice.out).map_err(|error| format!("{shown}: {error}"))?;
    let chosen = |chapter: &&Chapter| {
        choice.chapters.is_empty() || choice.chapters.iter().any(|name| name == chapter.name)
    };
    for name in &choice.engines {
        turns::engine(name)?;
    }
    let (mut page, mut reports) = (String::new(), Vec::new());
    for chapter in all.iter().filter(chosen) {
        let path = choice.out.join(format!("{}.json", chapter.name));
        let (names, config) = (chapter.engines(choice), chapter.config(choice)?);
        if path.exists() {
            show.progress.tell(&format!("{} is there already", path.display()));
        } else if names.is_empty() {
            show.progress.tell(&format!("{} has none of these engines", chapter.name));
            continue;
        } else {
            show.progress.tell(&format!("{}: {}", chapter.name, chapter.about));
            // Half a chapter must not be taken for a whole one.
            let begun = path.with_extension("json.part");
            run_in_turns(&names, &config, Some(&begun), show)?;
            if show.is_interrupted() {
                return Ok(false);
            }
            fs::rename(&begun, &path)?;
        }
        let report = Report::read(&path)?;
        if !is_of(&report, &config)? {
            let shown = path.display();
            return Err(format!(
                "{shown} was measured with other flags, perhaps with --quick: remove it, or name another --out"
            )
            .into());
        }
        plot::draw_all(std::slice::from_ref(&report), &choice.out.join(chapter.name))?;
        let _ = write!(page, "## {}\n\n", chapter.about);
        let names = report.engines.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>();
        let (names, repeat) = (names.join(","), report.config.repeat);
        let command = format!("esker-compare run --engines {names} --repeat {repeat}");
        let _ = write!(page, "`{command} {}`\n\n{}\n", chapter.flags, markdown::results(&report));
        fs::write(choice.out.join("tables.md"), &page)?;
        reports.push(report);
    }
    if choice.suite == Suite::Growth && reports.len() > 1 {
        plot::draw_all(&reports, &choice.out.join("growth"))?;
    }
    Ok(true)
}

/// Whether a report is of a run with these flags; how often it was done does not matter, and the
/// page says it.
fn is_of(report: &Report, config: &Config) -> Outcome<bool> {
    let flags = |config: &Config| -> Outcome<serde_json::Value> {
        let once = Config { repeat: 1, ..config.clone() };
        // By the same way as what was kept.
        Ok(serde_json::from_str(&serde_json::to_string(&once)?)?)
    };
    Ok(flags(&report.config)? == flags(config)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_is_not_taken_for_a_whole_one() {
        let chapter = &BASIC[0];
        let choice = |quick, repeat| Choice {
            suite: Suite::Basic,
            out: PathBuf::new(),
            chapters: Vec::new(),
            engines: Vec::new(),
            repeat,
            quick,
        };
        let config = |quick, repeat| chapter.config(&choice(quick, repeat)).expect("flags");
        let kept = Report::new(&config(true, 3));
        assert!(!is_of(&kept, &config(false, 3)).expect("comparable"));
        assert!(is_of(&kept, &config(true, 1)).expect("comparable"));
    }

    #[test]
    fn chapters_without_a_chosen_engine_are_left_out() {
        let choice = Choice {
            suite: Suite::Basic,
            out: PathBuf::new(),
            chapters: Vec::new(),
            engines: vec!["redb".to_owned()],
            repeat: 1,
            quick: true,
        };
        let with: Vec<&str> = BASIC
            .iter()
            .filter(|chapter| !chapter.engines(&choice).is_empty())
            .map(|chapter| chapter.name)
            .collect();
        assert_eq!(with, ["small", "present"]);
    }

    #[test]
    fn every_chapter_can_be_run() {
        for suite in Suite::value_variants() {
            let name = suite.to_possible_value().map(|value| value.get_name().to_owned());
            for chapter in suite.chapters() {
                let choice = Choice {
                    suite: *suite,
                    out: PathBuf::new(),
                    chapters: Vec::new(),
                    engines: Vec::new(),
                    repeat: 1,
                    quick: true,
                };
                let config = chapter.config(&choice).expect("flags");
                config.check().expect("flags that make sense");
                esker_bench::session::steps(&config).expect("workloads");
                for engine in chapter.engines(&choice) {
                    crate::turns::engine(&engine)
                        .unwrap_or_else(|error| panic!("{name:?}: {error}"));
                }
            }
        }
    }
}

//! How long puts wait below and above the rate that a store keeps up, with default options on the
//! real file system.
//!
//! That rate is the one of puts without pause, once compaction is what holds them back. A run at it
//! or below begins on a store that has no work left; one above it on a store that was flooded right
//! before, since an idle one has room for so much that a short run would not fill it.

use crate::config::Config;
use crate::drive::{self, Plan};
use crate::esker_store::DefaultEsker;
use crate::keys::Known;
use crate::place::{Place, make_dir, write};
use crate::plot;
use crate::progress::Progress;
use crate::report::Report;
use crate::result::{Measured, ROUND_SECONDS, Round};
use crate::store::{Engine, Store};
use crate::table;
use crate::workload;
use esker_draw::units::{duration, rate};
use esker_draw::{Line, Outcome, Palette, RATES, chart};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// What is to be measured.
#[derive(Clone, Debug, clap::Args)]
pub struct Choice {
    /// Keys, all of which are there from the beginning
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    num: u64,
    /// Bytes of a value
    #[arg(long = "value_size", alias = "value-size", default_value_t = 100)]
    value_size: usize,
    /// Seconds of puts without pause; the second half says what rate is sustained
    #[arg(long, default_value = "60", value_parser = seconds, value_name = "SECONDS")]
    probe: f64,
    /// Share of that rate in the long run
    #[arg(long, default_value = "0.5", value_parser = share)]
    share: f64,
    /// Seconds of the long run
    #[arg(long, default_value = "600", value_parser = seconds, value_name = "SECONDS")]
    duration: f64,
    /// Shares of that rate in the short runs
    #[arg(long, value_delimiter = ',', default_value = "0.25,0.5,0.75,1,1.25,1.5,2", value_parser = share)]
    shares: Vec<f64>,
    /// Seconds of each short run
    #[arg(long, default_value = "60", value_parser = seconds, value_name = "SECONDS")]
    step: f64,
    /// Where the store goes. A temporary directory if not given
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Where the table, drawings and the report go
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Puts without pause before a run above the sustained rate, as a share of the run's time.
const FLOOD: f64 = 0.5;

/// The longest that a put may wait at half of the sustained rate.
const LONGEST_GOAL_MS: u64 = 10;

fn number(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("must be between {least} and {most}"))
}

fn seconds(text: &str) -> Result<f64, String> {
    number(text, 0.3, 86_400.0)
}

fn share(text: &str) -> Result<f64, String> {
    number(text, 0.01, 100.0)
}

/// Puts at a share of the sustained rate.
struct Paced {
    share: f64,
    /// Puts a second.
    offered: f64,
    run: Measured,
}

/// Measures everything. Ends early if `stop` is set; what was measured before is kept.
///
/// # Errors
/// Of the engine or the file system.
pub fn run(choice: &Choice, stop: &AtomicBool, progress: &mut Progress) -> Outcome<()> {
    make_dir(&choice.out)?;
    let (num, value_size) = (choice.num.to_string(), choice.value_size.to_string());
    let mut config = Config::of(&["--num", &num, "--value_size", &value_size])?;
    config.benchmarks.clear();
    let mut report = Report::new(&config);
    let engine = DefaultEsker;
    report.engines.push((engine.name(), engine.setup(&config.settings(false))));
    let place = Place::new("stalls", choice.db.as_deref());
    place.within("store", |dir| {
        make_dir(dir)?;
        let store = engine.open(dir, &config.settings(false))?;
        let known = Known::new(choice.num);
        let at = At { store: &*store, dir, config: &config, known: &known };
        Lab { choice, at, stop, progress, report, long: None, short: Vec::new() }.run()?;
        store.close()
    })
}

/// The store that is measured.
#[derive(Clone, Copy)]
struct At<'a> {
    store: &'a dyn Store,
    dir: &'a Path,
    config: &'a Config,
    known: &'a Known,
}

struct Lab<'a> {
    choice: &'a Choice,
    at: At<'a>,
    stop: &'a AtomicBool,
    progress: &'a mut Progress,
    report: Report,
    long: Option<Paced>,
    short: Vec<Paced>,
}

impl Lab<'_> {
    fn run(mut self) -> Outcome<()> {
        if self.puts("filluniquerandom", "filluniquerandom", None, None)?.is_none() {
            return Ok(());
        }
        let Some(probe) = self.puts("probe", "overwrite", None, Some(self.choice.probe))? else {
            return Ok(());
        };
        let sustained = sustained(&probe);
        if sustained < 1.0 {
            return Err("--probe: not one put a second was sustained; try longer".into());
        }
        self.progress.tell(&format!("sustained: {} puts a second", rate(sustained)));
        let Choice { share, duration, step, .. } = *self.choice;
        let Some(long) = self.paced("long", share, sustained, duration)? else { return Ok(()) };
        self.long = Some(long);
        self.keep(sustained)?;
        for &share in &self.choice.shares {
            let Some(paced) = self.paced("at", share, sustained, step)? else { return Ok(()) };
            self.short.push(paced);
            self.keep(sustained)?;
        }
        Ok(())
    }

    /// Puts at a share of the sustained rate; `None` if they were interrupted.
    fn paced(
        &mut self,
        label: &str,
        share: f64,
        sustained: f64,
        seconds: f64,
    ) -> Outcome<Option<Paced>> {
        if share > 1.0 {
            let flood = Some(FLOOD * seconds);
            if self.puts(&format!("flood-{share}"), "overwrite", None, flood)?.is_none() {
                return Ok(None);
            }
        } else {
            self.at.store.settle()?;
        }
        let offered = share * sustained;
        let label = format!("{label}-{share}");
        let run = self.puts(&label, "overwrite", Some(offered), Some(seconds))?;
        Ok(run.map(|run| Paced { share, offered, run }))
    }

    /// Puts of a workload, at a rate if there is one, until their end or for so many seconds;
    /// `None` if they were interrupted.
    fn puts(
        &mut self,
        label: &str,
        workload: &str,
        rate: Option<f64>,
        seconds: Option<f64>,
    ) -> Outcome<Option<Measured>> {
        let At { store, dir, config, known } = self.at;
        let workload = workload::find(workload)?;
        let plan = config.plan(workload, self.report.runs.len())?;
        let operations = match (rate, seconds) {
            (Some(rate), Some(seconds)) => (rate * seconds).ceil() as u64,
            (None, Some(_)) => u64::MAX,
            (_, None) => plan.operations,
        };
        // What comes next is to find the store at work.
        let plan = Plan { operations, seconds_max: seconds, rate, settle: false, ..plan };
        let engine = DefaultEsker.name();
        let of = (engine.as_str(), store);
        let run = drive::run(of, dir, workload, &plan, known, self.stop, self.progress)?;
        if self.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let run = Measured { workload: label.to_owned(), ..run };
        self.progress.tell(&table::line(&run));
        self.report.config.benchmarks.push(label.to_owned());
        self.report.runs.push(run.clone());
        Ok(Some(run))
    }

    /// Writes what is known so far.
    fn keep(&self, sustained: f64) -> Outcome<()> {
        let mut text = head(&self.report, sustained);
        let write = |name: &str, text: &str| write(&self.choice.out.join(name), text);
        if let Some(long) = &self.long {
            let _ = write!(
                text,
                "\n{} s at {} of it; goal at a half: the longest put at most {LONGEST_GOAL_MS} ms\n\n{}",
                self.choice.duration,
                long.share,
                rows(std::slice::from_ref(long))
            );
            write("longest.svg", &longest(long)?)?;
        }
        if let Some(highest) = self.short.iter().max_by(|a, b| a.share.total_cmp(&b.share)) {
            let _ = write!(text, "\n{} s each\n\n{}", self.choice.step, rows(&self.short));
            write("achieved.svg", &achieved(&self.short)?)?;
            write("pace.svg", &pace(highest, sustained)?)?;
        }
        write("stalls.md", &text)?;
        self.report.write(&self.choice.out.join("stalls.json"))
    }
}

/// Puts a second in the second half of a run, by those of its rounds.
fn sustained(run: &Measured) -> f64 {
    let late = run.pace.len().saturating_sub(1) / 2;
    let sum =
        |(puts, seconds), (round, n): (Round, u64)| (puts + n as f64, seconds + round.seconds);
    let (puts, seconds) = run.whole_rounds().skip(late).fold((0.0, 0.0), sum);
    if seconds > 0.0 { puts / seconds } else { 0.0 }
}

/// The fewest puts in a tenth of a second; in one that took longer, as many as its share of them.
fn fewest(run: &Measured) -> f64 {
    let puts = run.whole_rounds().map(|(round, n)| n as f64 * (ROUND_SECONDS / round.seconds));
    puts.min_by(f64::total_cmp).unwrap_or(0.0)
}

fn head(report: &Report, sustained: f64) -> String {
    let mut text = format!("{}\n\n", report.machine);
    for (_, setup) in &report.engines {
        let config = &report.config;
        let _ = writeln!(
            text,
            "Esker {setup}. {} keys of {} and values of {} bytes, put at random by one thread. Sustained: {} puts a second.\n",
            config.num,
            config.key_size,
            config.value_size,
            rate(sustained)
        );
    }
    text.push_str(
        "Times up to \"longest\" are from when a put was due: above the sustained rate they grow for as long as a run \
         lasts. \"Longest itself\" is what a put took once it was begun.\n",
    );
    text
}

fn rows(all: &[Paced]) -> String {
    let columns = "share | offered a second | achieved | fewest in a tenth of a second | p50 | p99 | p99.9 | longest | \
                   longest itself | held back in all";
    let columns_count = columns.matches('|').count() + 1;
    let mut text = format!("| {columns} |\n|{}\n", "---|".repeat(columns_count));
    for Paced { share, offered, run } in all {
        let puts = &run.writes;
        let _ = writeln!(
            text,
            "| {share} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            rate(*offered),
            rate(run.rate()),
            rate(fewest(run)),
            duration(puts.p50 as f64),
            duration(puts.p99 as f64),
            duration(puts.p999 as f64),
            duration(puts.max as f64),
            duration(run.slowest_ns_max() as f64),
            run.stalled_ns.map(|ns| duration(ns as f64)).unwrap_or_default(),
        );
    }
    text
}

/// Achieved against offered rates.
fn achieved(all: &[Paced]) -> Outcome<String> {
    let mut points: Vec<(f64, f64)> =
        all.iter().map(|paced| (paced.offered, paced.run.rate())).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let offered = points.iter().map(|point| (point.0, point.0)).collect();
    let lines = [("offered".to_owned(), offered), ("achieved".to_owned(), points)];
    draw("Puts a second: achieved against offered", &lines)
}

/// Puts a second over time.
fn pace(paced: &Paced, sustained: f64) -> Outcome<String> {
    let points = plot::pace(&paced.run);
    let level = |rate: f64| -> Vec<(f64, f64)> {
        let ends = [points.first(), points.last()].into_iter().flatten();
        ends.map(|point| (point.0, rate)).collect()
    };
    let (offered, sustained) = (level(paced.offered), level(sustained));
    let lines = [
        ("achieved".to_owned(), points),
        ("offered".to_owned(), offered),
        ("sustained".to_owned(), sustained),
    ];
    let heading = format!("Puts a second, over seconds, at {} of the sustained rate", paced.share);
    draw(&heading, &lines)
}

/// The longest put in each tenth of a second.
fn longest(paced: &Paced) -> Outcome<String> {
    let heading = format!(
        "Longest put in each tenth of a second, over seconds, at {} of the sustained rate",
        paced.share
    );
    let lines = [("longest itself".to_owned(), plot::slowest(&paced.run))];
    plot::logarithms(&heading, &lines, &palette(&lines), &RATES)
}

fn draw(heading: &str, lines: &[Line]) -> Outcome<String> {
    chart(heading, lines, &palette(lines), &RATES)
}

fn palette(lines: &[Line]) -> Palette {
    Palette::of(lines.iter().map(|(name, _)| name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::measured;

    fn paced(share: f64, pace: &[u64], slowest_ns: &[u64]) -> Paced {
        let (pace, slowest_ns) = (pace.to_vec(), slowest_ns.to_vec());
        let run = Measured { pace, slowest_ns, ..measured("at") };
        Paced { share, offered: share * 1_000.0, run }
    }

    #[test]
    fn the_second_half_is_what_is_sustained() {
        let of = |pace: &[u64]| sustained(&paced(1.0, pace, &[]).run).round();
        assert_eq!(of(&[900, 900, 100, 120, 7]), 1_100.0);
        assert_eq!(of(&[900, 100, 5]), 1_000.0);
        assert_eq!(of(&[9]), 0.0, "only a round that is cut short");
        assert_eq!(of(&[]), 0.0);
    }

    #[test]
    fn the_fewest_are_of_whole_rounds() {
        assert_eq!(fewest(&paced(1.0, &[30, 20, 40, 3], &[]).run), 20.0);
        assert_eq!(fewest(&paced(1.0, &[30, 0, 40, 3], &[]).run), 0.0, "it stood still");
        assert_eq!(fewest(&paced(1.0, &[], &[]).run), 0.0);
    }

    #[test]
    fn rounds_that_took_longer_sustain_no_more() {
        let mut run = paced(1.0, &[900, 50, 100, 100, 7], &[]).run;
        run.round_ends_ns = [100, 200, 450, 700, 750].map(|ms| ms * 1_000_000).to_vec();
        assert_eq!(sustained(&run).round(), 400.0);
        assert_eq!(fewest(&run).round(), 40.0, "of those that took a quarter of a second");
    }

    #[test]
    fn a_row_tells_both_kinds_of_longest() {
        let text = rows(&[paced(0.5, &[3, 9, 1], &[2, 3, 1]), paced(2.0, &[9, 9], &[1])]);
        for row in [
            "\n| 0.5 | 500 | 3 | 3 | 1 ns | 2 ns | 3 ns | 4 ns | 3 ns | 7 ns |\n",
            "\n| 2 | 2.00 k | 3 | 9 | 1 ns | 2 ns | 3 ns | 4 ns | 1 ns | 7 ns |\n",
        ] {
            assert!(text.contains(row), "{row}: {text}");
        }
        let widths: Vec<usize> = text.lines().map(|line| line.matches('|').count()).collect();
        assert_eq!(widths, [11; 4], "{text}");
    }

    #[test]
    fn drawings_show_what_they_say() {
        let run = paced(2.0, &[30, 20, 40, 3], &[1_000, 0, 20_000_000, 5]);
        let drawn = pace(&run, 1_000.0).expect("a drawing");
        for text in ["at 2 of the sustained rate", "achieved", "offered", "2.00 k"] {
            assert!(drawn.contains(text), "{text} in {drawn}");
        }
        let drawn = longest(&run).expect("a drawing");
        assert!(drawn.contains("10.0 ms") && !drawn.contains("1.00 s"), "{drawn}");
        let drawn = achieved(&[run, paced(0.5, &[1], &[])]).expect("a drawing");
        // Offered are 500 and 2 000, in their order; achieved are 3 of either.
        assert!(drawn.contains(" 939,72 \"/>") && drawn.contains(" 939,389 \"/>"), "{drawn}");
        // A run that was too short for any round.
        pace(&paced(1.0, &[], &[]), 10.0).expect("a drawing");
        longest(&paced(1.0, &[], &[])).expect("a drawing");
    }

    #[test]
    fn shares_and_times_are_read() {
        assert_eq!((share("0.25"), seconds("600")), (Ok(0.25), Ok(600.0)));
        for wrong in ["", "0", "-1", "NaN", "inf", "half"] {
            assert!(share(wrong).is_err() && seconds(wrong).is_err(), "{wrong:?}");
        }
    }
}

//! A report: what was run, where, and what came of it. Kept as JSON.

use crate::config::Config;
use crate::machine::Machine;
use crate::place::write;
use crate::result::Measured;
use esker_draw::Outcome;
use esker_draw::units::rate;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The form of the file.
const FORM: u32 = 1;

/// Everything that one command measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    form: u32,
    /// Where it ran.
    pub machine: Machine,
    /// What was asked for.
    pub config: Config,
    /// Name of each engine, and how it was set up.
    pub engines: Vec<(String, String)>,
    /// In the order in which they were made.
    pub runs: Vec<Measured>,
}

impl Report {
    /// An empty one about this machine.
    pub fn new(config: &Config) -> Report {
        Report {
            form: FORM,
            machine: Machine::this(),
            config: config.clone(),
            engines: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// With the path, and what is wrong with it.
    pub fn read(path: &Path) -> Outcome<Report> {
        let shown = path.display();
        let text = fs::read(path).map_err(|error| format!("{shown}: {error}"))?;
        let report: Report = serde_json::from_slice(&text)
            .map_err(|error| format!("{shown} is no report of this benchmark: {error}"))?;
        match report.form {
            FORM => Ok(report),
            form => Err(format!("{shown} has form {form}, and this program reads {FORM}").into()),
        }
    }

    /// Writes it.
    ///
    /// # Errors
    /// With the path.
    pub fn write(&self, path: &Path) -> Outcome<()> {
        let text = serde_json::to_vec_pretty(self)?;
        write(path, text)
    }

    /// What a step is called: its workload, and whether it is the first on an opened store.
    pub fn label(&self, step: usize) -> String {
        let name =
            |at: Option<usize>| at.and_then(|at| self.config.benchmarks.get(at)?.trim().into());
        let workload: &str = name(Some(step)).unwrap_or_default();
        if self.config.is_cold(step) { format!("{workload}, cold") } else { workload.to_owned() }
    }

    /// Rows for tables and plots: runs of the same engine and place in the list, as one.
    pub fn rows(&self) -> Vec<Row<'_>> {
        let mut rows: Vec<Row<'_>> = Vec::new();
        for run in &self.runs {
            let same = |row: &&mut Row<'_>| {
                row.first().engine == run.engine && row.first().step == run.step
            };
            match rows.iter_mut().find(same) {
                Some(row) => row.runs.push(run),
                None => rows.push(Row { runs: vec![run] }),
            }
        }
        rows
    }
}

/// Runs of the same thing.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// At least one.
    runs: Vec<&'a Measured>,
}

impl Row<'_> {
    /// The first run, for what all have in common.
    pub fn first(&self) -> &Measured {
        self.runs[0]
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.runs.len()
    }

    /// The middle one of a figure; the lower one of two.
    pub fn median(&self, figure: impl Fn(&Measured) -> f64) -> f64 {
        median(self.runs.iter().map(|run| figure(run)).collect())
    }

    /// The largest of a figure.
    pub fn most(&self, figure: impl Fn(&Measured) -> f64) -> f64 {
        self.runs.iter().map(|run| figure(run)).fold(0.0, f64::max)
    }

    /// The run whose rate is the median.
    pub fn middle(&self) -> &Measured {
        let median = self.median(Measured::rate);
        self.runs.iter().find(|run| run.rate() == median).unwrap_or(&self.runs[0])
    }

    /// Half of the way from the slowest to the fastest run, as a share of the median rate.
    pub fn spread(&self) -> f64 {
        let (low, high) = self.ends();
        (high - low) / 2.0 / self.median(Measured::rate)
    }

    /// The rates of the slowest and of the fastest run.
    fn ends(&self) -> (f64, f64) {
        let rates = self.runs.iter().map(|run| run.rate());
        rates.fold((f64::INFINITY, 0.0f64), |(low, high), rate| (low.min(rate), high.max(rate)))
    }

    /// How far the runs are from each other, for tables: `± 8%`, which is [`Row::spread`], or
    /// where that is more than the median itself (one run had next to nothing to do) the slowest
    /// and the fastest, `(0.7 to 659)`. `None` of a single run.
    pub fn around(&self) -> Option<String> {
        let (low, high) = self.ends();
        match self.spread() {
            _ if self.count() == 1 => None,
            spread if spread <= 1.0 => Some(format!("± {:.0}%", 100.0 * spread)),
            _ => Some(format!("({} to {})", rate(low), rate(high))),
        }
    }
}

/// The middle one; the lower one of two. Needs one at least.
pub fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[(all.len() - 1) / 2]
}

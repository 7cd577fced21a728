//! What a get costs by what is kept in memory, at sizes that double again and again.

use super::Lab;
use crate::ablation;
use crate::plot;
use crate::report::{Report, Row};
use crate::result::Measured;
use esker_draw::Outcome;
use esker_draw::units::duration;
use std::fmt::Write as _;

/// Bytes of a value.
const VALUE_BYTES: usize = 100;

/// What the project measured for a get of a key that is there: at so many entries, in nanoseconds,
/// with nothing, the index, and index and filter in memory. It kept no blocks.
const THERE_RECORDS: u64 = 64 << 10;
const THERE_NS: [f64; 3] = [790_000.0, 61_500.0, 56_700.0];

/// As many times as long a get may take at [`FAR_RECORDS`] as at [`THERE_RECORDS`], with everything
/// kept.
const GROWTH_MAX: f64 = 2.0;
const FAR_RECORDS: u64 = 16 << 20;

impl Lab<'_> {
    /// Gets at every size.
    pub(super) fn gets(&mut self) -> Outcome<()> {
        let choice = ablation::Choice {
            sizes: self.choice.sizes.clone(),
            reads: self.choice.reads,
            duration_min: self.choice.duration_min,
            value_size: VALUE_BYTES,
            cache_size: self.choice.cache_size,
            repeat: self.choice.repeat,
            db: self.choice.db.clone(),
        };
        let mut reports = Vec::new();
        let outcome = ablation::run(&choice, self.stop, self.progress, &mut reports);
        if reports.iter().all(|report| report.runs.is_empty()) {
            return outcome;
        }
        for report in &reports {
            report.write(&self.choice.out.join(format!("gets-{}.json", report.config.num)))?;
        }
        plot::draw_costs(&reports, &self.choice.out)?;
        self.page.push_str(&page(&reports));
        self.keep()?;
        outcome
    }
}

/// Tables of all reports, and how costs grow.
fn page(reports: &[Report]) -> String {
    let Some(first) = reports.first() else { return String::new() };
    let names: Vec<&str> = first.engines.iter().map(|(name, _)| name.as_str()).collect();
    let mut text = format!(
        "## Gets\n\n{}\n\nKeys of {} and values of {} bytes, in random order; medians of {} rounds of {} gets and {} s at least.\n",
        first.machine,
        first.config.key_size,
        first.config.value_size,
        first.runs.len() / (first.config.benchmarks.len() * names.len()).max(1),
        first.config.reads.unwrap_or(first.config.num),
        first.config.duration_min,
    );
    for (step, workload) in first.config.benchmarks.iter().enumerate() {
        let _ = write!(
            text,
            "\n`{workload}`: time of a get, by what is kept in memory\n\n| records | {} |\n|{}\n",
            names.join(" | "),
            "---|".repeat(names.len() + 1)
        );
        for report in reports {
            let cost = |name: &&str| cost(report, step, name).map(duration).unwrap_or_default();
            let cells: Vec<String> = names.iter().map(cost).collect();
            let _ = writeln!(text, "| {} | {} |", report.config.num, cells.join(" | "));
        }
        if step == 0 {
            let mut cells: Vec<String> = THERE_NS.iter().map(|ns| duration(*ns)).collect();
            cells.resize(names.len(), String::new());
            let _ = writeln!(text, "| {THERE_RECORDS}, there | {} |", cells.join(" | "));
        }
    }
    text.push('\n');
    let all = names.last().copied().unwrap_or_default();
    for (step, workload) in first.config.benchmarks.iter().enumerate() {
        for growth in Growth::all(reports, step, all) {
            let _ = writeln!(text, "{}", growth.line(workload));
        }
    }
    text.push('\n');
    text
}

/// Nanoseconds of a get.
fn cost(report: &Report, step: usize, name: &str) -> Option<f64> {
    let rows = report.rows();
    let same = |row: &&Row<'_>| row.first().step == step && row.first().engine == name;
    rows.iter().find(same).map(|row| row.median(Measured::cost_ns))
}

/// What a get costs at one size, beside a smaller one.
struct Growth {
    from: u64,
    to: u64,
    times: f64,
}

impl Growth {
    /// From [`THERE_RECORDS`], or the smallest size if that was not measured, to [`FAR_RECORDS`] if
    /// that was, and to the largest.
    fn all(reports: &[Report], step: usize, name: &str) -> Vec<Growth> {
        let cost = |report| Some((report, cost(report, step, name)?));
        let mut costs: Vec<(u64, f64)> =
            reports.iter().filter_map(cost).map(|(report, ns)| (report.config.num, ns)).collect();
        costs.sort_by_key(|(records, _)| *records);
        let there = costs.iter().find(|(records, _)| *records == THERE_RECORDS);
        let Some(&(from, least)) = there.or(costs.first()) else { return Vec::new() };
        let last = costs.len() - 1;
        let told = |at: usize, records: u64| at == last || records == FAR_RECORDS;
        let growths = costs.iter().enumerate().filter_map(|(at, &(to, ns))| {
            let tells = told(at, to) && from < to && least > 0.0;
            tells.then(|| Growth { from, to, times: ns / least })
        });
        growths.collect()
    }

    fn doubling(&self) -> f64 {
        self.times.powf(1.0 / (self.to as f64 / self.from as f64).log2())
    }

    fn line(&self, workload: &str) -> String {
        let Growth { from, to, times } = self;
        let goal = format!(" (goal: at most x {GROWTH_MAX})");
        format!(
            "- `{workload}` with everything kept, from {from} to {to} records: x {times:.2}{}; \
             x {:.2} for each doubling (there: x 2)",
            if *to <= FAR_RECORDS { &goal } else { "" },
            self.doubling()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::result::tests::measured;

    const NAMES: [&str; 4] = ["nothing", "indexes", "indexes, filters", "indexes, filters, blocks"];

    /// Gets of both kinds that took so many nanoseconds, three times as many with nothing kept.
    fn report(records: u64, ns: f64, names: &[&str]) -> Report {
        let num = records.to_string();
        let flags = ["--benchmarks", "readrandom,readmissing", "--num", &num, "--reads", "100"];
        let mut report = Report::new(&Config::of(&flags).expect("flags"));
        for (step, workload) in ["readrandom", "readmissing"].into_iter().enumerate() {
            for name in names {
                let times = if *name == "nothing" { 3.0 } else { 1.0 };
                let run = measured(workload);
                let seconds = run.operations as f64 * ns * times / 1e9;
                let engine = (*name).to_owned();
                report.runs.push(Measured { engine, step, seconds, num: records, ..run });
            }
        }
        report.engines = NAMES.map(|name| (name.to_owned(), String::new())).to_vec();
        report
    }

    #[test]
    fn costs_stand_beside_those_there() {
        let sizes = [(16 << 10, 200.0), (64 << 10, 500.0), (1 << 20, 800.0)];
        let page = page(&sizes.map(|(records, ns)| report(records, ns, &NAMES)));
        for line in [
            "medians of 1 rounds of 100 gets and 0 s at least",
            "| records | nothing | indexes | indexes, filters | indexes, filters, blocks |",
            "| 16384 | 600 ns | 200 ns | 200 ns | 200 ns |",
            "| 65536, there | 790 µs | 61.5 µs | 56.7 µs |  |",
            "- `readrandom` with everything kept, from 65536 to 1048576 records: x 1.60 (goal: at most x 2); x 1.12 for",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
        assert_eq!(page.matches("| 1048576 | 2.40 µs | 800 ns ").count(), 2, "{page}");
        assert_eq!(page.matches("there |").count(), 1, "only for keys that are there: {page}");
    }

    #[test]
    fn what_was_not_measured_has_an_empty_cell() {
        let page = page(&[report(1_000, 200.0, &NAMES), report(4_000, 200.0, &NAMES[..2])]);
        assert!(page.contains("| 4000 | 600 ns | 200 ns |  |  |"), "{page}");
        assert!(!page.contains("with everything kept"), "at one size only: {page}");
    }

    #[test]
    fn growth_is_from_the_size_there_or_the_smallest() {
        let of = |sizes: &[(u64, f64)]| {
            let reports = sizes.iter().map(|&(records, ns)| report(records, ns, &NAMES));
            Growth::all(&reports.collect::<Vec<_>>(), 0, "indexes")
        };
        let ends = |growths: &[Growth]| -> Vec<(u64, u64)> {
            growths.iter().map(|growth| (growth.from, growth.to)).collect()
        };
        let growths = of(&[(4_000, 900.0), (1_000, 300.0)]);
        assert_eq!(ends(&growths), [(1_000, 4_000)]);
        assert!((growths[0].times - 3.0).abs() < 1e-9);
        assert!((growths[0].doubling() - 3f64.sqrt()).abs() < 1e-9);
        let growths = of(&[(1_000, 1.0), (64 << 10, 5.0), (1 << 20, 10.0)]);
        assert_eq!(ends(&growths), [(64 << 10, 1 << 20)]);
        assert!(of(&[(1_000, 1.0), (64 << 10, 5.0)]).is_empty(), "nothing is larger");
        assert!(of(&[]).is_empty());
    }

    #[test]
    fn growth_to_the_size_of_the_goal_and_to_the_largest_is_told() {
        let sizes = [(64 << 10, 100.0), (4 << 20, 150.0), (16 << 20, 200.0), (64 << 20, 400.0)];
        let page = page(&sizes.map(|(records, ns)| report(records, ns, &NAMES)));
        for line in [
            "`readmissing` with everything kept, from 65536 to 16777216 records: x 2.00 (goal: at most x 2); x 1.09",
            "`readmissing` with everything kept, from 65536 to 67108864 records: x 4.00; x 1.15",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
        assert!(!page.contains("to 4194304"), "{page}");
    }
}

//! How long puts take over time, with values of several lengths.

use super::Lab;
use crate::config::Config;
use crate::esker_store::DefaultEsker;
use crate::place::Place;
use crate::plot;
use crate::report::Report;
use crate::result::Measured;
use crate::session;
use crate::store::Engine;
use esker_draw::units::{bytes, duration, rate};
use esker_draw::{Line, Outcome, Palette, RATES};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::Ordering;

const KEY_BYTES: u64 = 16;
/// Lengths of values that the project measured.
const VALUES_KIB: [u64; 3] = [1, 2, 3];

impl Lab<'_> {
    /// Puts of every length of values.
    pub(super) fn puts(&mut self) -> Outcome<()> {
        let place = Place::new("puts", self.choice.db.as_deref());
        let before = self.page.len();
        let mut reports: Vec<(String, Report)> = Vec::new();
        for kib in VALUES_KIB {
            let name = format!("puts-{kib}KiB");
            let report = place.within(&name, |dir| self.load(kib << 10, dir))?;
            if self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            report.write(&self.choice.out.join(format!("{name}.json")))?;
            reports.push((format!("{kib} KiB"), report));
            self.page.truncate(before);
            self.page.push_str(&page(&reports, self.choice.load));
            self.keep()?;
            self.write("puts.svg", &drawing(&reports)?)?;
        }
        Ok(())
    }

    /// Fills a store with values of so many bytes.
    fn load(&mut self, value_bytes: u64, dir: &Path) -> Outcome<Report> {
        let num = (self.choice.load / (KEY_BYTES + value_bytes)).max(1).to_string();
        let (value_size, dir) = (value_bytes.to_string(), dir.to_string_lossy().into_owned());
        let flags = ["--benchmarks", "fillrandom", "--num", &num, "--value_size", &value_size];
        let config = Config::of(&[&flags[..], &["--db", &dir]].concat())?;
        let mut report = Report::new(&config);
        let engine = DefaultEsker;
        report.engines.push((engine.name(), engine.setup(&config.settings(false))));
        let mut each = |run: Measured| report.runs.push(run);
        session::run(&engine, &config, self.stop, self.progress, &mut each)?;
        Ok(report)
    }
}

fn runs(reports: &[(String, Report)]) -> impl Iterator<Item = (&str, &Measured)> {
    reports.iter().filter_map(|(name, report)| Some((name.as_str(), report.runs.first()?)))
}

fn page(reports: &[(String, Report)], load_bytes: u64) -> String {
    let Some((_, first)) = reports.first() else { return String::new() };
    let mut text = format!("## Puts\n\n{}\n\n", first.machine);
    for (_, setup) in &first.engines {
        let _ = writeln!(
            text,
            "Esker {setup}. Keys of {KEY_BYTES} bytes at random, with repetitions; {load_bytes} bytes each.\n"
        );
    }
    let columns = "values | puts a second | bytes a second | mean | p50 | p99 | p99.9 | longest | held back in all | \
                   written for each of the user's bytes";
    let _ = writeln!(text, "| {columns} |\n|{}", "---|".repeat(columns.matches('|').count() + 1));
    for (name, run) in runs(reports) {
        let puts = &run.writes;
        let amplification = run.write_amplification();
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            rate(run.rate()),
            bytes((run.user_written_bytes as f64 / run.seconds.max(1e-9)) as u64),
            duration(puts.mean),
            duration(puts.p50 as f64),
            duration(puts.p99 as f64),
            duration(puts.p999 as f64),
            duration(puts.max as f64),
            run.stalled_ns.map(|ns| duration(ns as f64)).unwrap_or_default(),
            amplification.map(|times| format!("{times:.2}")).unwrap_or_default(),
        );
    }
    text
}

/// The longest put in each tenth of a second, a line for each length of values.
fn drawing(reports: &[(String, Report)]) -> Outcome<String> {
    let line = |(name, run): (&str, &Measured)| (name.to_owned(), plot::slowest(run));
    let lines: Vec<Line> = runs(reports).map(line).collect();
    let palette = Palette::of(lines.iter().map(|(name, _)| name.clone()));
    plot::logarithms(
        "Longest put in each tenth of a second, by the length of values, over seconds",
        &lines,
        &palette,
        &RATES,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::measured;

    fn reports() -> Vec<(String, Report)> {
        let report = |slowest_ns: [u64; 3]| {
            let mut report = Report::new(&Config::of(&[]).expect("flags"));
            report.engines.push(("esker".to_owned(), "1: default options".to_owned()));
            let slowest_ns = slowest_ns.to_vec();
            report.runs.push(Measured { slowest_ns, ..measured("fillrandom") });
            report
        };
        let named = |(name, slowest_ns): (&str, _)| (name.to_owned(), report(slowest_ns));
        [("1 KiB", [1_000, 10_000, 1_000]), ("2 KiB", [2_000, 0, 50_000])].map(named).to_vec()
    }

    #[test]
    fn every_length_has_its_row() {
        let page = page(&reports(), 4_000_000_000);
        assert!(page.contains("Esker 1: default options. Keys of 16 bytes"), "{page}");
        for name in ["1 KiB", "2 KiB"] {
            // 9 puts and 100 bytes in 3 seconds, 250 bytes written.
            let row = format!(
                "\n| {name} | 3 | 33 B | 2 ns | 1 ns | 2 ns | 3 ns | 4 ns | 7 ns | 2.50 |\n"
            );
            assert!(page.contains(&row), "{row}: {page}");
        }
        let widths: Vec<usize> = page
            .lines()
            .filter(|line| line.starts_with('|'))
            .map(|line| line.matches('|').count())
            .collect();
        assert_eq!(widths, [11; 4], "{page}");
    }

    #[test]
    fn every_length_has_its_line() {
        let drawing = drawing(&reports()).expect("a drawing");
        for text in ["1 KiB", "2 KiB", "1.00 µs", "10.0 µs"] {
            assert!(drawing.contains(text), "{text} in {drawing}");
        }
        for colour in ["#0072B2", "#E69F00"] {
            let line = format!("<polyline fill=\"none\" opacity=\"1\" stroke=\"{colour}\"");
            assert_eq!(drawing.matches(&line).count(), 1, "{colour} in {drawing}");
        }
    }
}

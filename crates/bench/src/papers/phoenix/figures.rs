//! Figures that parts have in common.

use esker_draw::Outcome;
use hdrhistogram::Histogram;

/// Longest latency told apart from longer ones, in nanoseconds: 100 s.
const LATENCY_NS_MAX: u64 = 100_000_000_000;
/// Digits of a latency that are kept: what is compared differs by a few in a hundred.
const LATENCY_DIGITS: u8 = 3;

/// No latencies yet.
pub(super) fn latencies() -> Outcome<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS)?)
}

/// By how much a figure is above another one, in percent: below it, less than nothing.
pub(super) fn percent(figure: f64, other: f64) -> String {
    format!("{:+.1} %", 100.0 * (figure / other.max(f64::MIN_POSITIVE) - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_of_every_length_are_told_apart() {
        let mut taken = latencies().expect("a histogram");
        for ns in [300, 400_000, 5_000_000_000] {
            taken.saturating_record(ns);
        }
        let near = |quantile, ns: u64| taken.value_at_quantile(quantile).abs_diff(ns) <= ns / 1_000;
        assert!(near(0.3, 300) && near(0.6, 400_000) && near(1.0, 5_000_000_000));
    }

    #[test]
    fn percents_have_their_sign() {
        assert_eq!(
            (percent(6.0, 100.0), percent(150.0, 100.0)),
            ("-94.0 %".into(), "+50.0 %".into())
        );
    }
}

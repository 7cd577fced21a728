//! Numbers for people.

/// Operations a second, with three digits that count: `1.23 M`, `45.6 k`.
pub fn rate(per_second: f64) -> String {
    scaled(per_second, 1000.0, &["", " k", " M", " G"])
}

/// Bytes in binary units: `12.3 MiB`.
pub fn bytes(n: u64) -> String {
    scaled(n as f64, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"])
}

/// A time given in nanoseconds: `870 ns`, `12.3 µs`, `4.56 ms`, `1.20 s`.
pub fn duration(ns: f64) -> String {
    scaled(ns, 1000.0, &[" ns", " µs", " ms", " s"])
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= step * 0.9995 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let digits = match value {
        v if unit == 0 && v.fract() == 0.0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        assert_eq!(rate(1_234_567.0), "1.23 M");
        assert_eq!(rate(45_600.0), "45.6 k");
        assert_eq!(rate(999_600.0), "1.00 M");
        assert_eq!(rate(7.0), "7");
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(64 << 20), "64.0 MiB");
        assert_eq!(duration(870.0), "870 ns");
        assert_eq!(duration(12_345.0), "12.3 µs");
        assert_eq!(duration(2e12), "2000 s");
    }
}

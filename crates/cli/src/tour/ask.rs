//! Second section: gets, prefixes and ranges, compared with what the file system says.

use super::expect::Expected;
use super::state::Tour;
use crate::bytes::printable;
use crate::clock::Stopwatch;
use crate::failure::Result;
use crate::units;
use esker::base::checksum::mix64;
use esker::base::key::prefix_end;
use esker::{Db, ScanOptions};
use std::collections::BTreeMap;

/// Gets whose time is measured.
const GETS: u64 = 50_000;

/// Asks. Returns what the store holds, with files that changed meanwhile as they were loaded.
pub(super) fn ask(tour: &mut Tour<'_>, db: &Db, expected: Expected) -> Result<Expected> {
    let expected = everything(tour, db, expected)?;
    if expected.len() == 0 {
        tour.show.line("   There are no files, so there is nothing to ask.")?;
        return Ok(expected);
    }
    present(tour, db, &expected)?;
    absent(tour, db, &expected)?;
    if let Some((dir, records)) = directories(tour, &expected).into_iter().next() {
        let options = ScanOptions::prefix(&dir);
        let found = expected.compare(db, &options, false)?;
        let what = format!("prefix {}: {} records", printable(&dir), units::count(records));
        tour.show.check(found.keys.is_empty() && found.compared == records, &what)?;
    }
    let third = |n: usize| expected.keys[expected.len() * n / 3].clone();
    let options =
        ScanOptions { start: Some(third(1)), end: Some(third(2)), ..ScanOptions::default() };
    for (reverse, direction) in [(false, "forwards"), (true, "backwards")] {
        let found = expected.compare(db, &options, reverse)?;
        let what =
            format!("the middle third, {direction}: {} records", units::count(found.compared));
        tour.show.check(found.keys.is_empty(), &what)?;
    }
    Ok(expected)
}

/// Compares the whole store with the walk.
fn everything(tour: &mut Tour<'_>, db: &Db, expected: Expected) -> Result<Expected> {
    let watch = Stopwatch::start();
    let all = ScanOptions::default();
    let found = expected.compare(db, &all, false)?;
    let seconds = watch.seconds();
    let (drifted, wrong): (Vec<_>, Vec<_>) =
        found.keys.into_iter().partition(|key| expected.drifted(key));
    for key in wrong.iter().take(3) {
        tour.show.check(false, &format!("{} differs", printable(key)))?;
    }
    let what = format!(
        "all {} records equal the walk, read at {}",
        units::count(found.compared),
        units::rate(found.compared, seconds)
    );
    tour.show.check(wrong.is_empty(), &what)?;
    tour.figures.scan_per_second = (found.compared as f64 / seconds.max(1e-9)) as u64;
    if drifted.is_empty() {
        return Ok(expected);
    }
    tour.show.figure("changed meanwhile", drifted.len() as u64, "files; compared as loaded")?;
    let mut records = expected.records.clone();
    for key in drifted {
        match db.get(&key)? {
            Some(value) => records.insert(key, value.to_vec()),
            None => records.remove(&key),
        };
    }
    Ok(expected.with(records))
}

/// Gets of keys that are there, at random, with their times.
fn present(tour: &mut Tour<'_>, db: &Db, expected: &Expected) -> Result<()> {
    let watch = Stopwatch::start();
    let mut times_ns = Vec::with_capacity(GETS as usize);
    let mut wrong = 0u64;
    for i in 0..GETS {
        let key = &expected.keys[(mix64(i + 1) % expected.len() as u64) as usize];
        let before = watch.ns();
        let value = db.get(key)?;
        times_ns.push(watch.ns() - before);
        wrong += u64::from(value.as_deref() != expected.records.get(key).map(Vec::as_slice));
    }
    times_ns.sort_unstable();
    let at = |percent: usize| times_ns[(times_ns.len() - 1) * percent / 100];
    let (p50, p99) = (at(50), at(99));
    tour.figures.gets = GETS;
    tour.figures.get_p50_ns = p50;
    tour.figures.get_p99_ns = p99;
    let what = format!(
        "{} gets at random: p50 {}, p99 {}",
        units::count(GETS),
        units::duration_ns(p50),
        units::duration_ns(p99)
    );
    tour.show.check(wrong == 0, &what)
}

/// Gets of keys that are not there.
fn absent(tour: &mut Tour<'_>, db: &Db, expected: &Expected) -> Result<()> {
    let asked = expected.len().min(10_000);
    let mut found = 0;
    for key in expected.keys.iter().step_by(expected.len() / asked).take(asked) {
        found += u64::from(db.get(&[key, &b"\0"[..]].concat())?.is_some());
    }
    let what = format!("{} keys that do not exist are not found", units::count(asked as u64));
    tour.show.check(found == 0, &what)
}

/// The directories right below the source with their records, the largest first.
pub(super) fn directories(tour: &Tour<'_>, expected: &Expected) -> Vec<(Vec<u8>, u64)> {
    let root = tour.plan.source.as_os_str().as_encoded_bytes();
    let root_len = root.len() + usize::from(!root.ends_with(b"/"));
    let mut sizes: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for key in &expected.keys {
        let below = key.get(root_len..).unwrap_or_default();
        if let Some(end) = below.iter().position(|&b| b == b'/') {
            *sizes.entry(key[..=root_len + end].to_vec()).or_default() += 1;
        }
    }
    let mut sizes: Vec<_> =
        sizes.into_iter().filter(|(dir, _)| prefix_end(dir).is_some()).collect();
    sizes.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    sizes
}

//! Third section: an index of a field, and what it finds, counted once more from the names of the
//! files alone.

use super::expect::{Expected, overwritten};
use super::state::Tour;
use crate::bytes::printable;
use crate::clock::Stopwatch;
use crate::failure::{Failure, Result};
use crate::units;
use esker::fields::FieldValue;
use esker::{Db, Error, FindOptions};
use std::collections::BTreeMap;

/// The field that is indexed.
const FIELD: &str = "extension";

/// Makes the index, and finds by it.
pub(super) fn index(tour: &mut Tour<'_>, db: &Db, expected: &Expected) -> Result<()> {
    let watch = Stopwatch::start();
    db.default_keyspace().create_index(FIELD)?;
    match db.default_keyspace().wait_index(FIELD, |_| !tour.interrupt.asked()) {
        Err(Error::Cancelled) => {
            return Err(Failure::interrupted("the tour was interrupted: run it again"));
        }
        waited => waited?,
    }
    let records = expected.len() as u64;
    let rate = units::rate(records, watch.seconds());
    tour.show.figure("read for the index", records, &format!("records, {rate}"))?;
    compare(tour, db, expected, "at once")?;
    let by_extension = by_extension(expected)?;
    let Some((extension, keys)) = by_extension.iter().max_by_key(|(_, keys)| keys.len()) else {
        return tour.show.line("   No file has an extension, so there is nothing to find.");
    };
    let watch = Stopwatch::start();
    let options = FindOptions::default();
    let mut found = db.default_keyspace().find(FIELD, extension, &options)?;
    let mut same = 0;
    let mut wanted = keys.iter();
    while found.advance()? {
        same += u64::from(wanted.next().is_some_and(|key| *key == found.key()));
    }
    let took = units::duration_ns(watch.ns());
    let shown = printable(extension.to_string().as_bytes());
    let what = format!("{FIELD} {shown}: {} records, found in {took}", units::count(same));
    tour.show.check(same == keys.len() as u64, &what)?;
    tour.figures.found = same;
    Ok(())
}

/// Compares all that the index holds with what the names of the files say. `when`: the word for it.
pub(super) fn compare(tour: &mut Tour<'_>, db: &Db, expected: &Expected, when: &str) -> Result<()> {
    let by_extension = by_extension(expected)?;
    let mut wanted =
        by_extension.iter().flat_map(|(value, keys)| keys.iter().map(move |key| (value, *key)));
    let mut found = db.default_keyspace().find_range(FIELD, .., &FindOptions::default())?;
    let (mut compared, mut wrong) = (0u64, 0u64);
    loop {
        let next = wanted.next();
        if !found.advance()? {
            wrong += next.iter().len() as u64 + wanted.count() as u64;
            break;
        }
        let value = found.value()?;
        wrong += u64::from(next.is_none_or(|(v, key)| v.as_ref() != value || key != found.key()));
        compared += 1;
    }
    let what = format!(
        "{when}, the index has {} of {}, as file names have",
        units::plural(by_extension.len() as u64, FIELD, "extensions"),
        units::plural(compared, "file", "files"),
    );
    tour.show.check(wrong == 0, &what)
}

/// The keys of files with an extension, by what it is; those overwritten have none any more.
fn by_extension(expected: &Expected) -> Result<BTreeMap<FieldValue, Vec<&[u8]>>> {
    let overwritten = overwritten()?;
    let mut by_extension: BTreeMap<FieldValue, Vec<&[u8]>> = BTreeMap::new();
    for (key, value) in &expected.records {
        if *value != overwritten
            && let Some(extension) = extension(key)
        {
            by_extension.entry(extension).or_default().push(key);
        }
    }
    Ok(by_extension)
}

/// What a path has behind the last dot of its last part.
fn extension(path: &[u8]) -> Option<FieldValue> {
    let name = path.rsplit(|&byte| byte == b'/').next()?;
    let dot = name.iter().rposition(|&byte| byte == b'.').filter(|&dot| dot > 0)?;
    let extension = &name[dot + 1..];
    match std::str::from_utf8(extension) {
        Ok("") => None,
        Ok(text) => Some(text.into()),
        Err(_) => Some(extension.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_behind_the_last_dot_is_an_extension() {
        for (path, wanted) in [
            (&b"a/b.tar.gz"[..], Some("gz".into())),
            (b"b.d/name", None),
            (b"a/.profile", None),
            (b"a/.profile.old", Some("old".into())),
            (b"end.", None),
            (b"a.\xff", Some(FieldValue::from(b"\xff"))),
        ] {
            assert_eq!(extension(path), wanted, "{}", path.escape_ascii());
        }
    }
}

//! Fourth section: overwriting, deleting, deleting a range; and the past, which stays as it was.

use super::ask::directories;
use super::expect::{Expected, overwritten};
use super::fields;
use super::state::Tour;
use crate::bytes::printable;
use crate::failure::Result;
use crate::units;
use esker::base::key::prefix_end;
use esker::{Batch, Db, ScanOptions, WriteOptions};

/// Every so many records is overwritten.
const OVERWRITE_EACH: usize = 5;
/// Every so many records is deleted.
const DELETE_EACH: usize = 13;

/// Changes. Returns what the store holds then.
pub(super) fn change(tour: &mut Tour<'_>, db: &Db, before: &Expected) -> Result<Expected> {
    let past = db.snapshot();
    let new_value = overwritten()?;
    let mut records = before.records.clone();
    let (mut overwritten, mut deleted) = (0, 0);
    let mut batch = Batch::new();
    for (i, key) in before.keys.iter().enumerate() {
        if i % OVERWRITE_EACH == 0 {
            batch.put(key, &new_value);
            records.insert(key.clone(), new_value.clone());
            overwritten += 1;
        } else if i % DELETE_EACH == 0 {
            batch.delete(key);
            records.remove(key);
            deleted += 1;
        }
        if batch.len() >= 1_000 {
            db.write(std::mem::take(&mut batch), WriteOptions::default())?;
        }
    }
    db.write(batch, WriteOptions::SYNC)?;
    tour.show.figure("overwritten", overwritten, "records")?;
    tour.show.figure("deleted", deleted, "records, one by one")?;

    // The second largest directory; the largest is worth keeping for the drawing.
    let dirs = directories(tour, before);
    if let Some((dir, _)) = dirs.get(1).or(dirs.first())
        && let Some(end) = prefix_end(dir)
    {
        let gone = records.extract_if(dir.clone()..end.clone(), |_, _| true).count() as u64;
        db.delete_range(dir, &end)?;
        let remark = format!("records below {}, with one range tombstone", printable(dir));
        tour.show.figure("deleted", gone, &remark)?;
        let left = db.default_keyspace().prefix(dir)?.count();
        let shown = printable(dir);
        tour.show.check(left == 0, &format!("a scan of {shown} finds nothing"))?;
    }
    let after = before.with(records);
    // Once with the newest records in memory, once with all of them in tables.
    for when in ["at once", "after flush and compaction"] {
        if when != "at once" {
            db.flush()?;
            db.wait_idle()?;
        }
        let now = after.compare(db, &ScanOptions::default(), false)?;
        let what = format!("{when}, {} records are as they should be", units::count(now.compared));
        tour.show.check(now.keys.is_empty(), &what)?;
        let then = before.compare(db, &ScanOptions::default().at(&past), false)?;
        let what = format!("{when}, the snapshot still has all {}", units::count(then.compared));
        tour.show.check(then.keys.is_empty(), &what)?;
        fields::compare(tour, db, &after, when)?;
    }
    tour.figures.overwritten = overwritten;
    tour.figures.deleted = (before.len() - after.len()) as u64;
    Ok(after)
}

//! What is written, and how indexes are compared with it.

use crate::random::Random;
use esker::base::Error;
use esker::fields::{FieldValue, Record, RecordView};
use esker::{Batch, Db, FindOptions, IndexState};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const DIR: &str = "/db";

/// The fields that are indexed: one from the beginning, one now and then.
pub(super) const FIELDS: [&str; 2] = ["name", "price"];

/// Where each batch of the first part writes its number. The value is no record.
pub(super) const MARKER: &[u8] = b"";

/// Keys of records.
pub(super) const KEYS: u64 = 150;

/// What the default keyspace holds.
pub(super) type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// What an index holds, in its order.
type Rows = Vec<(FieldValue, Vec<u8>)>;

pub(super) type Checked = Result<(), String>;

/// Threads that write at the same time.
pub(super) const WRITERS: u64 = 16;

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
pub(super) fn text(error: Error) -> String {
    error.to_string()
}

pub(super) fn key(number: u64) -> Vec<u8> {
    format!("key{number:03}").into_bytes()
}

/// A record of some of the fields and of any length; now and then no record.
pub(super) fn value(random: &mut Random) -> Vec<u8> {
    let mut record = Record::new();
    for field in FIELDS {
        let value: FieldValue = match random.below(8) {
            0 => continue,
            1 => FieldValue::Null,
            2 => "\0".repeat(random.below(3) as usize).into(),
            _ => (random.below(5) as i64).into(),
        };
        record.set(field, value);
    }
    let len = [0, 20, 300, 3_000][random.below(4) as usize];
    record.set("padding", random.bytes(len));
    match random.one_in(15) {
        true => b"no record".to_vec(),
        false => record.encode().unwrap_or_default(),
    }
}

/// A batch of several operations, often on one key.
pub(super) fn random_batch(random: &mut Random) -> Batch {
    let mut batch = Batch::new();
    let near = random.below(KEYS);
    for _ in 0..=random.below(4) {
        let number = if random.one_in(2) { near } else { random.below(KEYS) };
        match random.below(20) {
            0..=14 => batch.put(&key(number), &value(random)),
            15..=18 => batch.delete(&key(number)),
            _ => batch.delete_range(&key(number), &key(number + random.below(10))),
        };
    }
    batch
}

pub(super) fn apply(records: &mut Records, batch: &Batch) {
    for op in batch.iter() {
        match op.kind {
            esker::base::Kind::Put => {
                records.insert(op.key.to_vec(), op.value.to_vec());
            }
            esker::base::Kind::Delete => {
                records.remove(op.key);
            }
            _ => records.retain(|key, _| &key[..] < op.key || &key[..] >= op.value),
        }
    }
}

/// What an index of this field should hold.
fn expected(records: &Records, field: &str) -> Rows {
    let row = |(key, value): (&Vec<u8>, &Vec<u8>)| {
        Some((RecordView::parse(value).ok()?.get(field)?.to_value(), key.clone()))
    };
    let mut rows: Rows = records.iter().filter_map(row).collect();
    rows.sort();
    rows
}

/// What is wrong with what an index of this field gave.
fn disagreement(rows: &Rows, records: &Records, field: &str) -> Option<String> {
    let wanted = expected(records, field);
    let shown = |row: &(FieldValue, Vec<u8>)| format!("{} of {}", row.0, row.1.escape_ascii());
    if let Some(missing) = wanted.iter().find(|row| !rows.contains(row)) {
        return Some(format!("index of {field:?}: {} is missing", shown(missing)));
    }
    if let Some(stray) = rows.iter().find(|row| !wanted.contains(row)) {
        return Some(format!("index of {field:?}: {} should not be there", shown(stray)));
    }
    (*rows != wanted).then(|| format!("index of {field:?}: entries come twice or out of order"))
}

pub(super) fn records_of(db: &Db) -> Result<Records, String> {
    let pairs = db.iter().map_err(text)?;
    pairs
        .map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())).map_err(text))
        .collect()
}

fn rows_of(db: &Db, field: &str) -> Result<Rows, String> {
    let options = FindOptions::default();
    let mut found = db.default_keyspace().find_range(field, .., &options).map_err(text)?;
    let mut rows = Rows::new();
    while found.advance().map_err(text)? {
        rows.push((found.value().map_err(text)?.to_value(), found.key().to_vec()));
    }
    Ok(rows)
}

/// Waits for the indexes, and compares them with the records. Returns the fields and the records.
pub(super) fn check(db: &Db) -> Result<(BTreeSet<String>, Records), String> {
    db.wait_idle().map_err(|e| format!("waiting: {e}"))?;
    let records = records_of(db)?;
    let mut fields = BTreeSet::new();
    for info in db.default_keyspace().indexes().map_err(text)? {
        if info.state != IndexState::Ready {
            return Err(format!("the index of {:?} is not ready", info.field));
        }
        if let Some(what) = disagreement(&rows_of(db, &info.field)?, &records, &info.field) {
            return Err(what);
        }
        fields.insert(info.field);
    }
    let report = db.verify(|_| true).map_err(text)?;
    match report.damage.first() {
        Some((path, error)) => {
            Err(format!("verify: {}: {error}; {:?}", path.display(), report.indexes))
        }
        None if report.indexes.len() != fields.len() => {
            Err(format!("verify: {} indexes of {}", report.indexes.len(), fields.len()))
        }
        None => Ok((fields, records)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that cannot find anything wrong is no check.
    #[test]
    fn each_kind_of_disagreement_is_found() {
        let mut random = Random::new(1);
        let records: Records = (0..50).map(|n| (key(n), value(&mut random))).collect();
        let rows = expected(&records, "price");
        assert!(rows.len() > 20);
        assert_eq!(disagreement(&rows, &records, "price"), None);
        let found = |change: fn(&mut Rows)| {
            let mut rows = rows.clone();
            change(&mut rows);
            disagreement(&rows, &records, "price").unwrap_or_default()
        };
        assert!(found(|rows| drop(rows.remove(7))).contains("is missing"));
        let old = |rows: &mut Rows| rows.push((FieldValue::Bool(true), rows[3].1.clone()));
        assert!(found(old).contains("should not be there"));
        assert!(found(|rows| rows[3].0 = FieldValue::Bool(true)).contains("is missing"));
        assert!(found(|rows| rows.swap(0, 1)).contains("out of order"));
        assert!(found(|rows| rows.push(rows[0].clone())).contains("twice"));
    }
}

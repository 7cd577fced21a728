//! Secondary indexes: which keys have a record whose field has a given value.
//!
//! An index is a keyspace of its own, which users do not see. For each record that has the field it
//! holds one entry: the value before the key, and nothing else. Entries are written in the same
//! batch as the record they are of, so that they are durable, visible and seen by snapshots
//! together with it.
//!
//! ```text
//! write:  batch -> which stripes? lock them -> read what the records are now -> batch + entries -> db::write
//! build:  keys of the keyspace, some at a time -> lock their stripes -> read the records -> entries + how far -> db::write
//! find:   state, as the snapshot sees it: ready? -> cursor over the entries of a range of values
//! ```
//!
//! Invariants, of every state that a snapshot or a crash can show: (1) of a key that the index is
//! built for, there is an entry if and only if its record has the field, and it is of the record's
//! value; (2) other keys may lack theirs, but have none that is wrong; (3) once it is ready, it is
//! built for all keys. Why it is so: docs/decisions/secondary-indexes.md.
//!
//! Lock order: `building`, the gate, stripes in ascending order, then those of `db::core`.

pub(super) mod build;
pub(super) mod catalogue;
pub(super) mod check;
pub(super) mod declare;
mod entries;
pub(super) mod find;
mod state;
#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests;
pub(super) mod write;

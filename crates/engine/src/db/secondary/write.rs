//! The way of a write to keyspaces that are indexed; that of all others leads past.

use super::catalogue::{IndexList, Indexes};
use super::entries::complete;
use crate::db::core::Core;
use crate::db::write::{self, How};
use esker_base::{Batch, Error, Kind, Result};

/// What a batch changes of indexed keyspaces.
enum Touched {
    Nothing,
    /// Keys of these stripes.
    Keys(Vec<usize>),
    Ranges,
}

/// Writes a batch of a user and what it changes in indexes: all of it or, on an error, nothing.
///
/// The batch's memory is given back for reuse, its contents are unspecified.
#[inline]
pub(in crate::db) fn write(core: &Core, batch: &mut Batch, how: How<'_>) -> Result<()> {
    loop {
        let number = core.indexes.number();
        let written = match Indexes::is_empty_at(number) {
            true => write::write(core, batch, how, number)?,
            false => write_indexed(core, batch, how)?,
        };
        if written {
            return Ok(());
        }
    }
}

/// As `write`; false if the list of indexes has changed before it was the turn of the batch, which
/// is then as it was.
#[cold]
fn write_indexed(core: &Core, batch: &mut Batch, how: How<'_>) -> Result<bool> {
    write::check(core, batch)?;
    let list = core.indexes.list();
    let indexes = &core.indexes;
    match touched(&list, batch)? {
        Touched::Nothing => write::write(core, batch, how, list.number),
        Touched::Keys(stripes) => {
            let _shared = indexes.gate.read();
            let stripes = if indexes.locks_nothing() { Vec::new() } else { stripes };
            let _held = indexes.lock(&stripes);
            write_completed(core, &list, batch, how)
        }
        Touched::Ranges => {
            let _alone = indexes.gate.write();
            write_completed(core, &list, batch, how)
        }
    }
}

/// Writes a batch with its entries, under the locks for that.
fn write_completed(core: &Core, list: &IndexList, batch: &mut Batch, how: How<'_>) -> Result<bool> {
    // While the gate is held it does not change any more.
    if core.indexes.number() != list.number {
        return Ok(false);
    }
    complete(core, list, batch)?;
    let written = write::write(core, batch, how, list.number)?;
    assert!(written, "the list of indexes changed although the gate was held");
    Ok(true)
}

/// What must be locked for a batch.
///
/// # Errors
/// `InvalidArgument` if it is for a keyspace that holds an index.
fn touched(list: &IndexList, batch: &Batch) -> Result<Touched> {
    let mut stripes = Vec::new();
    let mut ranges = false;
    for op in batch.iter() {
        if list.of(op.keyspace).is_empty() {
            if list.holds_index(op.keyspace) {
                return Err(Error::invalid(
                    "the batch names a keyspace that holds an index: only writes to what is indexed change it",
                ));
            }
            continue;
        }
        match op.kind {
            Kind::DeleteRange => ranges = true,
            _ => stripes.push(Indexes::stripe(op.keyspace, op.key)),
        }
    }
    stripes.sort_unstable();
    stripes.dedup();
    Ok(match (ranges, stripes.is_empty()) {
        (true, _) => Touched::Ranges,
        (false, true) => Touched::Nothing,
        (false, false) => Touched::Keys(stripes),
    })
}

//! Indexes come and go, and begin anew.

use super::catalogue::{Index, IndexInfo, IndexState, options_for};
use super::state::{State, put_reset};
use crate::db::core::{Core, KeyspaceCore};
use crate::db::keyspaces;
use crate::db::write::{self, How};
use crate::fields::check_name;
use crate::names;
use esker_base::sync::atomic::Ordering;
use esker_base::{Batch, Error, KeyspaceId, Result};
use std::sync::Arc;

/// Declares an index, which the background then builds.
pub(in crate::db) fn create(core: &Core, keyspace: &KeyspaceCore, field: &str) -> Result<()> {
    core.check_writable()?;
    check_name(field)?;
    let order = &keyspace.options.order;
    if !order.is_bytewise() {
        return Err(Error::invalid(format!(
            "keyspace {:?} has the key order {:?}, and the index of a field, here {field:?}, needs the order {:?}: \
             index a keyspace in that order",
            keyspace.name,
            order.name(),
            esker_base::KeyOrder::Bytewise.name()
        )));
    }
    {
        // No write that does not know of it is under way.
        let _alone = core.indexes.gate.write();
        keyspace.check_live()?;
        let list = core.indexes.list();
        if list.find(keyspace.id, field).is_some() {
            let text =
                format!("keyspace {:?} has an index of field {field:?} already", keyspace.name);
            return Err(Error::invalid(text));
        }
        let name = names::index(keyspace.id, field);
        // No batch is logged while there is the keyspace and not yet the index: it could name it.
        let _commit = core.commit.lock();
        let made = keyspaces::create_named(core, &name, options_for(&core.options, &name))?;
        let index = Arc::new(Index::new(made.id, keyspace.id, field));
        core.indexes.replace(list.all().cloned().chain([index]));
    }
    core.background.wake_workers();
    Ok(())
}

/// Drops an index.
pub(in crate::db) fn drop_index(core: &Core, keyspace: &KeyspaceCore, field: &str) -> Result<()> {
    core.check_writable()?;
    let _alone = core.indexes.gate.write();
    let list = core.indexes.list();
    let Some(index) = list.find(keyspace.id, field) else {
        return Err(missing(keyspace, field));
    };
    remove(core, None, std::slice::from_ref(index))
}

/// Drops a keyspace of a user with its indexes.
pub(in crate::db) fn drop_keyspace(core: &Core, name: &str) -> Result<()> {
    core.check_writable()?;
    names::check_no_index(name)?;
    let _alone = core.indexes.gate.write();
    let Some(keyspace) = core.keyspaces.load().by_name(name).cloned() else {
        return Err(Error::invalid(format!("no keyspace {name:?}")));
    };
    if keyspace.id == KeyspaceId::DEFAULT {
        return Err(Error::invalid("the default keyspace cannot be dropped"));
    }
    let indexes = core.indexes.list().of(keyspace.id).to_vec();
    remove(core, Some(keyspace), &indexes)
}

/// Drops a keyspace and indexes with one edit. Under the gate, alone.
fn remove(core: &Core, keyspace: Option<Arc<KeyspaceCore>>, indexes: &[Arc<Index>]) -> Result<()> {
    let holders = indexes.iter().filter_map(|index| core.keyspace(index.id));
    let dropped: Vec<Arc<KeyspaceCore>> = keyspace.into_iter().chain(holders).collect();
    keyspaces::drop(core, &dropped)?;
    if !indexes.is_empty() {
        let list = core.indexes.list();
        let stays = |index: &&Arc<Index>| indexes.iter().all(|gone| gone.id != index.id);
        let _commit = core.commit.lock();
        core.indexes.replace(list.all().filter(stays).cloned());
    }
    Ok(())
}

/// The indexes of a keyspace.
pub(in crate::db) fn infos(core: &Core, keyspace: &KeyspaceCore) -> Result<Vec<IndexInfo>> {
    let list = core.indexes.list();
    list.of(keyspace.id).iter().filter_map(|index| info(core, index).transpose()).collect()
}

/// How far an index is, unless it was dropped.
fn info(core: &Core, index: &Index) -> Result<Option<IndexInfo>> {
    let Some(State { is_ready, keys_done, .. }) = State::read(core, index, None)? else {
        return Ok(None);
    };
    let state = if is_ready { IndexState::Ready } else { IndexState::Building };
    Ok(Some(IndexInfo { field: index.field.clone(), state, keys_done }))
}

/// True if an index is ready, as it stands in the index: nobody builds where a database is only
/// read.
pub(in crate::db) fn is_ready(core: &Core, index: &Index) -> bool {
    index.is_built()
        || matches!(State::read(core, index, None), Ok(Some(State { is_ready: true, .. })))
}

/// Does what changes a keyspace past its indexes, which begin anew before: durably, and nobody
/// writes to it meanwhile.
pub(in crate::db) fn with_indexes_reset<T, E: From<Error>>(
    core: &Core,
    keyspace: &KeyspaceCore,
    change: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    loop {
        if core.indexes.list().of(keyspace.id).is_empty() {
            // Shared, so that no index comes.
            let _shared = core.indexes.gate.read();
            if core.indexes.list().of(keyspace.id).is_empty() {
                return change();
            }
            continue;
        }
        let changed = {
            let _alone = core.indexes.gate.write();
            reset(core, keyspace)?;
            change()
        };
        core.background.wake_workers();
        return changed;
    }
}

/// Makes the indexes of a keyspace begin anew. Under the gate, alone.
fn reset(core: &Core, keyspace: &KeyspaceCore) -> Result<()> {
    keyspace.check_live()?;
    let list = core.indexes.list();
    let mut batch = Batch::new();
    for index in list.of(keyspace.id) {
        put_reset(&mut batch, index);
    }
    // The batch is written or not, whatever an error says: a building that was not needed finds
    // nothing to do.
    for index in list.of(keyspace.id) {
        index.is_built.store(false, Ordering::Release);
        // What was in the way may be gone.
        *index.failure.lock() = None;
    }
    let has_log = !core.is_external();
    let how = How { sync: has_log, ..How::default() };
    let written = write::write(core, &mut batch, how, list.number)?;
    assert!(written, "the list of indexes changed although the gate was held");
    if has_log { Ok(()) } else { core.flush_epochs() }
}

/// The error of one who asks for an index that is not there.
pub(super) fn missing(keyspace: &KeyspaceCore, field: &str) -> Error {
    Error::invalid(format!(
        "keyspace {:?} has no index of field {field:?}: make one with create_index, or read all records with \
         get_keys_by_field",
        keyspace.name
    ))
}

//! Indexes of fields: which there are, waiting for one, and what is said of them.

use crate::failure::{Code, Failure, Result};
use crate::interrupt::Interrupt;
use crate::progress::{At, Progress};
use crate::store::Store;
use esker::{Error, IndexInfo, IndexState};

/// The index of a field, if there is one.
pub(crate) fn find(store: &Store, field: &str) -> Result<Option<IndexInfo>> {
    Ok(store.keyspace.indexes()?.into_iter().find(|info| info.field == field))
}

/// True if finds can go through it.
pub(crate) fn is_ready(info: &IndexInfo) -> bool {
    info.state == IndexState::Ready
}

/// The name of a field as it can be typed after a command, at least where it has no odd characters.
pub(crate) fn typed(field: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
    if field.chars().all(is_plain) { field.to_owned() } else { format!("{field:?}") }
}

/// The failure of one who asks for an index that is not there. `advice`: what to do.
pub(crate) fn missing(store: &Store, field: &str, advice: &str) -> Failure {
    let keyspace = store.keyspace.name();
    let message = format!("no index of field {field:?} in keyspace {keyspace:?}: {advice}");
    Failure::new(Code::NotFound, message)
}

/// Waits until an index is ready, with progress.
///
/// # Errors
/// `Interrupted`: the user does not want to wait. Why it cannot be built.
pub(crate) fn wait(store: &Store, field: &str, quiet: bool, interrupt: &Interrupt) -> Result<()> {
    let mut progress = Progress::start("indexing", quiet);
    let mut before = None;
    let waited = store.keyspace.wait_index(field, |keys_done| {
        // For the rate only what is done meanwhile counts.
        let before = *before.get_or_insert(keys_done);
        progress.at(At { records: keys_done.saturating_sub(before), ..At::default() });
        !interrupt.asked()
    });
    progress.finish();
    match waited {
        Ok(()) => Ok(()),
        Err(Error::Cancelled) => Err(Failure::interrupted(format!(
            "interrupted: the index of field {field:?} is built further when the store is next opened for writing: \
             `esker index wait` does nothing else"
        ))),
        // A record is at fault, and not the call.
        Err(Error::InvalidArgument { what }) => Err(Failure::other(what)),
        Err(error) => Err(error.into()),
    }
}

//! How far the requests of each group have come into tables.
//!
//! Format: docs/format/manifest.md.

use super::edit::{Change, GroupState, VersionEdit};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of groups and notes from which the next edit is begun.
const EDIT_BYTES: usize = 1 << 20;

/// The requests that tables hold, by group: all up to this one, and none behind it.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedGroups(pub(crate) BTreeMap<Arc<[u8]>, GroupState>);

impl NamedGroups {
    /// Takes a change into account; those that are not about groups change nothing.
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Applied { group, state } => {
                self.0.insert(group.clone(), state.clone());
            }
            Change::GroupForgotten(group) => {
                self.0.remove(group);
            }
            _ => {}
        }
    }

    /// Edits that would make these groups known. None is much longer than [`EDIT_BYTES`], whatever
    /// the notes are.
    pub(crate) fn describe(&self) -> Vec<VersionEdit> {
        let mut edits: Vec<VersionEdit> = Vec::new();
        let mut bytes = usize::MAX;
        for (group, state) in &self.0 {
            if bytes >= EDIT_BYTES {
                edits.push(VersionEdit::new());
                bytes = 0;
            }
            bytes += group.len() + state.note.len();
            if let Some(edit) = edits.last_mut() {
                edit.push(Change::Applied { group: group.clone(), state: state.clone() });
            }
        }
        edits
    }
}

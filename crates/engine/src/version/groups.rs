//! How far the requests of each group have come into tables.
//!
//! Format: docs/format/manifest.md.

use super::edit::{Change, GroupState};
use super::state_edits::StateEdits;
use std::collections::BTreeMap;
use std::sync::Arc;

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

    /// Adds what would make these groups known.
    pub(super) fn describe_in(&self, state: &mut StateEdits) {
        for (group, applied) in &self.0 {
            state.push(Change::Applied { group: group.clone(), state: applied.clone() });
        }
    }
}

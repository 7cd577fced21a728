//! A state that is written whole, as edits.

use super::edit::{Change, VersionEdit};
use crate::range_tombstone::RangeTombstone;
use esker_base::KeyspaceId;

/// Bytes from which the next edit is begun: one record of a manifest is limited, and neither who
/// writes nor who reads one should need much memory for it.
const EDIT_BYTES: usize = 1 << 20;

/// The changes that make a state, in as many edits as they take.
///
/// Only for a manifest that is not in force before all of them are durable: they happen one after
/// the other.
#[derive(Debug, Default)]
pub(super) struct StateEdits {
    edits: Vec<VersionEdit>,
    /// Of the last edit.
    bytes: usize,
}

impl StateEdits {
    /// The next change begins an edit: damage to one record takes as little with it as it can.
    pub(super) fn begin(&mut self) {
        self.bytes = EDIT_BYTES;
    }

    /// Adds a change.
    pub(super) fn push(&mut self, change: Change) {
        let bytes = bytes_of(&change);
        match self.edits.last_mut() {
            Some(edit) if self.bytes < EDIT_BYTES => {
                edit.push(change);
                self.bytes += bytes;
            }
            _ => {
                let mut edit = VersionEdit::new();
                edit.push(change);
                self.edits.push(edit);
                self.bytes = bytes;
            }
        }
    }

    /// Adds that the keyspace has erased this.
    pub(super) fn push_erased(&mut self, id: KeyspaceId, erased: &RangeTombstone) {
        let (start, end) = (Box::from(&*erased.start), Box::from(&*erased.end));
        self.push(Change::Erased { id, start, end, seq: erased.seq });
    }

    pub(super) fn into_edits(self) -> Vec<VersionEdit> {
        self.edits
    }
}

/// About how long a change is.
fn bytes_of(change: &Change) -> usize {
    const NUMBER: usize = 8;
    let long = match change {
        Change::TableAdded { meta, .. } => {
            meta.smallest.len() + meta.largest.len() + 2 * NUMBER * meta.references.len()
        }
        Change::ValuesAdded(meta) => NUMBER * meta.logs.len(),
        Change::Erased { start, end, .. } => start.len() + end.len(),
        Change::Applied { group, state } => group.len() + state.note.len(),
        _ => 0,
    };
    long + 8 * NUMBER
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::TableMeta;

    #[test]
    fn no_edit_is_much_longer_than_it_may_be_and_none_is_empty() {
        let key = |fill: u8| Box::<[u8]>::from(vec![fill; 300 << 10]);
        let added = |number: u64| {
            let (smallest, largest) = (key(number as u8), key(number as u8));
            let meta = TableMeta { number, smallest, largest, ..TableMeta::default() };
            Change::TableAdded { id: KeyspaceId(1), level: 0, run: number, meta }
        };
        let mut state = StateEdits::default();
        (0..10).for_each(|number| state.push(added(number)));
        let edits = state.into_edits();
        let counts: Vec<usize> = edits.iter().map(|edit| edit.changes.len()).collect();
        assert_eq!(counts, [2; 5], "600 KiB each");
        let all: Vec<Change> = edits.into_iter().flat_map(|edit| edit.changes).collect();
        assert_eq!(all, (0..10).map(added).collect::<Vec<_>>());
        assert_eq!(StateEdits::default().into_edits(), []);
        let mut state = StateEdits::default();
        state.push(Change::NextNumber(1));
        state.begin();
        state.push(Change::NextNumber(2));
        assert_eq!(state.into_edits().len(), 2);
    }
}

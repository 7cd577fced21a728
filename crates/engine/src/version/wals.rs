//! The write-ahead logs that a manifest names.

use super::edit::Change;
use super::state_edits::StateEdits;
use esker_base::Seq;
use std::collections::BTreeMap;

/// What a manifest says of a write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedWal {
    /// As in its header.
    pub(crate) salt: u64,
    /// As in its header; `None` if no edit has told yet: then no table holds anything of it.
    pub(crate) first_seq: Option<Seq>,
}

/// Live write-ahead logs, by number; and the number below which none is needed, whatever is there.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedWals(pub(crate) BTreeMap<u64, NamedWal>, pub(crate) u64);

impl NamedWals {
    /// Takes a change into account; those that are not about logs change nothing.
    pub(crate) fn apply(&mut self, change: &Change) -> Result<(), &'static str> {
        match change {
            Change::WalCreated { number, salt } => {
                self.0.insert(*number, NamedWal { salt: *salt, first_seq: None });
            }
            Change::WalBegun { number, first_seq } => {
                let wal = self.0.get_mut(number);
                wal.ok_or("an edit begins a log that does not exist")?.first_seq = Some(*first_seq);
            }
            Change::WalMin(min) => {
                self.0.retain(|number, _| number >= min);
                self.1 = self.1.max(*min);
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds what would make these logs known.
    pub(super) fn describe_in(&self, state: &mut StateEdits) {
        if self.1 > 0 {
            state.push(Change::WalMin(self.1));
        }
        for (&number, wal) in &self.0 {
            state.push(Change::WalCreated { number, salt: wal.salt });
            if let Some(first_seq) = wal.first_seq {
                state.push(Change::WalBegun { number, first_seq });
            }
        }
    }
}

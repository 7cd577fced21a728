//! What can still be read of a manifest, and writing one anew: for repair.

use super::edit::{Change, TableMeta, VersionEdit};
use super::manifest::Manifest;
use super::recovered::Recovered;
use super::state_edits::StateEdits;
use super::store::TableStore;
use crate::log::{Gap, LogKind, Piece, Reader, Salvager};
use crate::names;
use esker_base::{Env, KeyspaceId, Result, Seq};
use std::path::Path;

/// A manifest, as far as it can be read.
#[derive(Debug)]
pub(crate) struct ManifestRemains {
    pub(crate) number: u64,
    pub(crate) salt: Option<u64>,
    /// What is wrong with the header.
    pub(crate) header_damage: Option<&'static str>,
    /// Readable edits in order, those behind damage included.
    pub(crate) edits: Vec<VersionEdit>,
    /// The state after all edits, if every one of them could be read and fits.
    pub(crate) state: Option<Recovered>,
    pub(crate) gaps: Vec<Gap>,
    /// Edits that do not decode, by offset.
    pub(crate) malformed: Vec<u64>,
    /// The furthest offset that a mark vouches for; 0 if the manifest was never completed.
    pub(crate) durable_bytes: u64,
    /// Where the last readable record ends, marks included.
    pub(crate) end_bytes: u64,
    /// Where the last readable edit ends.
    pub(crate) edits_end_bytes: u64,
}

impl ManifestRemains {
    /// Reads manifest `number`. `salt` is used if its header is unreadable.
    ///
    /// # Errors
    /// Of the file system only.
    pub(crate) fn read(
        env: &Env,
        dir: &Path,
        number: u64,
        salt: Option<u64>,
    ) -> Result<ManifestRemains> {
        let path = names::manifest(dir, number);
        let mut log = Salvager::open(env.vfs.as_ref(), &path, salt)?;
        let header = log.header();
        let mut remains = ManifestRemains {
            number,
            salt: header.map_or(salt, |header| Some(header.salt)),
            header_damage: match header {
                Ok(h) if h.kind == LogKind::Manifest && h.number == number => None,
                Ok(_) => Some("the log belongs to another file name"),
                Err(fault) => Some(fault.what()),
            },
            edits: Vec::new(),
            state: Some(Recovered::default()),
            gaps: Vec::new(),
            malformed: Vec::new(),
            durable_bytes: 0,
            end_bytes: 0,
            edits_end_bytes: 0,
        };
        while let Some(piece) = log.next()? {
            remains.take(piece);
        }
        if remains.header_damage.is_some() {
            remains.state = None;
        }
        Ok(remains)
    }

    /// True if manifest `number` holds nothing but the beginning of what that of a new database
    /// does: then nobody ever had a database there, and the creation was cut off.
    ///
    /// # Errors
    /// `Corruption` if it is no manifest of ours; of the file system.
    pub(crate) fn is_of_creation(env: &Env, dir: &Path, number: u64) -> Result<bool> {
        let path = names::manifest(dir, number);
        let begun = Reader::open(env.vfs.as_ref(), &path, LogKind::Manifest, number, 0)?;
        if begun.header().is_none() {
            return Ok(true);
        }
        let remains = ManifestRemains::read(env, dir, number, None)?;
        let torn = |gap: &Gap| gap.is_tail && remains.durable_bytes <= gap.offset_bytes;
        let begins = |change: &Change| match change {
            Change::NextNumber(_) => true,
            Change::KeyspaceCreated { id, .. } => *id == KeyspaceId::DEFAULT,
            Change::Flushed { seq, .. } => *seq == 0,
            _ => false,
        };
        Ok(remains.malformed.is_empty()
            && remains.gaps.iter().all(torn)
            && remains.edits.iter().flat_map(|edit| &edit.changes).all(begins))
    }

    fn take(&mut self, piece: Piece<'_>) {
        match piece {
            Piece::Mark { end_bytes, durable_bytes, .. } => {
                self.durable_bytes = self.durable_bytes.max(durable_bytes);
                self.end_bytes = end_bytes;
            }
            Piece::Gap(gap) => {
                // A tail that nobody vouches for takes nothing from the state.
                if !gap.is_tail {
                    self.state = None;
                }
                self.gaps.push(gap);
            }
            Piece::Value { offset_bytes, end_bytes, .. } => {
                self.end_bytes = end_bytes;
                self.malformed.push(offset_bytes);
                self.state = None;
            }
            Piece::Record { offset_bytes, end_bytes, payload } => {
                self.end_bytes = end_bytes;
                self.edits_end_bytes = end_bytes;
                let Ok(edit) = VersionEdit::decode(payload) else {
                    self.malformed.push(offset_bytes);
                    self.state = None;
                    return;
                };
                if let Some(state) = &mut self.state {
                    let applied = edit.changes.iter().cloned().try_for_each(|c| state.apply(c));
                    if applied.is_err() {
                        self.malformed.push(offset_bytes);
                        self.state = None;
                    }
                }
                self.edits.push(edit);
            }
        }
    }
}

/// What some manifest said of a table.
#[derive(Clone, Debug)]
pub(crate) struct TableFact {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) meta: TableMeta,
    /// A later edit took it out.
    pub(crate) removed: bool,
}

/// Writes a manifest that holds `state`, as of a close at `last_seq`, and makes it the one in
/// force.
///
/// Its number, and all numbers that `state` leaves for later, come from `store`.
pub(crate) fn write_state(store: &TableStore, state: &Recovered, last_seq: Seq) -> Result<u64> {
    let number = store.new_number();
    let mut edits = StateEdits::default();
    edits.push(Change::NextNumber(store.peek_number()));
    state.wals.describe_in(&mut edits);
    state.values.describe_in(&mut edits);
    edits.begin();
    state.groups.describe_in(&mut edits);
    for (&id, raw) in &state.keyspaces {
        edits.begin();
        let (name, order) = (raw.name.clone(), raw.order.clone());
        edits.push(Change::KeyspaceCreated { id, name, order });
        edits.push(Change::Flushed { id, seq: raw.flushed_seq });
        for erased in &raw.erased {
            edits.push_erased(id, erased);
        }
        for (&(level, _), (run, meta)) in &raw.tables {
            edits.push(Change::TableAdded { id, level, run: *run, meta: meta.clone() });
        }
    }
    edits.begin();
    edits.push(Change::Closed(last_seq));
    Manifest::create(store, number, &edits.into_edits())?.finish()?;
    Ok(number)
}

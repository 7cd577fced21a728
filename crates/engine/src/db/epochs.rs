//! What was applied of somebody else's logs, by whether it is persistent yet. `external` says what
//! for, `application` how most requests pass this by.

use super::group_range::GroupRange;
use super::progress::{EpochId, Groups, Progress};
use crate::version::{GroupState, NamedGroups, Written};
use esker_base::{Error, KeyspaceId, Result, Seq};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

/// Bytes of the names and notes of an epoch from which the next one is begun, however little
/// memtables hold: far less than an edit of the manifest may have, which names them all.
const NAMED_BYTES_MAX: u64 = 64 << 20;

/// Writers wait while sealed epochs name so many times as much.
const WAITING_MAX: u64 = 2;

/// What a group takes in an edit, about.
fn named_bytes(progress: &Progress) -> u64 {
    (progress.group.len() + progress.note.len() + size_of::<Progress>()) as u64
}

/// How far the log of a group was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupIndex {
    /// The group.
    pub group: Vec<u8>,
    /// Index of the newest request that was applied.
    pub applied: u64,
    /// Index of the newest request that tables hold, with all before it and none behind it: what a
    /// crash would go back to. 0 if there is none.
    pub persisted: u64,
    /// The note of the newest request that was applied.
    pub note: Vec<u8>,
}

/// A group that has come from another store, its files in place. Its epoch comes into force with
/// it, or neither does.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) range: Arc<GroupRange>,
    /// How far it was applied.
    pub(super) state: GroupState,
    /// What was there of the group up to here is erased.
    pub(super) erased_seq: Seq,
    /// All that has come counts as written at this moment, which is after that.
    pub(super) seq: Seq,
    /// Its files, by keyspace.
    pub(super) parts: Vec<(KeyspaceId, Written)>,
}

/// Memtables that were sealed together.
pub(super) struct Epoch {
    /// Tells it from others: the `next_wal` of its memtables.
    pub(super) number: u64,
    /// The newest sequence number in it.
    pub(super) seq: Seq,
    pub(super) applied: Groups,
    /// What its groups take in the edit that will name them.
    pub(super) named_bytes: u64,
    /// What comes into force with it.
    pub(super) arrival: Option<Arc<Arrival>>,
}

impl Epoch {
    /// True if this group arrives with it.
    pub(super) fn brings(&self, group: &[u8]) -> bool {
        self.arrival.as_ref().is_some_and(|arrival| *arrival.range.group == *group)
    }
}

/// What was applied, by whether it is persistent yet.
pub(super) struct Epochs {
    /// The groups of all lists, and those that arrive. None begins another.
    pub(super) names: BTreeSet<Arc<[u8]>>,
    /// Of the epoch that is not sealed.
    current: EpochId,
    /// What the active memtables hold.
    pub(super) active: Groups,
    /// What these groups take in the edit that will name them.
    active_bytes: u64,
    /// From here on an epoch is full.
    pub(super) active_bytes_max: u64,
    /// Sealed ones, oldest first.
    pub(super) sealed: VecDeque<Epoch>,
    /// What tables hold.
    pub(super) persisted: Groups,
    pub(super) persisted_seq: Seq,
}

impl Epochs {
    pub(super) fn new(current: EpochId, groups: &NamedGroups, last_seq: Seq) -> Epochs {
        let persisted = groups.0.iter().map(|(group, state)| {
            (group.clone(), Progress::of_no_epoch(group.clone(), state.clone(), last_seq))
        });
        Epochs {
            names: groups.0.keys().cloned().collect(),
            current,
            active: Groups::default(),
            active_bytes: 0,
            active_bytes_max: NAMED_BYTES_MAX,
            sealed: VecDeque::new(),
            persisted: persisted.collect(),
            persisted_seq: last_seq,
        }
    }

    /// The epoch that is not sealed.
    pub(super) fn current(&self) -> EpochId {
        self.current
    }

    /// Begins the next epoch. Returns what was applied in the one that ends, and what that takes in
    /// an edit.
    pub(super) fn begin(&mut self) -> (Groups, u64) {
        self.current = EpochId::new();
        (std::mem::take(&mut self.active), std::mem::take(&mut self.active_bytes))
    }

    /// The oldest sealed epoch, if those that are not flushed yet name so much that nothing more
    /// should be sealed: it is memory that no budget counts.
    pub(super) fn oldest_of_too_many(&self) -> Option<u64> {
        let waiting: u64 = self.sealed.iter().map(|epoch| epoch.named_bytes).sum();
        let oldest = self.sealed.front().map(|epoch| epoch.number);
        oldest.filter(|_| waiting >= WAITING_MAX * self.active_bytes_max)
    }

    /// True if groups and notes of the epoch that is not sealed are as many as one edit should
    /// name.
    pub(super) fn is_full(&self) -> bool {
        self.active_bytes >= self.active_bytes_max
    }

    /// How far the log of a group was applied.
    fn applied(&self, group: &[u8]) -> Option<&Arc<Progress>> {
        let sealed = self.sealed.iter().rev().map(|epoch| &epoch.applied);
        let all = std::iter::once(&self.active).chain(sealed).chain([&self.persisted]);
        all.into_iter().find_map(|groups| groups.get(group))
    }

    /// Takes back what was to arrive with an epoch. `None` if it is in force.
    pub(super) fn withdraw(&mut self, number: u64) -> Option<Arc<Arrival>> {
        let epoch = self.sealed.iter_mut().find(|epoch| epoch.number == number)?;
        let arrival = epoch.arrival.take()?;
        if self.applied(&arrival.range.group).is_none() {
            self.names.remove(&arrival.range.group);
        }
        Some(arrival)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.sealed.is_empty()
    }

    /// Notes a request of the group, and with the note, of `asked`, whose last sequence number will
    /// be `last_seq`. Returns where the next one is noted. Under the right to write.
    ///
    /// # Errors
    /// `InvalidArgument` if the request was applied before, or cannot be applied now.
    pub(super) fn note(
        &mut self,
        asked: &Progress,
        index: u64,
        last_seq: Seq,
    ) -> Result<Arc<Progress>> {
        let Progress { group, note, .. } = asked;
        let newest = self.active.get(group);
        if let Some(newest) = newest
            && newest.note == *note
        {
            newest.advance(index, last_seq)?;
            return Ok(newest.clone());
        }
        if newest.is_none() && self.sealed.iter().any(|epoch| epoch.brings(group)) {
            return Err(Error::invalid(format!(
                "group {} is just coming as files: apply nothing to it until ingest_group has returned",
                group.escape_ascii()
            )));
        }
        match self.applied(group) {
            Some(newest) => newest.check_newer(index)?,
            None if index == 0 => {
                return Err(Error::invalid(format!(
                    "group {}: request 0, which stands for none: begin with 1 or more",
                    group.escape_ascii()
                )));
            }
            None => self.check_apart(group)?,
        }
        let state = GroupState { index, note: note.clone() };
        let progress = Progress::new(self.current, group.clone(), state, last_seq);
        self.names.insert(group.clone());
        self.active_bytes += named_bytes(&progress);
        if let Some(former) = self.active.insert(group.clone(), progress.clone()) {
            self.active_bytes -= self.active_bytes.min(named_bytes(&former));
            former.retire();
        }
        Ok(progress)
    }

    /// From now on requests of a group are noted here. Under the right to write.
    pub(super) fn retire(&self, group: &[u8]) {
        if let Some(progress) = self.active.get(group) {
            progress.retire();
        }
    }

    /// Gives up what was applied to a group before this sequence number was taken.
    pub(super) fn forget(&mut self, group: &[u8], seq: Seq) {
        let leave = |groups: &mut Groups| match groups.get(group) {
            Some(progress) if progress.is_before(seq) => groups.remove(group),
            _ => None,
        };
        if let Some(gone) = leave(&mut self.active) {
            self.active_bytes -= self.active_bytes.min(named_bytes(&gone));
        }
        leave(&mut self.persisted);
        for epoch in &mut self.sealed {
            if let Some(gone) = leave(&mut epoch.applied) {
                epoch.named_bytes -= epoch.named_bytes.min(named_bytes(&gone));
            }
        }
        if self.applied(group).is_none() {
            self.names.remove(group);
        }
    }

    /// Fails if the name of a group begins another one's, or the other way round: what belongs to
    /// which could not be told.
    pub(super) fn check_apart(&self, group: &[u8]) -> Result<()> {
        // As none begins another, one that does would stand right before or behind.
        let behind = (Bound::Excluded(group), Bound::Unbounded);
        let before =
            self.names.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(group))).next_back();
        let mut beside = before.into_iter().chain(self.names.range::<[u8], _>(behind).next());
        match beside.find(|other| other.starts_with(group) || group.starts_with(other)) {
            None => Ok(()),
            Some(other) => Err(Error::invalid(format!(
                "the name of group {} and that of group {} begin alike: end names with a byte that occurs nowhere else in them",
                group.escape_ascii(),
                other.escape_ascii()
            ))),
        }
    }

    /// How far the log of a group was applied, and from which sequence number on that is seen.
    pub(super) fn index_of(&self, group: &[u8]) -> Option<(GroupIndex, Seq)> {
        let progress = self.applied(group)?;
        let GroupState { index, note } = progress.state();
        let persisted = self.persisted.get(group).map_or(0, |progress| progress.index());
        let (group, note) = (group.to_vec(), note.to_vec());
        Some((GroupIndex { group, applied: index, persisted, note }, progress.last_seq()))
    }
}

//! What was applied of somebody else's logs, by whether it is persistent yet. `external` says what for.

use super::group_range::{GroupRange, check_name};
use crate::version::{GroupState, NOTE_BYTES_MAX, NamedGroups, Written};
use esker_base::checksum::{hash64, mix64};
use esker_base::{Error, KeyspaceId, Result, Seq};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Where a request stands in its group's log.
#[derive(Clone, Copy, Debug)]
pub struct Applied<'a> {
    /// The group: the beginning of its keys. 1 B to 1 KiB.
    pub group: &'a [u8],
    /// Index of the request in the log of its group, above that of all that were applied before.
    pub index: u64,
    /// What else must be known after a crash, such as the term of the request and the members of the group. It is kept with the
    /// index and comes back with it. At most 64 KiB.
    pub note: &'a [u8],
}

/// How far the log of a group was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupIndex {
    /// The group.
    pub group: Vec<u8>,
    /// Index of the newest request that was applied.
    pub applied: u64,
    /// Index of the newest request that tables hold, with all before it and none behind it: what a crash would go back to. 0 if
    /// there is none.
    pub persisted: u64,
    /// The note of the newest request that was applied.
    pub note: Vec<u8>,
}

/// As [`Applied`], on its way through the write queue. Its memory is used again by the next request of the thread.
#[derive(Debug, Default)]
pub(super) struct Application {
    pub(super) group: Vec<u8>,
    pub(super) index: u64,
    pub(super) note: Vec<u8>,
}

esker_base::sync::thread_local! {
    static REUSED: RefCell<Option<Box<Application>>> = RefCell::new(Some(Box::default()));
}

impl Application {
    /// # Errors
    /// `InvalidArgument` if a length is not allowed.
    pub(super) fn new(applied: &Applied<'_>) -> Result<Box<Application>> {
        let Applied { group, index, note } = *applied;
        check_name(group)?;
        if note.len() > NOTE_BYTES_MAX {
            return Err(Error::invalid("the note of a request is longer than 64 KiB"));
        }
        // A thread that is ending has none any more.
        let reused = REUSED.try_with(|reused| reused.try_borrow_mut().ok()?.take());
        let mut application = reused.ok().flatten().unwrap_or_default();
        application.group.clear();
        application.group.extend_from_slice(group);
        application.index = index;
        application.note.clear();
        application.note.extend_from_slice(note);
        Ok(application)
    }

    /// Keeps the memory for this thread's next request.
    pub(super) fn give_back(self: Box<Application>) {
        let _ = REUSED.try_with(|reused| {
            if let Ok(mut reused) = reused.try_borrow_mut() {
                *reused = Some(self);
            }
        });
    }
}

/// How far groups were applied, and the sequence number that was newest before the request.
pub(super) type Groups = HashMap<Arc<[u8]>, (GroupState, Seq), BuildHasherDefault<NameHasher>>;

/// Hashes names of groups, which are short.
#[derive(Default)]
pub(super) struct NameHasher(u64);

impl Hasher for NameHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0 = mix64(self.0) ^ hash64(bytes);
    }

    #[inline]
    fn write_usize(&mut self, length: usize) {
        self.0 ^= length as u64;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// A group that has come from another store, its files in place. Its epoch comes into force with it, or neither does.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) range: GroupRange,
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
    /// What the active memtables hold.
    pub(super) active: Groups,
    /// Sealed ones, oldest first.
    pub(super) sealed: VecDeque<Epoch>,
    /// What tables hold.
    pub(super) persisted: Groups,
    pub(super) persisted_seq: Seq,
}

#[cold]
fn not_again(application: &Application, newest: u64) -> Error {
    Error::invalid(format!(
        "request {} of group {} was not applied: the newest that was is {newest}",
        application.index,
        application.group.escape_ascii()
    ))
}

impl Epochs {
    pub(super) fn new(groups: &NamedGroups, last_seq: Seq) -> Epochs {
        let persisted =
            groups.0.iter().map(|(group, state)| (group.clone(), (state.clone(), last_seq)));
        Epochs {
            active: Groups::default(),
            sealed: VecDeque::new(),
            persisted: persisted.collect(),
            persisted_seq: last_seq,
        }
    }

    /// How far the log of a group was applied.
    pub(super) fn applied(&self, group: &[u8]) -> Option<&GroupState> {
        let sealed = self.sealed.iter().rev().map(|epoch| &epoch.applied);
        let all = std::iter::once(&self.active).chain(sealed).chain([&self.persisted]);
        all.into_iter().find_map(|groups| groups.get(group)).map(|(state, _)| state)
    }

    /// The number of the newest epoch that a group arrives with.
    pub(super) fn newest_arrival(&self) -> Option<u64> {
        self.sealed.iter().rev().find(|epoch| epoch.arrival.is_some()).map(|epoch| epoch.number)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.sealed.is_empty()
    }

    /// Notes how far the log of a group is applied. The newest sequence number before the request is `last_seq`.
    ///
    /// # Errors
    /// `InvalidArgument` if the request was applied before, or cannot be applied now.
    #[inline]
    pub(super) fn note(&mut self, application: &Application, last_seq: Seq) -> Result<()> {
        let Application { group, index, note } = application;
        let Some((state, seq)) = self.active.get_mut(&group[..]) else {
            return self.note_first(application, last_seq);
        };
        if *index <= state.index {
            return Err(not_again(application, state.index));
        }
        (state.index, *seq) = (*index, last_seq);
        // It often says the same, such as a term.
        if *state.note != note[..] {
            state.note = note[..].into();
        }
        Ok(())
    }

    /// The same for the first request of the group in this epoch.
    #[cold]
    fn note_first(&mut self, application: &Application, last_seq: Seq) -> Result<()> {
        let Application { group, index, note } = application;
        if self.sealed.iter().any(|epoch| epoch.brings(group)) {
            return Err(Error::invalid(format!(
                "group {} has come as files that are not in force yet: flush it, or delete it, before anything is applied to it",
                group.escape_ascii()
            )));
        }
        match self.applied(group) {
            Some(newest) if *index <= newest.index => {
                return Err(not_again(application, newest.index));
            }
            Some(_) => {}
            None => self.check_apart(group)?,
        }
        let state = GroupState { index: *index, note: note[..].into() };
        self.active.insert(group[..].into(), (state, last_seq));
        Ok(())
    }

    /// Fails if the name of a new group begins another one's, or the other way round: what belongs to which could not be told.
    pub(super) fn check_apart(&self, group: &[u8]) -> Result<()> {
        let sealed = self.sealed.iter().flat_map(|epoch| epoch.applied.keys());
        let mut known = self.persisted.keys().chain(sealed).chain(self.active.keys());
        let overlaps = |other: &&Arc<[u8]>| {
            ***other != *group && (other.starts_with(group) || group.starts_with(other))
        };
        match known.find(overlaps) {
            None => Ok(()),
            Some(other) => Err(Error::invalid(format!(
                "the name of group {} and that of group {} begin alike: end names with a byte that occurs nowhere else in them",
                group.escape_ascii(),
                other.escape_ascii()
            ))),
        }
    }

    pub(super) fn index_of(&self, group: &Arc<[u8]>) -> Option<GroupIndex> {
        let applied = self.applied(group)?;
        Some(GroupIndex {
            group: group.to_vec(),
            applied: applied.index,
            persisted: self.persisted.get(group).map_or(0, |(state, _)| state.index),
            note: applied.note.to_vec(),
        })
    }
}

//! The log of one group, as a consensus protocol would keep it.
//!
//! It is in memory and outlives everything: crashes are those of replicas. Entries have indexes
//! from 1 on. It is cut off at its beginning when nobody needs the oldest entries any more.

use std::collections::VecDeque;

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// The key, without the name of its group.
    pub key: Vec<u8>,
    /// The value that it gets; `None` removes it.
    pub value: Option<Vec<u8>>,
}

/// A request, as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The term of the leader that put it there.
    pub term: u64,
    /// What it changes. Nothing at all is fine; leaders begin their terms with such entries.
    pub ops: Vec<Op>,
}

/// The log of a group.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Index and term of the newest entry that was cut off, both 0 if none was.
    cut: (u64, u64),
    entries: VecDeque<Entry>,
}

impl Log {
    /// Appends an entry; returns its index.
    pub fn append(&mut self, entry: Entry) -> u64 {
        self.entries.push_back(entry);
        self.last()
    }

    /// Index of the newest entry; 0 if there never was one.
    pub fn last(&self) -> u64 {
        self.cut.0 + self.entries.len() as u64
    }

    /// Index of the newest entry that was cut off; 0 if none was.
    pub fn cut(&self) -> u64 {
        self.cut.0
    }

    /// Entries that are there.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// An entry; `None` if it was cut off, or is not there yet.
    pub fn get(&self, index: u64) -> Option<&Entry> {
        self.entries.get(index.checked_sub(self.cut.0 + 1)? as usize)
    }

    /// The entries behind an index, with theirs. It must not be one before which the log was cut
    /// off.
    pub fn behind(&self, index: u64) -> impl Iterator<Item = (u64, &Entry)> {
        assert!(index >= self.cut.0, "entries behind {index} are gone");
        (index + 1..).zip(self.entries.iter().skip((index - self.cut.0) as usize))
    }

    /// The term of an entry; the newest that was cut off is still known.
    pub fn term(&self, index: u64) -> Option<u64> {
        let (cut, term) = self.cut;
        if index == cut { Some(term) } else { self.get(index).map(|entry| entry.term) }
    }

    /// Forgets entries up to this index, as far as they are there.
    pub fn cut_off(&mut self, index: u64) {
        while self.cut.0 < index
            && let Some(entry) = self.entries.pop_front()
        {
            self.cut = (self.cut.0 + 1, entry.term);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_stay_when_the_beginning_is_cut_off() {
        let mut log = Log::default();
        assert_eq!((log.last(), log.term(0), log.get(0)), (0, Some(0), None));
        for term in [1, 1, 2, 3] {
            log.append(Entry { term, ops: Vec::new() });
        }
        log.cut_off(3);
        log.cut_off(2);
        assert_eq!((log.cut(), log.last(), log.len()), (3, 4, 1));
        assert_eq!(
            (log.term(2), log.term(3), log.term(4), log.term(5)),
            (None, Some(2), Some(3), None)
        );
        assert!(log.get(3).is_none() && log.get(4).is_some());
        assert_eq!(
            log.behind(3).map(|(index, entry)| (index, entry.term)).collect::<Vec<_>>(),
            [(4, 3)]
        );
        assert_eq!(log.behind(4).count(), 0);
        log.cut_off(99);
        assert_eq!((log.cut(), log.last(), log.is_empty()), (4, 4, true));
        assert_eq!(log.append(Entry { term: 4, ops: Vec::new() }), 5);
    }
}

//! Scans that give pairs in the order in which their values stand on the disk.
//!
//! ```text
//! walk the keys -> the value stands in the tree: give it at once
//!               -> it stands apart: note where, until memory is full or the range ends
//! sort what was noted by file and place -> read the files front to back, in large pieces -> give it; walk on
//! ```
//!
//! Source: the unordered iterator of the report on key-value separation in LevelDB; ours keeps the
//! keys, so that it can give pairs, counts them against its memory, and reads what lies close
//! together at once.

use super::core::{Core, KeyspaceCore};
use super::scan::Records;
use super::scan_range::ScanOptions;
use crate::value_log::{Sweep, ValueFile};
use esker_base::Result;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// What an entry takes beside its key: itself, and its place once more while its file is read.
const ENTRY_BYTES: usize = size_of::<Noted>() + size_of::<u64>();

/// Lists grow by so many entries at the least.
const STEP: usize = 16;

/// Walks the keys and values of a range in no order that means anything.
///
/// As any cursor it sees the database as it was when it was made, and keeps what it reads alive.
/// After an error it stands on nothing, and ends.
pub struct UnorderedCursor {
    records: Records,
    dir: Arc<Path>,
    memory_bytes: usize,
    keys_only: bool,
    state: State,
    /// The first record was sought.
    begun: bool,
    /// There was no room for the record on which they stand.
    left: bool,
    /// The records are walked through.
    walked: bool,
    /// What was noted is sorted, and being read.
    reading: bool,
    /// Those that what was noted stands in, by number.
    files: BTreeMap<u64, Arc<ValueFile>>,
    noted: Vec<Noted>,
    /// Keys of what was noted, one behind the other.
    keys: Vec<u8>,
    /// Of what was noted, how much was given.
    next: usize,
    reader: Option<FileReader>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Nowhere,
    /// On a record of the tree.
    Walking,
    /// On a value that was read.
    Reading,
}

/// A value that is to be read.
#[derive(Clone, Copy, Debug)]
struct Noted {
    /// Number of the file.
    file: u64,
    /// Where in it the value stands.
    place: u64,
    key_at: usize,
    key_bytes: u32,
}

/// Makes room for `more` in a list that may grow by `left`; by a part of it, so that little of that
/// is in vain. False if that is not enough.
fn grow<T>(list: &mut Vec<T>, more: usize, left: usize) -> bool {
    let needed = (list.len() + more).saturating_sub(list.capacity());
    if needed > left {
        return false;
    }
    if needed > 0 {
        let capacity = list.capacity() + needed.max(STEP).max(list.capacity() / 4).min(left);
        list.reserve_exact(capacity - list.len());
    }
    true
}

/// Reads the values of one file.
struct FileReader {
    /// Of the first value in it, among what was noted.
    first: usize,
    places: Vec<u64>,
    sweep: Sweep,
}

impl Core {
    /// A cursor that stands on nothing yet.
    pub(super) fn scan_unordered(
        &self,
        keyspace: &KeyspaceCore,
        options: &ScanOptions<'_>,
        memory_bytes: usize,
    ) -> Result<UnorderedCursor> {
        Ok(UnorderedCursor {
            records: self.records(keyspace, options)?,
            dir: self.dir.clone(),
            memory_bytes,
            keys_only: options.keys_only,
            state: State::Nowhere,
            begun: false,
            left: false,
            walked: false,
            reading: false,
            files: BTreeMap::new(),
            noted: Vec::new(),
            keys: Vec::new(),
            next: 0,
            reader: None,
        })
    }
}

impl UnorderedCursor {
    /// True if the cursor stands on a key: not before the first [`UnorderedCursor::advance`], nor
    /// after the last.
    #[inline]
    pub fn valid(&self) -> bool {
        self.state != State::Nowhere
    }

    /// Moves to a key that was not given yet; false if there is none.
    ///
    /// # Errors
    /// `Corruption` or `Io` if something cannot be read.
    pub fn advance(&mut self) -> Result<bool> {
        self.state = State::Nowhere;
        match self.step() {
            Ok(state) => {
                self.state = state;
                Ok(self.valid())
            }
            Err(error) => {
                self.walked = true;
                self.forget();
                Err(error)
            }
        }
    }

    fn step(&mut self) -> Result<State> {
        loop {
            if self.reading {
                if self.next < self.noted.len() {
                    self.read_next()?;
                    return Ok(State::Reading);
                }
                self.forget();
            }
            if self.walked {
                return Ok(State::Nowhere);
            }
            if self.walk()? {
                return Ok(State::Walking);
            }
            self.noted.sort_unstable_by_key(|noted| (noted.file, noted.place));
            self.reading = true;
        }
    }

    /// Lets go of what was noted.
    fn forget(&mut self) {
        self.reading = false;
        self.files.clear();
        // Long keys may have left no room for places.
        let is_lopsided = self.keys.capacity() > 2 * self.keys.len();
        self.noted.clear();
        self.keys.clear();
        if is_lopsided {
            self.keys = Vec::new();
        }
        if self.noted_bytes() > self.memory_bytes {
            // A long key.
            (self.noted, self.keys) = (Vec::new(), Vec::new());
        }
        self.next = 0;
        self.reader = None;
    }

    /// Goes on through the records. True if it stands on one that needs no reading.
    fn walk(&mut self) -> Result<bool> {
        loop {
            if self.left {
                self.left = false;
            } else if self.begun {
                self.records.inner.next()?;
            } else {
                self.begun = true;
                self.records.seek_to_first()?;
            }
            if !self.records.inner.valid() {
                self.walked = true;
                return Ok(false);
            }
            if self.keys_only || !self.records.inner.is_pointer() {
                return Ok(true);
            }
            // However little memory there may be, one is read after the other.
            if !self.make_room() && !self.noted.is_empty() {
                self.left = true;
                return Ok(false);
            }
            self.note()?;
        }
    }

    /// Sees to it that the present key can be noted, in no more memory than may be taken. False if
    /// it cannot.
    fn make_room(&mut self) -> bool {
        let (key_bytes, most) = (self.records.inner.key().len(), self.memory_bytes);
        let left = most.saturating_sub(self.noted_bytes());
        if !grow(&mut self.keys, key_bytes, left) {
            return false;
        }
        let left = most.saturating_sub(self.noted_bytes());
        grow(&mut self.noted, 1, left / ENTRY_BYTES)
    }

    /// What is taken for keys and places, those included that will be copied.
    fn noted_bytes(&self) -> usize {
        self.keys.capacity() + self.noted.capacity() * ENTRY_BYTES
    }

    /// Notes where the value of the present record stands.
    fn note(&mut self) -> Result<()> {
        let inner = &self.records.inner;
        let (file, pointer) = self.records.view.follow_pointer(&self.dir, inner.value())?;
        let place = file.place(pointer.log, pointer.offset_bytes)?;
        let number = file.meta.number;
        self.files.entry(number).or_insert(file);
        let key = inner.key();
        self.noted.push(Noted {
            file: number,
            place,
            key_at: self.keys.len(),
            key_bytes: key.len() as u32,
        });
        self.keys.extend_from_slice(key);
        Ok(())
    }

    /// Reads the next value of those that were noted.
    fn read_next(&mut self) -> Result<()> {
        let nth = self.next;
        let file = self.noted[nth].file;
        let reader = match self.reader.take() {
            Some(reader) if nth - reader.first < reader.places.len() => reader,
            _ => {
                let of_file = self.noted[nth..].partition_point(|noted| noted.file == file);
                let mut places = Vec::with_capacity(of_file);
                places.extend(self.noted[nth..][..of_file].iter().map(|noted| noted.place));
                let sweep = self.files[&file].sweep()?;
                FileReader { first: nth, places, sweep }
            }
        };
        let reader = self.reader.insert(reader);
        reader.sweep.read(&reader.places, nth - reader.first)?;
        self.next += 1;
        Ok(())
    }

    /// The key, good until the cursor moves.
    ///
    /// # Panics
    /// If the cursor is not valid.
    pub fn key(&self) -> &[u8] {
        match self.state {
            State::Walking => self.records.inner.key(),
            State::Reading => {
                let noted = &self.noted[self.next - 1];
                &self.keys[noted.key_at..][..noted.key_bytes as usize]
            }
            State::Nowhere => panic!("the cursor stands on no key"),
        }
    }

    /// The value, good until the cursor moves; empty if only keys are read.
    ///
    /// # Panics
    /// If the cursor is not valid.
    pub fn value(&self) -> &[u8] {
        match self.state {
            State::Walking if self.keys_only => &[],
            State::Walking => self.records.inner.value(),
            State::Reading => self.reader.as_ref().expect("a value was read").sweep.value(),
            State::Nowhere => panic!("the cursor stands on no key"),
        }
    }
}

impl Drop for UnorderedCursor {
    fn drop(&mut self) {
        self.records.pay();
    }
}

impl std::fmt::Debug for UnorderedCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnorderedCursor").field("valid", &self.valid()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;
    use crate::db::{Db, Setup};
    use crate::options::{KeyspaceOptions, Options};
    use esker_base::Env;
    use esker_base::vfs::strict::StrictVfs;

    impl UnorderedCursor {
        /// All that it takes for keys and places.
        fn taken_bytes(&self) -> usize {
            let places = self.reader.as_ref().map_or(0, |reader| reader.places.capacity());
            self.keys.capacity()
                + self.noted.capacity() * size_of::<Noted>()
                + places * size_of::<u64>()
        }
    }

    fn open() -> Db {
        let keyspace =
            KeyspaceOptions { value_log_bytes_min: Some(100), ..KeyspaceOptions::default() };
        let options = Options { default_keyspace: keyspace, ..Options::default() };
        let env = Env::with_vfs(Arc::new(StrictVfs::new()), 1);
        let setup = Setup { env, inline_background: true, ..Setup::default() };
        Db::open_with("/db", options, setup).expect("open")
    }

    #[test]
    fn keys_and_places_take_no_more_memory_than_was_said() {
        let db = open();
        let (keys, key_bytes) = (5_000_u32, 20);
        let key = |number: u32| format!("{number:0key_bytes$}").into_bytes();
        (0..keys).for_each(|number| db.put(&key(number), &[7; 100]).expect("put"));
        for memory_bytes in [4 << 10, 10_000, 70_000, 1 << 20] {
            let options = ScanOptions::default();
            let keyspace = db.default_keyspace();
            let mut cursor = keyspace.scan_unordered(&options, memory_bytes).expect("a cursor");
            let (mut found, mut most) = (0, 0);
            while cursor.advance().expect("a value") {
                assert!(cursor.taken_bytes() <= memory_bytes, "{} bytes", cursor.taken_bytes());
                most = most.max(cursor.noted.len());
                found += 1;
            }
            assert_eq!(found, keys);
            assert!(cursor.noted_bytes() <= memory_bytes, "at the end too");
            let fits = (memory_bytes / (key_bytes + ENTRY_BYTES)).min(keys as usize);
            assert!(most * 4 >= fits * 3, "{most} at a time, and {fits} would fit");
        }
    }

    #[test]
    fn long_keys_take_no_room_from_short_ones_that_follow() {
        let db = open();
        (0..100_u32).for_each(|n| {
            db.put(&[&[0; 400][..], &n.to_be_bytes()].concat(), &[7; 100]).expect("put");
        });
        (0..5_000_u32).for_each(|n| {
            db.put(&[b"short", &n.to_be_bytes()[..]].concat(), &[7; 100]).expect("put");
        });
        let (options, keyspace, memory_bytes) =
            (ScanOptions::default(), db.default_keyspace(), 10_000);
        let mut cursor = keyspace.scan_unordered(&options, memory_bytes).expect("a cursor");
        let mut most = 0;
        while cursor.advance().expect("a value") {
            most = most.max(cursor.noted.len());
        }
        let fits = memory_bytes / (9 + ENTRY_BYTES);
        assert!(most * 4 >= fits * 3, "{most} at a time, and {fits} would fit");
    }

    #[test]
    fn a_key_that_is_longer_than_that_is_given_alone_and_its_memory_goes() {
        let db = open();
        let long = [&b"b"[..], &[b'b'; 20_000]].concat();
        for key in [&b"a"[..], &long, b"c", b"d"] {
            db.put(key, &[7; 100]).expect("put");
        }
        let (options, keyspace) = (ScanOptions::default(), db.default_keyspace());
        let mut cursor = keyspace.scan_unordered(&options, 1_000).expect("a cursor");
        let mut found = Vec::new();
        while cursor.advance().expect("a value") {
            let at_once = cursor.noted.len();
            found.push((cursor.key().len(), at_once, cursor.taken_bytes() > 1_000));
        }
        assert_eq!(found, [(1, 1, false), (20_001, 1, true), (1, 2, false), (1, 2, false)]);
    }
}

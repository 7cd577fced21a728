//! The logs of groups, as their owner has them, and what they make of the groups.

use super::told::Told;
use crate::history::{small_options, vary};
use crate::random::Random;
use esker::{
    Applied, Batch, Db, Durability, GroupIndex, GroupPrefix, Keyspace, Options, ScanOptions,
    Snapshot,
};
use std::collections::BTreeMap;

/// Where the store is.
pub(super) const DIR: &str = "/db";

/// The second keyspace.
const OTHER: &str = "other";

/// Keys of a group in a keyspace.
const KEYS: u64 = 12;

/// Keys and values.
pub(super) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// What happens to keys.
#[derive(Clone)]
enum Change {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// A change in the second keyspace or not.
#[derive(Clone)]
struct Op {
    other: bool,
    change: Change,
}

/// Options of a store below a log, with short tables and memtables.
pub(super) fn random_options(random: &mut Random) -> Options {
    let mut options = small_options();
    options.durability = Durability::External;
    vary(&mut options, random);
    let keyspace = &mut options.default_keyspace;
    keyspace.groups = Some(GroupPrefix::Delimiter { byte: b'/' });
    keyspace.group_table_bytes_min = 4 << 10;
    keyspace.table_bytes_max = 16 << 10;
    options
}

/// The name of a group.
pub(super) fn name(group: u64) -> Vec<u8> {
    format!("{group:03}/").into_bytes()
}

/// The index of a group's `nth` request, from 1: other entries of a log are for nobody.
fn index_of(nth: u64) -> u64 {
    3 * nth - nth % 2
}

/// Which request an index is of.
fn nth_of(index: u64) -> u64 {
    index.div_ceil(3)
}

/// The log of one group. Requests are counted from 1.
#[derive(Clone)]
pub(super) struct Log {
    pub(super) name: Vec<u8>,
    /// The group's life, and how many it had: each deletion ends one.
    incarnation: u64,
    incarnations: u64,
    /// What was applied in it.
    requests: Vec<Vec<Op>>,
    /// Requests up to here are persistent for certain.
    persisted: u64,
    /// What the events of the store say, for all groups.
    told: Told,
    /// The group was about to be deleted, and nobody knows whether it is.
    maybe_deleted: bool,
    /// The group was about to be put back to what it was, by files, and nobody knows whether it is.
    maybe_back: Option<Box<Log>>,
}

impl Log {
    pub(super) fn new(group: u64, told: &Told) -> Log {
        Log {
            name: name(group),
            incarnation: 0,
            incarnations: 0,
            requests: Vec::new(),
            persisted: 0,
            told: told.clone(),
            maybe_deleted: false,
            maybe_back: None,
        }
    }

    /// Adds a random request.
    pub(super) fn grow(&mut self, random: &mut Random) {
        let count = if random.one_in(20) { 0 } else { 1 + random.below(5) };
        let key = |random: &mut Random, keys| {
            [&self.name[..], format!("{:02}", random.below(keys)).as_bytes()].concat()
        };
        let request = (0..count).map(|_| {
            let change = match random.below(16) {
                0 => {
                    let (one, other) = (key(random, KEYS), key(random, KEYS + 1));
                    Change::DeleteRange(one.clone().min(other.clone()), one.max(other))
                }
                1..=4 => Change::Delete(key(random, KEYS)),
                _ => {
                    let len = [20, 100, 300, 2_000][random.below(4) as usize];
                    Change::Put(key(random, KEYS), random.bytes(len))
                }
            };
            Op { other: random.one_in(3), change }
        });
        let request = request.collect();
        self.requests.push(request);
    }

    /// The newest request.
    pub(super) fn last(&self) -> u64 {
        self.requests.len() as u64
    }

    /// What is said with a request: the same with several, as terms are, short or long.
    fn note(&self, nth: u64) -> String {
        let (term, len) = (nth / 6, if nth / 6 % 5 == 3 { 300 } else { 0 });
        format!("{}:{term:0len$}", self.incarnation)
    }

    /// Applies a request that is in the log.
    pub(super) fn apply(&self, db: &Db, nth: u64) -> esker::Result<()> {
        let other = db.keyspace(OTHER)?;
        let mut batch = Batch::new();
        for op in &self.requests[nth as usize - 1] {
            let id = if op.other { other.id() } else { db.default_keyspace().id() };
            match &op.change {
                Change::Put(key, value) => batch.put_in(id, key, value),
                Change::Delete(key) => batch.delete_in(id, key),
                Change::DeleteRange(start, end) => batch.delete_range_in(id, start, end),
            };
        }
        let note = self.note(nth);
        let (group, index) = (self.name.as_slice(), index_of(nth));
        db.apply(Applied { group, index, note: note.as_bytes() }, batch)
    }

    /// Deletes the group.
    pub(super) fn delete(&mut self, db: &Db) -> esker::Result<()> {
        self.listen();
        self.maybe_deleted = true;
        db.delete_group(&self.name)?;
        // What is told meanwhile is of a life that is over.
        self.told.take(&self.name);
        self.begin_anew();
        Ok(())
    }

    fn begin_anew(&mut self) {
        self.maybe_deleted = false;
        self.incarnations += 1;
        self.incarnation = self.incarnations;
        self.requests.clear();
        self.persisted = 0;
    }

    /// Writes the group out as files, applies some requests, and takes the files back: it is as it
    /// was then.
    pub(super) fn carry(&mut self, db: &Db, dir: &str, random: &mut Random) -> esker::Result<()> {
        match self.carry_away(db, dir, random)? {
            Some(then) => self.carry_back(db, dir, then),
            None => Ok(()),
        }
    }

    /// Writes the group out as files, and applies some requests. What it was then, if there was
    /// anything of it.
    pub(super) fn carry_away(
        &mut self,
        db: &Db,
        dir: &str,
        random: &mut Random,
    ) -> esker::Result<Option<Box<Log>>> {
        let Some(index) = db.flush_group(&self.name)? else { return Ok(None) };
        self.persisted = nth_of(index);
        let files = db.export_group(&self.name, dir)?;
        let mut then = self.clone();
        then.persisted = nth_of(files.index);
        then.requests.truncate(then.persisted as usize);
        for _ in 0..random.below(20) {
            self.grow(random);
            self.apply(db, self.last())?;
        }
        if random.one_in(4) {
            self.delete(db)?;
        }
        Ok(Some(Box::new(then)))
    }

    /// Takes the files back.
    pub(super) fn carry_back(&mut self, db: &Db, dir: &str, then: Box<Log>) -> esker::Result<()> {
        self.listen();
        self.maybe_back = Some(then);
        db.ingest_group(&self.name, dir)?;
        self.told.take(&self.name);
        self.go_back();
        Ok(())
    }

    fn go_back(&mut self) {
        if let Some(then) = self.maybe_back.take() {
            *self = Log { incarnations: self.incarnations, ..*then };
        }
    }

    /// True if nobody knows what became of the last thing that was done with the group as a whole.
    pub(super) fn is_uncertain(&self) -> bool {
        self.maybe_deleted || self.maybe_back.is_some()
    }

    /// True if nothing of it must be there.
    pub(super) fn is_free(&self) -> bool {
        self.persisted == 0
    }

    /// The store says that requests up to this index are persistent.
    pub(super) fn told_persisted(&mut self, index: u64) {
        self.persisted = self.persisted.max(nth_of(index));
    }

    /// Notes what the events of the store say, unless it may be of what the group is to become.
    pub(super) fn listen(&mut self) {
        if let Some(index) = self.told.take(&self.name)
            && self.maybe_back.is_none()
        {
            self.told_persisted(index);
        }
    }

    /// Everything that was applied is persistent.
    pub(super) fn all_persisted(&mut self) {
        self.persisted = self.last();
    }

    /// The newest request that was applied.
    pub(super) fn applied(&self, db: &Db) -> u64 {
        db.group(&self.name).map_or(0, |group| nth_of(group.applied))
    }

    /// What the keyspaces hold of the group after a request.
    fn state(&self, nth: u64) -> [Pairs; 2] {
        let mut state = [Pairs::new(), Pairs::new()];
        for op in self.requests[..nth as usize].iter().flatten() {
            let pairs = &mut state[usize::from(op.other)];
            match &op.change {
                Change::Put(key, value) => drop(pairs.insert(key.clone(), value.clone())),
                Change::Delete(key) => drop(pairs.remove(key)),
                Change::DeleteRange(start, end) => {
                    pairs.retain(|key, _| key < start || key >= end);
                }
            }
        }
        state
    }

    /// Compares the group with its log, right after the store was opened. Returns the index up to
    /// which it is applied.
    pub(super) fn check(&mut self, db: &Db) -> Result<u64, String> {
        let shown = self.name.escape_ascii().to_string();
        let known = db.group(&self.name);
        let index = self.applied(db);
        let back = self.maybe_back.as_deref();
        let is_back = known.as_ref().zip(back).is_some_and(|(group, then)| {
            index == then.last() && group.note == then.note(index).into_bytes()
        });
        if is_back {
            self.go_back();
        }
        self.maybe_back = None;
        if known.is_none() && self.maybe_deleted {
            // It is.
            self.begin_anew();
        }
        self.maybe_deleted = false;
        if index < self.persisted || index > self.last() {
            let (least, last) = (self.persisted, self.last());
            return Err(format!("group {shown} is at {index}, not within {least} to {last}"));
        }
        if let Some(group) = known
            && (group.applied != index_of(index)
                || group.persisted != group.applied
                || group.note != self.note(index).into_bytes())
        {
            let note = group.note.escape_ascii();
            let GroupIndex { applied, persisted, .. } = group;
            return Err(format!("group {shown} at {index} says {applied}, {persisted}, {note}"));
        }
        self.compare(db, index)?;
        self.persisted = index;
        Ok(index)
    }

    /// Compares what a crash would leave with the log, while others apply and everything is
    /// flushed. What is wrong.
    pub(super) fn check_persisted(&self, db: &Db) -> esker::Result<Option<String>> {
        let persisted = || db.group(&self.name).map_or(0, |group| nth_of(group.persisted));
        let least = persisted();
        let snapshot = db.persisted_snapshot()?;
        let most = persisted();
        let found = self.at(db, &snapshot)?;
        if (least..=most).any(|nth| self.state(nth) == found) {
            return Ok(None);
        }
        let shown = self.name.escape_ascii();
        Ok(Some(format!("what is persistent of group {shown} is not as after {least} to {most}")))
    }

    /// What a crash would leave of it now, by the log, if nothing else is done meanwhile.
    pub(super) fn persisted_state(&self, db: &Db) -> [Pairs; 2] {
        self.state(db.group(&self.name).map_or(0, |group| nth_of(group.persisted)))
    }

    /// What the keyspaces hold of the group at a snapshot.
    pub(super) fn at(&self, db: &Db, snapshot: &Snapshot) -> esker::Result<[Pairs; 2]> {
        let all = |keyspace: &Keyspace| -> esker::Result<Pairs> {
            let (start, end) = (self.name.clone(), [&self.name[..3], b"0"].concat());
            let options = ScanOptions {
                start: Some(start),
                end: Some(end),
                snapshot: Some(snapshot),
                ..ScanOptions::default()
            };
            let (mut cursor, mut pairs) = (keyspace.scan(&options)?, Pairs::new());
            cursor.seek_to_first()?;
            while cursor.valid() {
                pairs.insert(cursor.key().to_vec(), cursor.value().to_vec());
                cursor.next()?;
            }
            Ok(pairs)
        };
        Ok([all(db.default_keyspace())?, all(&db.keyspace(OTHER)?)?])
    }

    /// Compares what is in the store with the group after a request.
    pub(super) fn compare(&self, db: &Db, index: u64) -> Result<(), String> {
        let shown = self.name.escape_ascii();
        let expected = self.state(index);
        let other = db.keyspace(OTHER).ok();
        for (keyspace, pairs) in [Some(db.default_keyspace()), other.as_ref()].iter().zip(expected)
        {
            let found = match keyspace {
                Some(keyspace) => all_of(keyspace, &self.name).map_err(|e| e.to_string())?,
                None => Pairs::new(),
            };
            if found != pairs {
                let differs = |key: &&Vec<u8>| found.get(*key) != pairs.get(*key);
                let key = found.keys().chain(pairs.keys()).find(differs);
                let key = key.map(|key| key.escape_ascii().to_string()).unwrap_or_default();
                let known = db.group(&self.name);
                return Err(format!(
                    "group {shown} is not as after {index}: key {key} differs; {} found, {} expected; {known:?}, incarnation {}",
                    found.len(),
                    pairs.len(),
                    self.incarnation
                ));
            }
        }
        Ok(())
    }
}

fn all_of(keyspace: &Keyspace, prefix: &[u8]) -> esker::Result<Pairs> {
    keyspace.prefix(prefix)?.collect()
}

/// The second keyspace, made if it is not there.
pub(super) fn make_other(db: &Db, options: &Options) -> esker::Result<()> {
    if db.keyspace(OTHER).is_err() {
        db.create_keyspace(OTHER, options.default_keyspace.clone())?;
    }
    Ok(())
}

//! Stores whose groups are repaired: Esker in four ways, and peers in theirs.

use super::groups::write_key;
use super::groups::{KEY_BYTES, Owner, PAIR_BYTES, VALUE_BYTES, end_of, name, options, values};
use super::watch::written_bytes;
use esker::{Batch, Db, Durability, Options, WriteOptions};
use esker_draw::Outcome;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Pairs of a batch that puts a new state in.
const BATCH: u64 = 64;

/// A way to replace states of groups.
pub trait Way {
    /// What tables call it.
    fn name(&self) -> &str;

    /// Opens a new store, `store` in a directory that is there, for so many groups, with memtables
    /// and tables of about `part_bytes`.
    ///
    /// # Errors
    /// Of the store.
    fn open(&self, dir: &Path, groups: u64, part_bytes: u64) -> Outcome<Box<dyn Replica>>;
}

/// A store with groups, which are ranges of its keys.
pub trait Replica {
    /// Takes out the old state of a group, whose keys stand from `from` on and before `to`.
    ///
    /// # Errors
    /// Of the store; as of all that follow.
    fn remove(&mut self, from: &[u8], to: &[u8], group: u64) -> Outcome<()>;

    /// Writes a part of a state.
    ///
    /// # Errors
    /// Of the store.
    fn write(&mut self, pairs: &Pairs, group: u64) -> Outcome<()>;

    /// Gets states of groups ready that are to come as files.
    ///
    /// # Errors
    /// Of the store.
    fn prepare(&mut self, _groups: Range<u64>, _state: u64, _states: &States<'_>) -> Outcome<()> {
        Ok(())
    }

    /// Takes a state over that was made ready. False if states do not come as files: they are
    /// written then.
    ///
    /// # Errors
    /// Of the store.
    fn take(&mut self, _group: u64, _state: u64) -> Outcome<bool> {
        Ok(false)
    }

    /// Makes all of it outlive a crash.
    ///
    /// # Errors
    /// Of the store.
    fn persist(&mut self) -> Outcome<()>;

    /// Waits until it has no more work.
    ///
    /// # Errors
    /// Of the store.
    fn rest(&mut self) -> Outcome<()>;

    /// Gives back all space of what is not alive.
    ///
    /// # Errors
    /// Of the store.
    fn compact(&mut self) -> Outcome<()>;

    /// Bytes that it has written to its log and tables since it was opened.
    fn written_bytes(&self) -> u64;

    /// Closes it.
    ///
    /// # Errors
    /// Of the store.
    fn close(self: Box<Self>) -> Outcome<()>;
}

/// Pairs in the order of their keys.
#[derive(Debug, Default)]
pub struct Pairs(Vec<u8>);

impl Pairs {
    /// Keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.chunks_exact(PAIR_BYTES as usize).map(|pair| pair.split_at(KEY_BYTES))
    }
}

/// States of groups: so many pairs each, of which a half is in the state before as well.
#[derive(Clone, Copy, Debug)]
pub struct States<'a> {
    /// Pairs of each state.
    pub pairs: u64,
    /// Set once somebody has interrupted.
    pub stop: &'a AtomicBool,
}

impl States<'_> {
    /// Puts a state of a group in, as far as that is not interrupted.
    ///
    /// # Errors
    /// Of the store.
    pub fn insert(&self, replica: &mut dyn Replica, group: u64, state: u64) -> Outcome<()> {
        self.each(group, state, &mut |pairs| replica.write(pairs, group))
    }

    /// Gives a state of a group, part by part, as far as that is not interrupted.
    ///
    /// # Errors
    /// Of whoever takes it.
    pub fn each(
        &self,
        group: u64,
        state: u64,
        take: &mut dyn FnMut(&Pairs) -> Outcome<()>,
    ) -> Outcome<()> {
        let (mut values, mut key, mut pairs) = (values(state), Vec::new(), Pairs::default());
        let first = state * self.pairs / 2;
        let mut number = first;
        while number < first + self.pairs && !self.is_stopped() {
            let end = (number + BATCH).min(first + self.pairs);
            pairs.0.clear();
            for number in number..end {
                write_key(group, number, &mut key);
                pairs.0.extend_from_slice(&key);
                pairs.0.extend_from_slice(&values.give()[..VALUE_BYTES]);
            }
            take(&pairs)?;
            number = end;
        }
        Ok(())
    }

    /// Replaces a state of a group by a new one.
    ///
    /// # Errors
    /// Of the store.
    pub fn replace(&self, replica: &mut dyn Replica, group: u64, state: u64) -> Outcome<()> {
        if self.is_stopped() {
            return Ok(());
        }
        replica.remove(&name(group), &end_of(group), group)?;
        if replica.take(group, state)? { Ok(()) } else { self.insert(replica, group, state) }
    }

    /// True once somebody has interrupted.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Esker's ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ours {
    /// A range tombstone, then batches, in a store with a log and without groups: what a store does
    /// that knows of no groups.
    Range,
    /// The same by requests, in a store without a log.
    RangeApplied,
    /// The group is deleted, then requests put the new state in.
    Group,
    /// The group is deleted, then the new state is taken over as files.
    Files,
}

impl Ours {
    pub(super) const ALL: [Ours; 4] = [Ours::Range, Ours::RangeApplied, Ours::Group, Ours::Files];

    fn options(self, part: u64) -> Options {
        let (durability, grouped) = match self {
            Ours::Range => (Durability::Wal, false),
            Ours::RangeApplied => (Durability::External, false),
            Ours::Group | Ours::Files => (Durability::External, true),
        };
        let mut options = options(durability, grouped);
        options.memtables_bytes_max = 4 * part;
        options.default_keyspace.memtable_bytes = part;
        options.default_keyspace.table_bytes_max = part;
        options.default_keyspace.level_base_bytes = 4 * part;
        options
    }

    fn opened(self, dir: &Path, groups: u64, part: u64) -> Outcome<Esker> {
        let (store, files) = (dir.join("store"), dir.join("files"));
        let db = Db::open(store, self.options(part))?;
        Ok(Esker {
            db,
            way: self,
            owner: Owner::new(groups),
            dir: dir.to_owned(),
            files,
            groups,
            part,
        })
    }
}

impl Way for Ours {
    fn name(&self) -> &str {
        match self {
            Ours::Range => "log, delete_range, batches",
            Ours::RangeApplied => "delete_range, apply",
            Ours::Group => "delete_group, apply",
            Ours::Files => "delete_group, ingest_group",
        }
    }

    fn open(&self, dir: &Path, groups: u64, part_bytes: u64) -> Outcome<Box<dyn Replica>> {
        Ok(Box::new(self.opened(dir, groups, part_bytes)?))
    }
}

/// A store of Esker's.
struct Esker {
    db: Db,
    way: Ours,
    owner: Owner,
    dir: PathBuf,
    /// Where states are that come as files.
    files: PathBuf,
    groups: u64,
    part: u64,
}

impl Esker {
    fn files_of(&self, group: u64, state: u64) -> PathBuf {
        self.files.join(format!("{state}-{group}"))
    }
}

impl Replica for Esker {
    fn remove(&mut self, from: &[u8], to: &[u8], group: u64) -> Outcome<()> {
        match self.way {
            Ours::Range => self.db.delete_range(from, to)?,
            Ours::RangeApplied => {
                let mut batch = Batch::new();
                batch.delete_range(from, to);
                self.owner.apply(&self.db, group, batch)?;
            }
            Ours::Group | Ours::Files => drop(self.db.delete_group(from)?),
        }
        Ok(())
    }

    fn write(&mut self, pairs: &Pairs, group: u64) -> Outcome<()> {
        let mut batch = Batch::new();
        for (key, value) in pairs.iter() {
            batch.put(key, value);
        }
        match self.way {
            Ours::Range => Ok(self.db.write(batch, WriteOptions::default())?),
            _ => self.owner.apply(&self.db, group, batch),
        }
    }

    /// Has another store, which is healthy, export them.
    fn prepare(&mut self, groups: Range<u64>, state: u64, states: &States<'_>) -> Outcome<()> {
        if self.way != Ours::Files {
            return Ok(());
        }
        let source = self.dir.join("source");
        let mut healthy = self.way.opened(&source, self.groups, self.part)?;
        for group in groups.clone() {
            states.insert(&mut healthy, group, state)?;
        }
        healthy.persist()?;
        std::fs::create_dir_all(&self.files)?;
        for group in groups.take_while(|_| !states.is_stopped()) {
            healthy.db.export_group(&name(group), self.files_of(group, state))?;
        }
        healthy.db.close()?;
        std::fs::remove_dir_all(source)?;
        Ok(())
    }

    fn take(&mut self, group: u64, state: u64) -> Outcome<bool> {
        if self.way != Ours::Files {
            return Ok(false);
        }
        let files = self.files_of(group, state);
        self.db.ingest_group(&name(group), &files)?;
        std::fs::remove_dir_all(files)?;
        Ok(true)
    }

    fn persist(&mut self) -> Outcome<()> {
        match self.way {
            Ours::Range => self.db.sync()?,
            _ => self.db.flush()?,
        }
        Ok(())
    }

    fn rest(&mut self) -> Outcome<()> {
        Ok(self.db.wait_idle()?)
    }

    fn compact(&mut self) -> Outcome<()> {
        Ok(self.db.default_keyspace().compact_range(None, None)?)
    }

    fn written_bytes(&self) -> u64 {
        written_bytes(&self.db)
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(self.db.close()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_follow_each_other_in_every_way() {
        for way in Ours::ALL {
            let unique = format!("esker-repair-test-{way:?}-{}", std::process::id());
            let dir = std::env::temp_dir().join(unique);
            let stop = AtomicBool::new(false);
            let states = States { pairs: 200, stop: &stop };
            let mut replica = way.opened(&dir, 3, 1 << 20).expect("a store");
            for group in 0..3 {
                states.insert(&mut replica, group, 0).expect("inserted");
            }
            replica.persist().expect("persistent");
            replica.prepare(1..2, 1, &states).expect("ready");
            states.replace(&mut replica, 1, 1).expect("replaced");
            replica.persist().expect("persistent");
            let keys = replica.db.iter().expect("a scan").map(|pair| pair.map(|pair| pair.0));
            let keys = keys.collect::<esker::Result<Vec<_>>>().expect("all keys");
            let numbered = |(group, number): (u64, u64)| {
                let mut key = Vec::new();
                write_key(group, number, &mut key);
                key
            };
            let of = |group, first| (first..first + 200).map(move |number| (group, number));
            let expected = of(0, 0).chain(of(1, 100)).chain(of(2, 0)).map(numbered);
            assert!(keys == expected.collect::<Vec<_>>(), "{way:?}: {} keys", keys.len());
            assert!(replica.written_bytes() > 0, "{way:?}");
            Box::new(replica).close().expect("closed");
            std::fs::remove_dir_all(&dir).expect("removed");
        }
    }
}

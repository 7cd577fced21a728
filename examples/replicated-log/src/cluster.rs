//! Three replicas below the logs of some groups.
//!
//! Invariants: (1) a live replica has applied all that is in the logs; (2) a log is cut off only
//! where all live replicas are persistent; (3) so each replica that was live when a log was cut off
//! can go on from there, whenever it crashes, and one that was not gets a copy from one that was.

use crate::log::{Entry, Log, Op};
use crate::replica::Replica;
use esker::Error;
use esker::base::vfs::strict::Survival;
use std::collections::BTreeMap;
use std::fmt;

/// Replicas of each group.
pub const REPLICAS: usize = 3;

/// The longest request: far from what a memtable could not take, see [`esker::Batch::check`], and
/// from what a file of a copy may hold.
const ENTRY_BYTES_MAX: usize = 16 << 20;

/// Why something cannot be done.
#[derive(Debug)]
pub enum Failure {
    /// Fewer than a majority of the replicas are live. Restart some.
    NoMajority,
    /// No live replica can give a copy. Restart another one first.
    NoCopy,
    /// No store takes such a request: why. Send another.
    Refused(String),
    /// A store fails, although its machine has not.
    Store(Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NoMajority => write!(f, "no majority of the replicas is live: restart some"),
            Failure::NoCopy => write!(f, "no live replica can give a copy: restart another first"),
            Failure::Refused(why) => write!(f, "{why}"),
            Failure::Store(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Store(error)
    }
}

/// What a restarted replica needed to be live again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Entries that were applied once more.
    pub replayed: u64,
    /// Groups that were copied in full.
    pub copied: u64,
}

/// The replicas and the logs.
pub struct Cluster {
    replicas: [Replica; REPLICAS],
    /// Whether each has applied all there is, and is applied to.
    live: [bool; REPLICAS],
    logs: BTreeMap<Vec<u8>, Log>,
    term: u64,
    /// Entries of all logs together from which on flushes are asked for.
    entries_max: usize,
}

impl Cluster {
    /// Replicas that are live and hold nothing. Names of groups end in `/`. With `inline` their
    /// stores have no threads.
    ///
    /// # Errors
    /// Of a store.
    pub fn new(groups: &[&[u8]], entries_max: usize, inline: bool) -> Result<Cluster, Failure> {
        let mut cluster = Cluster {
            replicas: std::array::from_fn(|_| Replica::new(inline)),
            live: [true; REPLICAS],
            logs: groups.iter().map(|&group| (group.to_vec(), Log::default())).collect(),
            term: 1,
            entries_max,
        };
        cluster.replicas.iter_mut().try_for_each(Replica::start)?;
        Ok(cluster)
    }

    /// A replica.
    pub fn replica(&self, at: usize) -> &Replica {
        &self.replicas[at]
    }

    /// True if a replica has applied all there is, and is applied to.
    pub fn is_live(&self, at: usize) -> bool {
        self.live[at]
    }

    /// The log of a group.
    pub fn log(&self, group: &[u8]) -> Option<&Log> {
        self.logs.get(group)
    }

    /// Entries of all logs.
    pub fn entries(&self) -> usize {
        self.logs.values().map(Log::len).sum()
    }

    fn live(&self) -> impl Iterator<Item = usize> {
        let live = self.live;
        (0..REPLICAS).filter(move |&at| live[at])
    }

    fn has_majority(&self) -> bool {
        self.live().count() > REPLICAS / 2
    }

    /// What came of a call to the store of a replica; `None` if its power failed meanwhile.
    fn unless_off<T>(
        &mut self,
        at: usize,
        outcome: esker::Result<T>,
    ) -> Result<Option<T>, Failure> {
        match outcome {
            Ok(done) => Ok(Some(done)),
            Err(_) if self.replicas[at].disk().is_off() => {
                self.live[at] = false;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Appends a request to the log of a group and has all live replicas apply it. Returns its
    /// index.
    ///
    /// # Errors
    /// `NoMajority`: nothing was appended. `Refused`: no store would take it; nothing was appended,
    /// since no replica could go on behind it. `Store`: it is in the log.
    pub fn propose(&mut self, group: &[u8], ops: Vec<Op>) -> Result<u64, Failure> {
        if !self.has_majority() {
            return Err(Failure::NoMajority);
        }
        let entry = Entry { term: self.term, ops };
        self.check(group, &entry)?;
        // Here the entry becomes durable: everything below may be lost.
        let index = self.logs.entry(group.to_vec()).or_default().append(entry.clone());
        let mut done = Ok(());
        for at in self.live().collect::<Vec<_>>() {
            let applied = self.replicas[at].apply(group, index, &entry);
            // The others apply it all the same.
            done = done.and(self.unless_off(at, applied).map(drop));
        }
        done?;
        self.cut();
        self.keep_short()?;
        Ok(index)
    }

    /// Fails if a store would refuse an entry.
    fn check(&self, group: &[u8], entry: &Entry) -> Result<(), Failure> {
        let is_part = |other: &&Vec<u8>| {
            other.as_slice() != group && (other.starts_with(group) || group.starts_with(other))
        };
        if group.is_empty() || group.len() > 1 << 10 {
            return Err(Failure::Refused("the name of a group has 1 B to 1 KiB".to_owned()));
        }
        if let Some(other) = self.logs.keys().find(is_part) {
            let (group, other) = (group.escape_ascii(), other.escape_ascii());
            let why = format!("the names of the groups {group} and {other} begin alike");
            return Err(Failure::Refused(why));
        }
        let batch = Replica::batch(group, entry);
        batch.check().map_err(|error| Failure::Refused(error.to_string()))?;
        if batch.size_bytes() > ENTRY_BYTES_MAX {
            return Err(Failure::Refused("a request has 16 MiB at the most".to_owned()));
        }
        Ok(())
    }

    /// Cuts each log off where all live replicas are persistent.
    ///
    /// Without a majority nothing is cut off: what a single replica has is not much to rely on.
    fn cut(&mut self) {
        if !self.has_majority() {
            return;
        }
        let live: Vec<&Replica> = self.live().map(|at| &self.replicas[at]).collect();
        for (group, log) in &mut self.logs {
            let least = live.iter().map(|replica| replica.persisted(group)).min();
            log.cut_off(least.unwrap_or(0));
        }
    }

    /// Has replicas flush when the logs are too long: nothing may have been flushed for want of
    /// writes, or a group without writes may be in memtables that do not fill.
    fn keep_short(&mut self) -> Result<(), Failure> {
        if self.entries() <= self.entries_max {
            return Ok(());
        }
        self.flush_oldest()
    }

    /// Has all live replicas flush the oldest of what is not persistent, and cuts the logs off.
    ///
    /// # Errors
    /// Of a store.
    pub fn flush_oldest(&mut self) -> Result<(), Failure> {
        for at in self.live().collect::<Vec<_>>() {
            let flushed = self.replicas[at].flush_oldest();
            self.unless_off(at, flushed)?;
        }
        self.cut();
        Ok(())
    }

    /// Cuts the power of a replica.
    pub fn crash(&mut self, at: usize, survival: Survival, seed: u64) {
        self.live[at] = false;
        self.replicas[at].crash(survival, seed);
        // Somebody else leads from now on.
        self.term += 1;
    }

    /// Opens the store of a replica that was crashed. It must be recovered before it is live.
    ///
    /// # Errors
    /// Of the store.
    pub fn start(&mut self, at: usize) -> Result<(), Failure> {
        let started = self.replicas[at].start();
        self.unless_off(at, started).map(drop)
    }

    /// Brings a replica that was started up to date, group by group, by the log or by a copy.
    /// `None` if its power failed meanwhile; then it is to be crashed and started again.
    ///
    /// # Errors
    /// `NoCopy`: it needs one. Otherwise of a store.
    pub fn recover(&mut self, at: usize) -> Result<Option<Recovered>, Failure> {
        let mut recovered = Recovered::default();
        let groups: Vec<Vec<u8>> = self.logs.keys().cloned().collect();
        for group in &groups {
            let applied = self.replicas[at].applied(group);
            let Some(mut applied) = self.unless_off(at, applied)? else { return Ok(None) };
            if applied < self.logs[group].cut() {
                // What follows was cut off.
                let Some(index) = self.repair(at, group)? else { return Ok(None) };
                recovered.copied += 1;
                applied = index;
            }
            let (replica, log) = (&self.replicas[at], &self.logs[group]);
            let again = log.behind(applied).try_for_each(|(index, entry)| {
                recovered.replayed += 1;
                replica.apply(group, index, entry)
            });
            if self.unless_off(at, again)?.is_none() {
                return Ok(None);
            }
        }
        self.live[at] = true;
        Ok(Some(recovered))
    }

    /// Replaces a group of a replica by a copy of a live one's. Returns the index it is at then;
    /// `None` if its power failed meanwhile.
    fn repair(&mut self, at: usize, group: &[u8]) -> Result<Option<u64>, Failure> {
        for healthy in self.live().collect::<Vec<_>>() {
            let copied = self.replicas[healthy].copy(group);
            let Some(copied) = self.unless_off(healthy, copied)? else { continue };
            // The log reaches back to where a live replica is persistent.
            let installed = self.replicas[at].install(group, &copied);
            return Ok(self.unless_off(at, installed)?.map(|()| copied.index));
        }
        Err(Failure::NoCopy)
    }
}

//! A store below a log of somebody else's, such as that of a consensus protocol: it writes no log
//! of its own.
//!
//! Whoever has the log applies its requests to groups of keys, each in the order of its group's
//! log. A request and its index come into memtables together; memtables of all keyspaces are sealed
//! together, as an *epoch*, and epochs become tables in order, each by one edit of the manifest
//! that also says how far each group is in it.
//!
//! ```text
//! apply(group, index, batch) -> memtables, the epoch's list of groups
//! memtable full, or flush    -> all memtables are sealed: the next epoch begins
//! flush                      -> tables of all keyspaces -> one edit: tables, groups -> visible as persisted -> told as an event
//! crash                      -> what is there is the state after the last epoch that is in force; the log gives the rest again
//! ```
//!
//! Invariants: (1) a request is in one epoch; (2) epochs are in force in the order in which they
//! were sealed, each as a whole; (3) so tables are exactly the state after the index that the
//! manifest has for each group. docs/external-durability.md has the proof.
//! Threads: `Epochs` has a lock of its own, taken under `commit` by writers and under `versions` by
//! flushes; most requests need it not, see `application`.
//! Source: PheonixLSM. It writes a sentinel key with each request; here an epoch's indexes are in
//! the edit that makes it persistent, so that a request costs no key of its own.

use super::core::{Core, KeyspaceCore, Sealed};
use super::epochs::{Arrival, Epoch, GroupIndex};
use super::progress::{EpochId, Groups, Progress};
use crate::event::{Event, PersistedGroup};
use crate::options::Durability;
use crate::version::{Change, GroupState};
use esker_base::sync::atomic::Ordering;
use esker_base::sync::thread;
use esker_base::{Error, Result, Seq};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long one waits for a flush before looking again.
const WAIT: Duration = Duration::from_millis(100);

/// A memtable that is sealed, and its keyspace.
pub(super) type SealedIn = (Arc<KeyspaceCore>, Arc<Sealed>);

impl Core {
    /// True if the store writes no log.
    #[inline]
    pub(super) fn is_external(&self) -> bool {
        self.options.durability == Durability::External
    }

    /// # Errors
    /// `InvalidArgument` if the store has a log of its own.
    pub(super) fn check_external(&self) -> Result<()> {
        if self.is_external() {
            return Ok(());
        }
        Err(Error::invalid(
            "the store has a log of its own: this is for one that is opened with durability = external",
        ))
    }

    /// Begins the next epoch, which is returned: the memtables were sealed under this number. Under
    /// the right to write.
    pub(super) fn seal_epoch(
        &self,
        number: u64,
        seq: Seq,
        arrival: Option<Arc<Arrival>>,
    ) -> EpochId {
        let mut epochs = self.epochs.lock();
        let (applied, named_bytes) = epochs.begin();
        #[cfg(esker_planted)]
        let applied = super::planted::keep_back(applied, &mut epochs.active);
        #[cfg(esker_planted)]
        self.plant_telling(&applied, seq);
        epochs.names.extend(arrival.iter().map(|arrival| arrival.range.group.clone()));
        epochs.sealed.push_back(Epoch { number, seq, applied, named_bytes, arrival });
        epochs.current()
    }

    /// What comes into force with the oldest epoch that is sealed, if it is this one.
    pub(super) fn arrival(&self, number: u64) -> Option<Arc<Arrival>> {
        let epochs = self.epochs.lock();
        epochs.sealed.front().filter(|epoch| epoch.number == number)?.arrival.clone()
    }

    /// True if requests were applied since the last epoch began.
    pub(super) fn has_applied(&self) -> bool {
        !self.epochs.lock().active.is_empty()
    }

    /// The number of the oldest epoch that is sealed, and its memtables.
    pub(super) fn oldest_epoch(&self) -> Option<(u64, Vec<SealedIn>)> {
        #[cfg(esker_planted)]
        self.plant_order();
        let number = self.epochs.lock().sealed.front()?.number;
        let keyspaces = self.keyspaces.load();
        let of_epoch = |keyspace: &Arc<KeyspaceCore>| {
            let view = keyspace.view.load();
            let sealed = view.sealed.iter().rev().find(|sealed| sealed.next_wal == number)?;
            Some((keyspace.clone(), sealed.clone()))
        };
        Some((number, keyspaces.by_id.values().filter_map(of_epoch).collect()))
    }

    /// Changes of an edit that say how far the groups of an epoch are in tables then.
    pub(super) fn tell_applied(&self, number: u64) -> Vec<Change> {
        let epochs = self.epochs.lock();
        let epoch = epochs.sealed.front().filter(|epoch| epoch.number == number);
        let applied = epoch.into_iter().flat_map(|epoch| &epoch.applied);
        let applied = applied.map(|(group, progress)| (group.clone(), progress.state()));
        #[cfg(esker_planted)]
        let applied = applied.map(|told| super::planted::run_ahead(told, &epochs.active));
        let arrived = epoch.and_then(|epoch| epoch.arrival.as_ref());
        let arrived = arrived.map(|a| (a.range.group.clone(), a.state.clone()));
        // In the order of their names, so that the same requests make the same edits.
        let applied: BTreeMap<Arc<[u8]>, GroupState> = applied.chain(arrived).collect();
        let tell = |(group, state)| Change::Applied { group, state };
        applied.into_iter().map(tell).collect()
    }

    /// The newest sequence number of the oldest epoch that is sealed.
    pub(super) fn epoch_seq(&self, number: u64) -> Seq {
        let epochs = self.epochs.lock();
        let epoch = epochs.sealed.front().filter(|epoch| epoch.number == number);
        epoch.map_or(epochs.persisted_seq, |epoch| epoch.seq)
    }

    /// An epoch is in tables. Under `versions`.
    pub(super) fn adopt_epoch(&self, number: u64) {
        let mut epochs = self.epochs.lock();
        let Some(epoch) = epochs.sealed.pop_front() else { return };
        assert_eq!(epoch.number, number, "epochs become tables in the order of their sealing");
        epochs.persisted_seq = epoch.seq;
        let mut applied = epoch.applied;
        if let Some(arrival) = &epoch.arrival {
            let Arrival { range, state, erased_seq, .. } = &**arrival;
            let group = range.group.clone();
            applied.insert(group.clone(), Progress::of_no_epoch(group, state.clone(), *erased_seq));
        }
        epochs.persisted.extend(applied.clone());
        drop(epochs);
        self.tell_persisted(&applied, epoch.seq);
    }

    /// Says that requests up to these are in tables, and everything up to this sequence number.
    pub(super) fn tell_persisted(&self, applied: &Groups, seq: Seq) {
        let tell = |(group, progress): (&Arc<[u8]>, &Arc<Progress>)| PersistedGroup {
            group: group.to_vec(),
            index: progress.index(),
        };
        let mut groups: Vec<PersistedGroup> = applied.iter().map(tell).collect();
        groups.sort_unstable_by(|a, b| a.group.cmp(&b.group));
        self.events.emit(&Event::Persisted { seq, groups });
    }

    /// A group is gone, with all that was applied to it up to this sequence number. Under
    /// `versions`.
    pub(super) fn forget_group(&self, group: &[u8], seq: Seq) {
        self.epochs.lock().forget(group, seq);
    }

    /// The newest sequence number that is in tables.
    pub(super) fn persisted_seq(&self) -> Seq {
        let seq = self.epochs.lock().persisted_seq;
        #[cfg(esker_planted)]
        let seq = self.plant_persisted_seq(seq);
        seq
    }

    /// Everything up to this sequence number is in tables: nothing was in memtables. Under
    /// `versions`.
    pub(super) fn note_persisted(&self, seq: Seq) {
        if self.is_external() {
            self.epochs.lock().persisted_seq = seq;
        }
    }

    /// How far each group's log was applied, by group.
    pub(super) fn groups(&self) -> Vec<GroupIndex> {
        let told: Vec<(GroupIndex, Seq)> = {
            let epochs = self.epochs.lock();
            epochs.names.iter().filter_map(|group| epochs.index_of(group)).collect()
        };
        self.wait_until_seen(told.iter().map(|&(_, seq)| seq).max().unwrap_or(0));
        told.into_iter().map(|(index, _)| index).collect()
    }

    /// How far a group's log was applied; `None` if it never was.
    pub(super) fn group(&self, group: &[u8]) -> Option<GroupIndex> {
        let told = self.epochs.lock().index_of(group);
        let (index, seq) = told?;
        self.wait_until_seen(seq);
        Some(index)
    }

    /// Waits until readers see what was applied up to this sequence number: requests are noted a
    /// moment before. In a store that is poisoned meanwhile they may never do.
    fn wait_until_seen(&self, seq: Seq) {
        while self.visible_seq.load(Ordering::Acquire) < seq && self.check_writable().is_ok() {
            thread::yield_now();
        }
    }

    /// Makes persistent what was applied, and waits for it.
    pub(super) fn flush_epochs(&self) -> Result<()> {
        self.check_writable()?;
        self.retry_failed_flush()?;
        self.flush_if_too_many()?;
        let number = {
            let mut commit = self.commit.lock();
            let commit = commit.as_mut().ok_or(Error::Cancelled)?;
            commit.seal(self, &[])?;
            commit.number
        };
        self.wait_for_epochs(number)
    }

    /// Waits until sealed epochs name no more than may be in memory, before another one is sealed.
    /// Without the right to write.
    pub(super) fn flush_if_too_many(&self) -> Result<()> {
        loop {
            let oldest = self.epochs.lock().oldest_of_too_many();
            let Some(number) = oldest else { return Ok(()) };
            self.wait_for_epochs(number)?;
        }
    }

    /// Makes persistent what was applied to a group. Returns the index up to which it is then.
    pub(super) fn flush_group(&self, group: &[u8]) -> Result<Option<u64>> {
        self.check_external()?;
        let is_active = self.epochs.lock().active.contains_key(group);
        if is_active {
            self.flush_epochs()?;
        } else if let Some(number) = self.sealed_with(group) {
            self.wait_for_epochs(number)?;
        }
        Ok(self.epochs.lock().persisted.get(group).map(|progress| progress.index()))
    }

    /// The newest sealed epoch with requests of a group.
    fn sealed_with(&self, group: &[u8]) -> Option<u64> {
        let epochs = self.epochs.lock();
        let has = |epoch: &&Epoch| epoch.applied.contains_key(group) || epoch.brings(group);
        let newest = epochs.sealed.iter().rev().find(has);
        newest.map(|epoch| epoch.number)
    }

    /// Makes persistent what was applied first of all that is not yet.
    pub(super) fn flush_oldest(&self) -> Result<()> {
        self.check_external()?;
        let oldest = self.epochs.lock().sealed.front().map(|epoch| epoch.number);
        match oldest {
            Some(number) => self.wait_for_epochs(number),
            None => self.flush_epochs(),
        }
    }

    /// Waits until epochs up to this number are in tables.
    pub(super) fn wait_for_epochs(&self, number: u64) -> Result<()> {
        let asked = self.background.ask_for_flushes();
        let waiting = || self.epochs.lock().sealed.front().is_some_and(|e| e.number <= number);
        while waiting() {
            self.check_writable()?;
            self.wait_asked(asked, WAIT)?;
        }
        Ok(())
    }

    /// Takes back what was to arrive with an epoch, which could not be put in force: all is as
    /// before. False if it is in force.
    pub(super) fn withdraw(&self, number: u64) -> bool {
        // Of a store that was closed meanwhile it can be said too. Files that are left are orphans,
        // which the next open removes.
        let versions = self.lock_versions();
        let Some(arrival) = self.epochs.lock().withdraw(number) else { return false };
        if let Ok(mut versions) = versions {
            arrival.parts.iter().for_each(|(_, written)| versions.give_up_files(written));
        }
        true
    }

    /// True if something would be lost by a crash.
    pub(super) fn has_unpersisted(&self) -> bool {
        let keyspaces = self.keyspaces.load();
        !self.epochs.lock().is_empty() || keyspaces.by_id.values().any(|k| k.has_memtables())
    }
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;
    use crate::db::{Applied, Db, Setup};
    use crate::event::EventListener;
    use crate::options::Options;
    use esker_base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
    use esker_base::vfs::strict::{StrictOptions, StrictVfs, Survival};
    use esker_base::{Batch, Env, KeyspaceId};
    use std::path::Path;
    use std::sync::Mutex;

    /// How many groups each epoch has brought.
    #[derive(Default)]
    struct Told(Mutex<Vec<usize>>);

    impl EventListener for Told {
        fn on_event(&self, event: &Event) {
            if let Event::Persisted { groups, .. } = event {
                self.0.lock().expect("no panic").push(groups.len());
            }
        }
    }

    fn open(disk: &StrictVfs, told: &Arc<Told>) -> Db {
        let setup = Setup {
            env: Env::with_vfs(Arc::new(disk.clone()), 1),
            inline_background: true,
            listener: Some(told.clone()),
            ..Setup::default()
        };
        let options = Options { durability: Durability::External, ..Options::default() };
        Db::open_with("/db", options, setup).expect("open")
    }

    /// Requests that change nothing fill no memtable, but all their notes come into one edit, which
    /// has an end.
    #[test]
    fn an_epoch_ends_before_its_notes_are_more_than_an_edit_takes() {
        const GROUPS: u64 = 40;
        let (disk, told) = (StrictVfs::new(), Arc::new(Told::default()));
        let db = open(&disk, &told);
        db.core().epochs.lock().active_bytes_max = 4 << 10;
        let apply = |group: u64, index, note: &[u8]| {
            let group = format!("{group:04}/");
            let request = Applied { group: group.as_bytes(), index, note };
            db.apply(request, Batch::new()).expect("apply");
        };
        // What is said anew of one group takes the place of what was said of it.
        (1..100).for_each(|index| apply(0, index, &[index as u8; 1 << 10]));
        assert!(told.0.lock().expect("no panic").is_empty(), "one note is not many");
        (1..GROUPS).for_each(|group| apply(group, 1, &[7; 1 << 10]));
        let epochs = told.0.lock().expect("no panic").clone();
        assert!(epochs.len() as u64 >= GROUPS / 4 - 1, "{epochs:?}");
        assert!(epochs.iter().all(|&groups| groups <= 4), "{epochs:?}");
        let brought: usize = epochs.iter().sum();
        let after = disk.crash(Survival::None, 1);
        std::mem::forget(db);
        let groups = open(&after, &told).groups();
        assert_eq!(groups.len(), brought, "each is there that was told");
        assert!(groups.iter().all(|group| group.note.len() == 1 << 10));
    }

    /// What is sealed and cannot be flushed is not more and more.
    #[test]
    fn who_applies_is_refused_while_epochs_cannot_be_flushed() {
        const MOST: u64 = 4 << 10;
        let plain = StrictOptions { preallocated_logs: false, ..StrictOptions::default() };
        let (disk, told) = (StrictVfs::with_options(plain), Arc::new(Told::default()));
        let db = open(&disk, &told);
        db.core().epochs.lock().active_bytes_max = MOST;
        let apply = |group: u64| {
            let group = format!("{group:04}/");
            let request = Applied { group: group.as_bytes(), index: 1, note: &[7; 1 << 10] };
            db.apply(request, Batch::new())
        };
        disk.set_capacity_bytes(Some(disk.total_bytes()));
        let applied: Vec<u64> = (0..100).filter(|&group| apply(group).is_ok()).collect();
        assert!(matches!(apply(200), Err(Error::NoSpace { .. })), "it says why");
        assert!((8..=16).contains(&applied.len()), "{applied:?}");
        let sealed = || db.core().epochs.lock().sealed.len();
        let before = sealed();
        db.flush().expect_err("there is no room");
        assert_eq!(sealed(), before, "a flush seals no more either");
        for group in &applied {
            db.core().epochs.lock().forget(format!("{group:04}/").as_bytes(), Seq::MAX);
        }
        assert_eq!(
            db.core().epochs.lock().oldest_of_too_many(),
            None,
            "what goes waits for nobody"
        );
        apply(201).expect("there is room in memory");
        disk.set_capacity_bytes(None);
        apply(200).expect("it goes on by itself");
        db.flush().expect("flush");
        assert_eq!(db.groups().len(), 2, "those that were not forgotten");
        db.close().expect("close");
    }

    /// Whoever wants to cut off a log asks for a flush again and again.
    #[test]
    fn flushes_that_fail_seal_no_more_and_more_memtables() {
        for durability in [Durability::External, Durability::Wal] {
            let vfs = FaultyVfs::new(Arc::new(StrictVfs::new()));
            let setup = Setup {
                env: Env::with_vfs(Arc::new(vfs.clone()), 1),
                inline_background: true,
                ..Setup::default()
            };
            let db = Db::open_with("/db", Options { durability, ..Options::default() }, setup);
            let db = db.expect("open");
            let is_table = |path: &Path| path.extension().is_some_and(|end| end == "tbl");
            vfs.inject(
                FaultRule::nth(1, &[Op::Create], Fault::NoSpace).from_then_on().on(is_table),
            );
            for index in 1..20u64 {
                db.put(&index.to_be_bytes(), b"value").expect("put");
                db.flush().expect_err("there is no room");
            }
            let keyspace = db.core().keyspace(KeyspaceId::DEFAULT).expect("it is there");
            let sealed = keyspace.view.load().sealed.len();
            assert_eq!((sealed, db.core().epochs.lock().sealed.len().max(1)), (1, 1));
            vfs.heal();
            db.flush().expect("flush");
            assert!(!keyspace.has_memtables());
            for index in 1..20u64 {
                assert!(db.get(&index.to_be_bytes()).expect("get").is_some(), "{index}");
            }
            db.close().expect("close");
        }
    }

    /// Nor does whoever has a group arrive, again and again.
    #[test]
    fn arrivals_that_fail_seal_no_more_and_more_memtables() {
        let vfs = FaultyVfs::new(Arc::new(StrictVfs::new()));
        let open = |dir: &str| {
            let setup = Setup {
                env: Env::with_vfs(Arc::new(vfs.clone()), 1),
                inline_background: true,
                ..Setup::default()
            };
            let options = Options { durability: Durability::External, ..Options::default() };
            Db::open_with(dir, options, setup).expect("open")
        };
        let source = open("/source");
        let mut batch = Batch::new();
        batch.put(b"g/key", b"carried");
        source.apply(Applied { group: b"g/", index: 7, note: b"" }, batch).expect("apply");
        source.flush_group(b"g/").expect("flush");
        source.export_group(b"g/", "/files").expect("export");
        source.close().expect("close");
        let db = open("/db");
        // Tables are still linked.
        let is_table =
            |path: &Path| path.starts_with("/db") && path.extension().is_some_and(|e| e == "tbl");
        vfs.inject(FaultRule::nth(1, &[Op::Create], Fault::NoSpace).from_then_on().on(is_table));
        for index in 1..20u64 {
            db.put(&index.to_be_bytes(), b"value").expect("put");
            db.ingest_group(b"g/", "/files").expect_err("there is no room");
        }
        let keyspace = db.core().keyspace(KeyspaceId::DEFAULT).expect("it is there");
        let sealed = keyspace.view.load().sealed.len();
        assert_eq!((sealed, db.core().epochs.lock().sealed.len()), (1, 1));
        vfs.heal();
        assert_eq!(db.ingest_group(b"g/", "/files").expect("it arrives").index, 7);
        assert_eq!(db.get(b"g/key").expect("get").as_deref(), Some(&b"carried"[..]));
        for index in 1..20u64 {
            assert!(db.get(&index.to_be_bytes()).expect("get").is_some(), "{index}");
        }
        db.close().expect("close");
    }
}

//! Requests of somebody else's logs, and the groups they are for: what users call.

use super::application::Applied;
use super::carry::{self, GroupFiles};
use super::epochs::GroupIndex;
use super::groups::{self, DeletedGroup};
use super::handle::Db;
use super::secondary::write;
use super::snapshot::Snapshot;
use super::write::How;
use crate::report::GroupStats;
use esker_base::{Batch, Result};
use std::path::Path;

impl Db {
    /// Applies a request of somebody else's log: all of the batch, and how far the log of its group
    /// is then, become visible and, with the flush of the memtables they are in, persistent
    /// together.
    ///
    /// Requests of a group must be applied in the order of its log, one after the other; groups are
    /// independent of each other and may be applied by several threads. After a crash each group is
    /// exactly as after the request that [`Db::group`] then tells of: those behind it must be
    /// applied again. See docs/external-durability.md.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("esker-doc-apply-{}", std::process::id()));
    /// use esker::{Applied, Batch, Durability, Options};
    /// let options = Options { durability: Durability::External, ..Options::default() };
    /// let db = esker::Db::open(&dir, options)?;
    /// let mut batch = Batch::new();
    /// batch.put(b"7/bread", b"2");
    /// db.apply(Applied { group: b"7/", index: 1, note: b"term 1" }, batch)?;
    /// assert_eq!(db.group(b"7/").map(|group| (group.applied, group.persisted)), Some((1, 0)));
    /// // The log may be cut off up to here now.
    /// assert_eq!(db.flush_group(b"7/")?, Some(1));
    /// # db.close()?;
    /// # std::fs::remove_dir_all(&dir).ok();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument`: the store has a log of its own, a length is not allowed, the request was
    /// applied before or is 0, the names of two groups begin alike, or the group is just coming as
    /// files; nothing changed. Otherwise as [`Db::write`].
    /// # Cost
    /// As a write that is not logged, and some 300 instructions. The first request of a thread to a
    /// group, and the first after a flush, a deletion of the group or one with another note, take a
    /// lock. Groups that were applied to since the last flush are written to the manifest with the
    /// next, which comes before memtables are full when their names and notes have come to 64 MiB.
    /// # Source
    /// The sentinel key of PheonixLSM, whose place the manifest takes.
    pub fn apply(&self, request: Applied<'_>, mut batch: Batch) -> Result<()> {
        self.core().check_external()?;
        let how = How { applied: Some(request), ..How::default() };
        write::write(self.core(), &mut batch, how)
    }

    /// How far the logs of all groups were applied, by group: reads that begin afterwards find all
    /// of it. Right after the store was opened that is what is persistent.
    ///
    /// # Cost
    /// A lock and copies of the names; waits for a write that is under way.
    pub fn groups(&self) -> Vec<GroupIndex> {
        self.core().groups()
    }

    /// How far the log of a group was applied; `None` if it never was, or the group was deleted.
    /// Reads that begin afterwards find all of it.
    ///
    /// # Cost
    /// A lock; waits for a write of the group that is under way.
    pub fn group(&self, group: &[u8]) -> Option<GroupIndex> {
        self.core().group(group)
    }

    /// How far the logs of all groups were applied, and what each has of the tables, by group.
    ///
    /// # Cost
    /// For each group a search in each sorted run.
    pub fn group_stats(&self) -> Vec<GroupStats> {
        groups::statistics(self.core())
    }

    /// Deletes a group, in all keyspaces with keys in bytewise order: every key that begins with
    /// its name, and how far its log was applied. Nobody sees it from then on, not even at an older
    /// snapshot; only cursors that were there before read on. After a crash it is there as a whole,
    /// or gone as a whole; once this has returned, gone.
    ///
    /// Nothing must be applied to the group meanwhile. Afterwards it may be made anew, with any
    /// index from 1. See [`crate::KeyspaceOptions::groups`] for tables that hold keys of one group
    /// only. While a group is arriving as files ([`Db::ingest_group`]), this waits until it has.
    ///
    /// # Errors
    /// `InvalidArgument`: the name is too long, or nothing but bytes of 0xff, or begins the name of
    /// another group that requests were applied to, or the other way round; or some keyspace has an
    /// index of a field. Of the disk; then nobody knows whether the group would be there after a
    /// crash, until the call is made again.
    /// # Cost
    /// One edit of the manifest, one sync of the log if there is one, and the removal of the
    /// group's files. Nothing is flushed, compacted or read, and no memory taken.
    /// # Source
    /// PheonixLSM, and Pebble's excise; see docs/external-durability.md.
    pub fn delete_group(&self, group: &[u8]) -> Result<DeletedGroup> {
        groups::delete(self.core(), group)
    }

    /// Writes what is persistent of a group, at one moment, into the new directory `dir`: a store
    /// of its own that holds this group and nothing else, with how far its log was applied.
    /// [`Db::ingest_group`] takes it over elsewhere; whoever wants to look into it may open it.
    ///
    /// # Errors
    /// `InvalidArgument`: the store has a log of its own, nothing of the group is persistent, some
    /// keyspace has an index of a field or keys that are not in bytewise order, or `dir` exists or
    /// is inside of the store. `ReadOnly` if it was opened for reading. `Cancelled` if the store is
    /// closed meanwhile. Of the disk. Nothing of `dir` stays then.
    /// # Cost
    /// Reads the group once and writes it once, without the records that are hidden. Nobody waits
    /// for it; while it runs, compaction keeps what it reads. 8 MiB of memory beside the budget.
    /// # Source
    /// PheonixKV ships replicas as whole files.
    pub fn export_group(&self, group: &[u8], dir: impl AsRef<Path>) -> Result<GroupFiles> {
        carry::export(self.core(), group, dir.as_ref())
    }

    /// Takes over a group that [`Db::export_group`] has written into `dir`, in the place of what
    /// was there of it. When this returns, the group is persistent, and as far applied as it was
    /// there; until then readers see what was there before, and a crash leaves one or the other as
    /// a whole, with its index. A reader may find one keyspace new and another old for a moment;
    /// the index is told last. `dir` stays as it is, and may be removed, but its files must never
    /// be written to again: the store may have them, under other names. Snapshots that were taken
    /// before this returned do not keep the group as it was: they see nothing of it afterwards, or
    /// the new state.
    ///
    /// Nothing must be applied to the group meanwhile.
    ///
    /// # Errors
    /// `InvalidArgument`: the store has a log of its own, `dir` holds another group or more than
    /// that, a keyspace that the group has keys in is missing or was dropped meanwhile, or some
    /// keyspace has an index of a field or keys that are not in bytewise order. `NotFound`: `dir`
    /// holds no store; `Busy`: somebody has it open. `Corruption` if a checksum is wrong.
    /// `Cancelled` if the store is closed meanwhile. Nothing changed. Of the disk, also while
    /// memtables are flushed: nothing changed either, and the files are gone with the next edit of
    /// the manifest; only a crash before that may find the group in force.
    /// # Cost
    /// Tables get a second name, or are copied where `dir` is on another file system; their
    /// checksums are read. Where the keyspace keeps large values apart, or has another id there,
    /// everything is written anew. Memtables are flushed; those who delete groups, have them
    /// arrive, drop keyspaces, or make or drop indexes wait for that too. 16 MiB of memory beside
    /// the budget. To have the old state's space first, delete the group before.
    /// # Source
    /// Pebble's ingest-and-excise.
    pub fn ingest_group(&self, group: &[u8], dir: impl AsRef<Path>) -> Result<GroupFiles> {
        carry::ingest(self.core(), group, dir.as_ref())
    }

    /// Makes persistent what was applied to a group, along with everything that is in the same
    /// memtables, and waits for it. Returns the index up to which the log of the group may be cut
    /// off then.
    ///
    /// # Errors
    /// `InvalidArgument` if the store has a log of its own; of the disk.
    pub fn flush_group(&self, group: &[u8]) -> Result<Option<u64>> {
        self.core().flush_group(group)
    }

    /// Makes persistent what was applied first of all that is not persistent yet, and waits for it:
    /// for logs that grow too long since one group of many is idle.
    ///
    /// # Errors
    /// As [`Db::flush_group`].
    pub fn flush_oldest(&self) -> Result<()> {
        self.core().flush_oldest()
    }

    /// The database as a crash would leave it now, in all keyspaces, for reading later.
    ///
    /// # Errors
    /// `InvalidArgument` if the store has a log of its own, in which case a crash leaves what it
    /// has. `ReadOnly` if it was opened for reading: there every snapshot is of what is persistent.
    pub fn persisted_snapshot(&self) -> Result<Snapshot> {
        let core = self.core();
        core.check_external()?;
        // No flush is put in force meanwhile.
        let _versions = core.lock_versions()?;
        Ok(core.snapshots.open(|| core.persisted_seq()))
    }
}

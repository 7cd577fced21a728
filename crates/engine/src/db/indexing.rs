//! The run indexes of open keyspaces: when one is made anew, and putting it in force.
//!
//! An index is never changed. When flushes and bulk loads have brought a share of the records that
//! the index does not know, or scans have paid for the runs it does not know, a thread that
//! compacts makes a new one of the old one and of the digests of those runs. Meanwhile reads go on
//! with the old one. Nothing of it is on disk: after a crash or a reopening reads begin without an
//! index.
//! Invariant: the coverage in a view speaks of that view's version; both change together, under
//! `versions`.

use super::core::{Core, KeyspaceCore, View};
use super::index_state::{Step, TooLarge};
use crate::event::Event;
use crate::run_index::{DigestCursor, Entries, Renumbered, RunIndex, SLOTS_MAX, Slots};
use crate::run_index::{single_slot, unite};
use crate::version::{Coverage, Replaced, Run, RunDigest, Version};
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, KeyspaceId, Result};
use std::ops::Bound;
use std::sync::Arc;

/// An index is made anew when so much of what it knows has come that it does not know: a part in
/// four. Each record is then taken up, and later copied, some five times before the store is twice
/// as large.
const UNKNOWN_SHARE: u64 = 4;

/// What it costs to take up an entry, or to copy it.
const ENTRY_NS: u64 = 100;

impl View {
    /// Goes on to the next version, which differs by what was `replaced`, and by what was added.
    pub(super) fn follow(&mut self, version: Arc<Version>, replaced: Option<&Replaced>) {
        if let Some(coverage) = &self.coverage {
            let next = coverage.follow(&self.version, &version, replaced);
            self.coverage = (!next.is_idle()).then(|| Arc::new(next));
        }
        self.version = version;
    }
}

impl KeyspaceCore {
    /// Notes that a compaction was installed. To be called under `versions`.
    pub(super) fn note_replaced(
        &self,
        before: &Arc<Version>,
        after: &Arc<Version>,
        replaced: Replaced,
    ) {
        if let Some(steps) = &mut self.indexing.lock().replaced {
            steps.push(Step { before: before.clone(), after: after.clone(), replaced });
        }
    }

    /// Indexes made since open.
    pub(super) fn indexes_made(&self) -> u64 {
        self.indexing.lock().made
    }

    /// True if what scans pay is for an index: there are enough runs, and it was not found to be
    /// impossible.
    pub(super) fn may_index(&self, version: &Version) -> bool {
        let runs_min = self.options.run_index_runs_min as usize;
        if !self.options.run_index || version.runs().count() < runs_min {
            return false;
        }
        let indexing = self.indexing.lock();
        let is_for = |run: &Arc<Run>| !run.hides_ranges() && !indexing.lacks_digest(run);
        let runs = version.runs().filter(|(_, run)| is_for(run)).count();
        !indexing.failed && indexing.too_large.is_none() && runs >= runs_min
    }

    /// True if an index should be made now.
    pub(super) fn wants_index(&self) -> bool {
        self.options.run_index && self.index_wanted(&self.view.load()).is_some()
    }

    /// The runs that a new index would take up, if it is time to make one.
    fn index_wanted(&self, view: &View) -> Option<Wanted> {
        let mut indexing = self.indexing.lock();
        if indexing.failed || indexing.replaced.is_some() || self.dropped.load(Ordering::Relaxed) {
            return None;
        }
        let runs = || view.version.runs().map(|(_, run)| run);
        if indexing.too_large.as_ref().is_some_and(|too_large| too_large.is_so_still(&view.version))
        {
            return None;
        }
        indexing.too_large = None;
        indexing.without_digest.retain(|run| run.strong_count() > 0);
        let coverage = view.coverage.as_deref();
        let mut wanted = Wanted { known: Vec::new(), unknown: Vec::new() };
        for run in runs() {
            match coverage.and_then(|coverage| coverage.slots_of(run)) {
                Some(slots) => wanted.known.push((run.clone(), slots)),
                // What is about to be replaced is taken up as what replaces it.
                None if run.is_compacting() => {}
                None if indexing.lacks_digest(run) => {}
                None => wanted.unknown.push(run.clone()),
            }
        }
        // The oldest runs are the largest: if there are too many, the newest stay unknown.
        let most = SLOTS_MAX.saturating_sub(wanted.known.len());
        let too_many = wanted.unknown.len().saturating_sub(most);
        wanted.unknown.drain(..too_many);
        let known = coverage.map_or(0, Coverage::entries);
        let unknown: u64 = wanted.unknown.iter().map(|run| run.entries()).sum();
        let runs_min = self.options.run_index_runs_min as usize;
        let of_use = wanted.known.iter().map(|(run, _)| run).chain(&wanted.unknown);
        if of_use.filter(|run| !run.hides_ranges()).count() < runs_min {
            // Then scans pay for compactions, see `may_index`; or soon there are others.
            return None;
        }
        let is_stale = coverage.is_some_and(Coverage::is_stale);
        if wanted.unknown.is_empty() && !is_stale {
            self.toll.quote(None);
            return None;
        }
        let paid = self.toll.quote(Some((known + unknown).saturating_mul(ENTRY_NS)));
        (paid || is_stale || unknown * UNKNOWN_SHARE >= known).then_some(wanted)
    }
}

/// What an index is to be made of.
struct Wanted {
    known: Vec<(Arc<Run>, Slots)>,
    unknown: Vec<Arc<Run>>,
}

/// An index that is to be made. It counts as running.
pub(super) struct IndexJob {
    keyspace: Arc<KeyspaceCore>,
    version: Arc<Version>,
    coverage: Option<Arc<Coverage>>,
    wanted: Wanted,
}

/// An index that should be made now, if there is one.
pub(super) fn choose(core: &Core) -> Result<Option<IndexJob>> {
    let keyspaces = core.keyspaces.load();
    if !keyspaces.by_id.values().any(|keyspace| keyspace.options.run_index) {
        return Ok(None);
    }
    // A view that is read and a note of what replaces its runs must be one step.
    let _versions = core.lock_versions()?;
    // Each may take what the others leave: one at a time, or together they would take more.
    if keyspaces.by_id.values().any(|k| k.indexing.lock().replaced.is_some()) {
        return Ok(None);
    }
    // In turns: scans may pay for the next index of one while it is being made.
    let after = KeyspaceId(core.last_indexed.load(Ordering::Relaxed));
    let next = keyspaces.by_id.range((Bound::Excluded(after), Bound::Unbounded));
    let indexed = next.chain(keyspaces.by_id.range(..=after)).map(|(_, keyspace)| keyspace);
    for keyspace in indexed.filter(|keyspace| keyspace.options.run_index) {
        let view = keyspace.view.load();
        if let Some(wanted) = keyspace.index_wanted(&view) {
            // Counted first, so that whoever waits sees that it is wanted or that it is being made.
            core.background.begin_compaction();
            keyspace.indexing.lock().replaced = Some(Vec::new());
            core.last_indexed.store(keyspace.id.0, Ordering::Relaxed);
            keyspace.toll.settle();
            let (version, coverage) = (view.version.clone(), view.coverage.clone());
            return Ok(Some(IndexJob { keyspace: keyspace.clone(), version, coverage, wanted }));
        }
    }
    Ok(None)
}

/// What an index is, and of which runs.
struct Made {
    index: Arc<RunIndex>,
    covered: Vec<(Arc<Run>, Slots)>,
}

impl IndexJob {
    /// Makes the index and puts it in force. Failures are told as events: reads are right without
    /// it.
    pub(super) fn run(self, core: &Core) -> Result<()> {
        let started = core.env.clock.now_ns();
        let keyspace = &self.keyspace;
        let installed = match self.make(core) {
            Ok(Some(made)) => self.install(core, made, started),
            Ok(None) => Ok(false),
            Err(error) => Err(error),
        };
        let id = keyspace.id;
        match installed {
            Ok(true) => return Ok(()),
            Ok(false) => {
                keyspace.indexing.lock().too_large = Some(TooLarge::of(&self.version));
                let bytes_max = self.bytes_max(core);
                core.events.emit(&Event::RunIndexTooLarge { keyspace: id, bytes_max });
            }
            Err(Error::Cancelled) => {}
            Err(error) => {
                keyspace.indexing.lock().failed = true;
                core.events.emit(&Event::RunIndexFailed { keyspace: id, error });
            }
        }
        // The next one may be made.
        keyspace.indexing.lock().replaced = None;
        Ok(())
    }

    /// What other keyspaces' indexes leave.
    fn bytes_max(&self, core: &Core) -> u64 {
        let keyspaces = core.keyspaces.load();
        let others = keyspaces.by_id.values().filter(|other| other.id != self.keyspace.id);
        let taken: u64 = others.map(|other| other.view.load().index_bytes()).sum();
        core.store.memory.run_index_bytes.saturating_sub(taken)
    }

    /// `None` if it would be too large.
    fn make(&self, core: &Core) -> Result<Option<Made>> {
        let Wanted { known, unknown } = &self.wanted;
        let old = self.coverage.as_ref().filter(|coverage| !coverage.is_stale());
        let mut covered: Vec<(Arc<Run>, Slots)> = Vec::new();
        let mut sources: Vec<Box<dyn Entries>> = Vec::new();
        let mut now = vec![0; SLOTS_MAX];
        let known = known.iter().map(|(run, slots)| (run, Some(*slots)));
        for (run, slots) in known.chain(unknown.iter().map(|run| (run, None))) {
            let slot = single_slot(covered.len());
            match (slots, old) {
                (Some(slots), Some(_)) => {
                    let theirs = now.iter_mut().enumerate().filter(|(i, _)| slots >> i & 1 != 0);
                    theirs.for_each(|(_, now)| *now |= slot);
                }
                _ => match RunDigest::of(run)? {
                    Some(digest) => sources.push(Box::new(DigestCursor::new(digest, slot))),
                    None => {
                        let without = Arc::downgrade(run);
                        self.keyspace.indexing.lock().without_digest.push(without);
                        continue;
                    }
                },
            }
            covered.push((run.clone(), slot));
        }
        if let Some(old) = old {
            sources.push(Box::new(Renumbered::new(old.index.clone(), now)));
        }
        let stop = || self.keyspace.dropped.load(Ordering::Relaxed) || core.background.stopping();
        let index = unite(sources, self.bytes_max(core), &stop)?;
        Ok(index.map(|index| Made { index: Arc::new(index), covered }))
    }

    /// False if others have taken the memory meanwhile.
    fn install(&self, core: &Core, made: Made, started_ns: u64) -> Result<bool> {
        let Made { index, covered } = made;
        let _versions = core.lock_versions()?;
        let keyspace = &self.keyspace;
        if keyspace.dropped.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        if index.memory_bytes() > self.bytes_max(core) {
            return Ok(false);
        }
        let (runs, entries, bytes) = (covered.len() as u64, index.entries(), index.memory_bytes());
        let runs_min = keyspace.options.run_index_runs_min as usize;
        let mut coverage = Coverage::new(index, covered, runs_min, &self.version);
        {
            let mut indexing = keyspace.indexing.lock();
            indexing.made += 1;
            for step in indexing.replaced.take().into_iter().flatten() {
                coverage = coverage.follow(&step.before, &step.after, Some(&step.replaced));
            }
        }
        keyspace.update_view(|view| {
            view.coverage = Some(Arc::new(coverage.follow(&view.version, &view.version, None)));
        });
        let duration_us = (core.env.clock.now_ns() - started_ns) / 1_000;
        let id = keyspace.id;
        core.events.emit(&Event::RunIndexMade { keyspace: id, runs, entries, bytes, duration_us });
        Ok(true)
    }
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;
    use crate::db::{Db, Setup};
    use crate::options::{Compaction, KeyspaceOptions, Options};
    use esker_base::Env;
    use esker_base::vfs::strict::StrictVfs;

    #[test]
    fn one_is_made_at_a_time() {
        let env = Env::with_vfs(Arc::new(StrictVfs::new()), 1);
        let setup = Setup { env, inline_background: true, ..Setup::default() };
        let memory = Options { run_index_bytes_max: Some(1 << 20), ..Options::default() };
        let db = Db::open_with("/db", memory, setup).expect("open");
        let options = KeyspaceOptions {
            compaction: Compaction::Tiered,
            run_index: true,
            run_index_runs_min: 2,
            level0_runs_compact: 20,
            ..KeyspaceOptions::default()
        };
        let keyspaces =
            ["a", "b"].map(|name| db.create_keyspace(name, options.clone()).expect("create"));
        let failed = |failed: bool| {
            keyspaces.iter().for_each(|k| k.core.indexing.lock().failed = failed);
        };
        failed(true);
        for _ in 0..2 {
            keyspaces.iter().for_each(|k| k.put(b"key", b"value").expect("put"));
            db.flush().expect("flush");
        }
        failed(false);
        let core = db.core();
        for _ in 0..2 {
            let job = choose(core).expect("choose").expect("an index is due");
            assert!(choose(core).expect("choose").is_none(), "what is left is not known yet");
            job.run(core).expect("run");
            core.background.end_compaction();
        }
        assert!(choose(core).expect("choose").is_none(), "both are made");
        // Both are due again; the first one's came first.
        failed(true);
        keyspaces.iter().for_each(|k| k.put(b"key", b"value").expect("put"));
        db.flush().expect("flush");
        failed(false);
        for expected in [0, 1] {
            let job = choose(core).expect("choose").expect("an index is due");
            assert_eq!(job.keyspace.id, keyspaces[expected].core.id);
            // Another is due at once.
            keyspaces[expected].put(b"key", b"value").expect("put");
            keyspaces[expected].flush().expect("flush");
            job.run(core).expect("run");
            core.background.end_compaction();
        }
        db.close().expect("close");
    }
}

//! The power fails at the calls of a script.

use super::records::{
    Checked, DIR, FIELDS, MARKER, Records, apply, check, key, random_batch, text, value,
};
use crate::crash;
use crate::history::{marker_number, marker_value, small_options, vary};
use crate::random::Random;
use esker::base::vfs::strict::{StrictOptions, StrictVfs, Survival};
use esker::base::{Error, Vfs};
use esker::{Batch, Db, Options, WriteOptions};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A store under test, and what it should hold.
pub(super) struct Run {
    /// What the store is opened on, and the disk below that.
    disk: Arc<dyn Vfs>,
    vfs: StrictVfs,
    options: Options,
    random: Random,
    pub(super) db: Option<Db>,
    batches: Vec<Batch>,
    pub(super) acknowledged: usize,
    pub(super) durable: usize,
    /// What a bulk load added behind so many batches, and whether it is there for certain.
    loaded: Option<(usize, Records, bool)>,
    fields: BTreeSet<String>,
    /// The field whose index is being made or dropped.
    pending: Option<String>,
}

impl Run {
    /// Options are drawn too.
    pub(super) fn new(disk: Arc<dyn Vfs>, vfs: StrictVfs, seed: u64) -> Run {
        let mut options = small_options();
        vary(&mut options, &mut Random::new(seed));
        Run {
            disk,
            vfs,
            options,
            random: Random::new(seed),
            db: None,
            batches: Vec::new(),
            acknowledged: 0,
            durable: 0,
            loaded: None,
            fields: BTreeSet::new(),
            pending: None,
        }
    }

    fn db(&mut self) -> esker::Result<Db> {
        if let Some(db) = &self.db {
            return Ok(db.clone());
        }
        let seed = self.vfs.mutating_calls();
        let db = crash::open_on(self.disk.clone(), seed, DIR, &self.options)?;
        Ok(self.db.insert(db).clone())
    }

    /// Closes the store, which may be another one when it is opened next: in how trees are
    /// compacted, and where values are.
    fn close(&mut self) -> esker::Result<()> {
        if let Some(db) = self.db.take() {
            db.close()?;
            self.durable = self.acknowledged;
        }
        vary(&mut self.options, &mut self.random);
        Ok(())
    }

    fn write(&mut self, count: u64) -> esker::Result<()> {
        let db = self.db()?;
        for _ in 0..count {
            let mut batch = random_batch(&mut self.random);
            batch.put(MARKER, &marker_value(self.batches.len() + 1));
            self.batches.push(batch.clone());
            let sync = self.random.one_in(15);
            db.write(batch, WriteOptions { sync })?;
            self.acknowledged = self.batches.len();
            if sync {
                self.durable = self.acknowledged;
            }
        }
        Ok(())
    }

    fn create(&mut self, field: &str) -> esker::Result<()> {
        let db = self.db()?;
        self.pending = Some(field.to_owned());
        db.default_keyspace().create_index(field)?;
        self.fields.insert(field.to_owned());
        self.pending = None;
        Ok(())
    }

    fn drop_index(&mut self, field: &str) -> esker::Result<()> {
        let db = self.db()?;
        self.pending = Some(field.to_owned());
        db.default_keyspace().drop_index(field)?;
        self.fields.remove(field);
        self.pending = None;
        Ok(())
    }

    fn ingest(&mut self) -> esker::Result<()> {
        let db = self.db()?;
        let start = self.random.below(3);
        let random = &mut self.random;
        let load: Records = (0..20).map(|n| (key(start + 7 * n), value(random))).collect();
        let mut ingest = db.default_keyspace().ingest()?;
        for (key, value) in &load {
            ingest.put(key, value)?;
        }
        self.loaded = Some((self.batches.len(), load, false));
        ingest.finish()?;
        self.durable = self.acknowledged;
        if let Some(loaded) = &mut self.loaded {
            loaded.2 = true;
        }
        Ok(())
    }

    /// Everything that happens to indexes.
    pub(super) fn script(&mut self) -> esker::Result<()> {
        self.create(FIELDS[0])?;
        self.write(40)?;
        self.create(FIELDS[1])?;
        self.write(5)?;
        self.db()?.wait_indexes()?;
        self.write(20)?;
        self.db()?.flush()?;
        self.durable = self.acknowledged;
        self.drop_index(FIELDS[0])?;
        self.write(5)?;
        self.close()?;
        self.create(FIELDS[0])?;
        self.write(3)?;
        // It is built after the reopening.
        self.close()?;
        self.db()?.wait_idle()?;
        self.write(10)?;
        self.ingest()?;
        self.write(5)?;
        self.db()?.wait_idle()?;
        self.write(5)?;
        self.drop_index(FIELDS[1])?;
        self.close()
    }

    /// The records after so many batches, without and with what was loaded.
    fn states(&self, count: usize) -> Vec<Records> {
        let state = |with: bool| {
            let mut records = Records::new();
            for (nth, batch) in self.batches[..count].iter().enumerate() {
                if let Some((at, load, _)) = &self.loaded
                    && with
                    && *at == nth
                {
                    records.extend(load.clone());
                }
                apply(&mut records, batch);
            }
            if let Some((at, load, _)) = &self.loaded
                && with
                && *at == count
            {
                records.extend(load.clone());
            }
            records
        };
        match &self.loaded {
            Some((at, ..)) if count > *at => vec![state(true)],
            Some((at, _, true)) if count == *at => vec![state(true)],
            Some((at, ..)) if count == *at => vec![state(false), state(true)],
            _ => vec![state(false)],
        }
    }

    /// Reopens a store and checks all of it.
    pub(super) fn check_store(&self, kept: &StrictVfs, least: usize) -> Checked {
        let db = match crash::open(kept, DIR, &self.options) {
            Ok(db) => db,
            Err(Error::NotFound { .. }) if least == 0 => return Ok(()),
            Err(error) => return Err(format!("reopen fails: {error}")),
        };
        let (fields, records) = check(&db)?;
        let marker = records.get(MARKER).map_or(Some(0), |value| marker_number(value));
        let count = marker.ok_or("the marker is no number")?;
        if count < least || count > self.batches.len() {
            return Err(format!("{count} batches survived; {least} had to"));
        }
        if !self.states(count).contains(&records) {
            return Err(format!("the records are not those after {count} batches"));
        }
        let mut may_be = vec![self.fields.clone()];
        if let Some(field) = &self.pending {
            let mut other = self.fields.clone();
            if !other.remove(field) {
                other.insert(field.clone());
            }
            may_be.push(other);
        }
        if !may_be.contains(&fields) {
            return Err(format!("there are indexes of {fields:?}; there should be {may_be:?}"));
        }
        goes_on(db, count as u64)
    }

    /// Reopens a store, and checks that its indexes agree with its records, whichever these are.
    pub(super) fn check_indexes(&self, kept: &StrictVfs) -> Checked {
        match crash::open(kept, DIR, &self.options) {
            Err(Error::NotFound { .. }) if self.acknowledged == 0 => Ok(()),
            opened => {
                let db = opened.map_err(|error| format!("reopen fails: {error}"))?;
                check(&db)?;
                goes_on(db, 0)
            }
        }
    }

    /// Reopens what the disk kept, in several ways.
    fn survive(&self, k: u64, reopens: &AtomicU64) -> Checked {
        let ways = [Survival::None, Survival::Some { percent: 50 }, Survival::ProcessDeath];
        for (nth, &way) in ways.iter().enumerate() {
            let kept = self.vfs.crash(way, k * 31 + nth as u64);
            let again = kept.deep_copy();
            let least =
                if way == Survival::ProcessDeath { self.acknowledged } else { self.durable };
            reopens.fetch_add(2, Ordering::Relaxed);
            self.check_store(&kept, least).map_err(|e| format!("{way:?}: {e}"))?;
            // Recovery and building are cut off too, at a call chosen at random.
            let mut random = Random::new(k ^ (nth as u64) << 32);
            again.set_crash_at(again.mutating_calls() + 1 + random.below(60));
            let _ = crash::open(&again, DIR, &self.options).and_then(|db| db.wait_indexes());
            again.power_off();
            let kept = again.crash(ways[random.below(2) as usize], k);
            self.check_store(&kept, self.durable)
                .map_err(|e| format!("{way:?}, then cut off while it recovered: {e}"))?;
        }
        Ok(())
    }
}

/// The store goes on as one that nothing happened to.
fn goes_on(db: Db, seed: u64) -> Checked {
    db.write(random_batch(&mut Random::new(seed)), WriteOptions::default()).map_err(text)?;
    check(&db)?;
    db.close().map_err(text)
}

/// Runs a script to each of its calls, or to one in `stride`.
pub(super) fn cut_everywhere(seed: u64, stride: u64, totals: &[AtomicU64; 2]) -> Checked {
    let preallocated_logs = Random::new(!seed).one_in(2);
    let disk = StrictOptions { preallocated_logs, seed, ..StrictOptions::default() };
    let mut k = 1 + seed % stride;
    loop {
        let vfs = StrictVfs::with_options(disk.clone());
        vfs.set_trace(12);
        vfs.set_crash_at(k);
        let mut run = Run::new(Arc::new(vfs.clone()), vfs, seed);
        let outcome = run.script();
        drop(run.db.take());
        if !run.vfs.is_off() {
            return outcome.map_err(|e| format!("the script itself fails: {e}"));
        }
        totals[0].fetch_add(1, Ordering::Relaxed);
        run.survive(k, &totals[1]).map_err(|e| {
            let calls = run.vfs.trace().join("\n  ");
            format!("power cut at call {k}, seed {seed}: {e}\nlast calls:\n  {calls}")
        })?;
        k += stride;
    }
}

//! The way of large values: into the log beside the batch, which then holds pointers to them.
//!
//! ```text
//! batch -> which values are large? -> compress them (each writer its own) -> write queue
//! group -> values to the log -> the batch with pointers to the log -> ...
//! ```
//!
//! A log with values is ended when it is long enough, and stays for as long as tables point into
//! it.
//! Invariants: (1) a value is in the log before the batch that points to it; (2) a memtable holds
//! the logs that its pointers lead into.

use super::commit::{who_alone_pins, who_pins};
use super::commit_state::{CommitState, raise};
use super::core::{Core, KeyspaceCore, Keyspaces, View};
use super::queue::Request;
use super::separated::Separated;
use crate::log::ValuePointer;
use crate::value_log::{Packed, ValueFileMeta, pack};
use esker_base::batch::BatchOp;
use esker_base::sync::atomic::Ordering;
use esker_base::{Batch, Kind, Result};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a pointer and what stands around it in a batch, about.
const POINTER_BYTES: usize = 32;

/// Share of what overwriting may waste that may be in logs that no table points into yet.
const UNFLUSHED_SHARE: f64 = 0.1;

/// How long a writer waits for a flush before it looks again whether something is wrong.
const FLUSH_WAIT: Duration = Duration::from_millis(50);

/// Finds the large values of a batch and compresses them; `None` if it has none.
pub(super) fn separate(core: &Core, batch: &Batch) -> Option<Box<Separated>> {
    if (batch.size_bytes() as u64) < core.separated_bytes_min.load(Ordering::Relaxed) {
        return None;
    }
    let keyspaces = core.keyspaces.load();
    let pack_large = |op: BatchOp<'_>| {
        let options = &keyspaces.get(op.keyspace)?.options;
        let is_large = options.value_log_bytes_min.is_some_and(|min| op.value.len() as u64 >= min);
        let separated = op.kind == Kind::Put && is_large;
        separated.then(|| pack(op.value, options.value_log_compression))
    };
    let packed: Vec<Option<Packed>> = batch.iter().map(pack_large).collect();
    let any = packed.iter().any(Option::is_some);
    any.then(|| {
        let values = batch.iter().zip(&packed);
        let stored = values.filter_map(|(op, packed)| Some(packed.as_ref()?.parts(op.value).1));
        let stored_bytes = stored.map(|stored| stored.len() as u64).sum();
        let large = batch.iter().zip(&packed).filter(|(_, packed)| packed.is_some());
        let apart = large.map(|(op, _)| op.value.len().saturating_sub(POINTER_BYTES));
        let kept_bytes = batch.size_bytes().saturating_sub(apart.sum()) as u64;
        Box::new(Separated { packed, stored_bytes, kept_bytes, logged: Batch::new() })
    })
}

impl CommitState {
    /// Appends the large values of a request to the log, and its batch with pointers to them.
    #[cold]
    pub(super) fn log_separated(
        &mut self,
        core: &Core,
        keyspaces: &Keyspaces,
        batch: &Batch,
        separated: &mut Separated,
    ) -> Result<()> {
        let Separated { packed, logged, .. } = separated;
        let with_values = || batch.iter().zip(&*packed);
        let values: Vec<(u8, &[u8])> = with_values()
            .filter_map(|(op, packed)| Some(packed.as_ref()?.parts(op.value)))
            .collect();
        let wal = self.journal.wal();
        let wal = wal.expect("without a log it is flushes that keep values apart");
        let mut places = wal.places(values.iter().map(|(_, stored)| stored.len()));
        let mut stored = values.iter().map(|(_, stored)| stored.len());
        *logged = Batch::with_capacity(values.len() * POINTER_BYTES);
        let mut pointer = Vec::with_capacity(POINTER_BYTES);
        let mut value_bytes = 0;
        for (op, packed) in with_values() {
            if packed.is_none() {
                logged.push_op(&op);
                continue;
            }
            let (Some(offset_bytes), Some(stored)) = (places.next(), stored.next()) else { break };
            let to = ValuePointer { log: self.number, offset_bytes, stored_bytes: stored as u32 };
            value_bytes += to.record_bytes();
            pointer.clear();
            to.encode(&mut pointer);
            logged.push_op(&BatchOp { kind: Kind::PutPointer, value: &pointer, ..op });
        }
        drop((places, stored));
        self.value_bytes += value_bytes;
        let bytes = logged.seal(self.next_seq);
        raise(&core.counters.wal_bytes, value_bytes + bytes.len() as u64);
        wal.append_with_values(&values, bytes)?;
        for (op, _) in with_values().filter(|(_, packed)| packed.is_some()) {
            if let Some(keyspace) = keyspaces.get(op.keyspace) {
                raise(&keyspace.user_bytes, op.value.len() as u64);
            }
        }
        // From now on it is a file that values are read from.
        let salt = wal.salt();
        let meta = || ValueFileMeta::of_log(self.number, salt, u64::MAX);
        self.values.get_or_insert_with(|| core.store.values.file(&meta()));
        Ok(())
    }

    /// Notes that a memtable is about to hold pointers into the current log.
    #[cold]
    pub(super) fn hold_log(&self, view: &View) {
        let file = self.values.as_ref();
        view.logs.add(file.expect("a batch with pointers follows its values into the log"));
    }

    /// True if the log has values, and these would take more than a file of values may after this
    /// group.
    #[inline]
    pub(super) fn is_full_of_values(&self, core: &Core, group: &[Request]) -> bool {
        self.values.is_some() && {
            let separated = group.iter().filter_map(|request| request.separated.as_ref());
            let bytes: u64 = separated.map(|separated| separated.stored_bytes).sum();
            self.value_bytes + bytes > core.value_use.length_max.load(Ordering::Relaxed)
        }
    }

    /// Goes on to the next log after one with values, and sees to it that tables come to point into
    /// old ones.
    ///
    /// # Errors
    /// Nothing changed but that a memtable may have been sealed.
    #[cold]
    pub(super) fn end_log_of_values(&mut self, core: &Core) -> Result<()> {
        let keyspaces = core.keyspaces.load_full();
        let unflushed = |k: &Arc<KeyspaceCore>| {
            let first = k.view.load().active_first_wal.load(Ordering::Relaxed);
            bytes_since(core, first) + self.value_bytes
        };
        let by_bytes =
            who_pins(&keyspaces).filter(|oldest| unflushed(oldest) > unflushed_bytes_max(core));
        let by_number = || who_alone_pins(&keyspaces).filter(|_| core.do_logs_pile_up());
        match by_bytes.or_else(by_number) {
            // That goes on to the next log too.
            Some(oldest) => self.seal(core, &[oldest.id])?,
            None => self.rotate(core)?,
        }
        // Where the disk falls behind, whoever writes waits for it here.
        while core.retired_wal_bytes.load(Ordering::Relaxed)
            > core.options.wal_bytes_max.saturating_mul(2)
        {
            core.check_writable()?;
            let waiting = core.keyspaces.load().by_id.values().any(|k| {
                let view = k.view.load();
                !view.sealed.is_empty()
            });
            if !waiting {
                break;
            }
            core.wait_progress(FLUSH_WAIT)?;
        }
        Ok(())
    }
}

/// Bytes of values that may be in logs which no table points into.
pub(super) fn unflushed_bytes_max(core: &Core) -> u64 {
    let options = &core.options;
    let waste = (options.value_log_space_amp_max - 1.0) * UNFLUSHED_SHARE;
    let live = core.value_use.live_bytes.load(Ordering::Relaxed);
    let share = (live as f64 * waste) as u64;
    let file_bytes = core.value_use.length_max.load(Ordering::Relaxed);
    share.clamp(file_bytes, options.wal_bytes_max.max(file_bytes))
}

/// Bytes of the values in logs that are complete, from `first` on.
fn bytes_since(core: &Core, first: u64) -> u64 {
    let retired = core.retired.lock();
    retired.iter().filter(|wal| wal.number >= first).map(|wal| wal.value_bytes).sum()
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;
    use crate::db::{Db, Setup};
    use crate::options::{Compression, KeyspaceOptions, Options};
    use esker_base::Env;
    use esker_base::vfs::strict::StrictVfs;

    /// However many fit into the bytes that logs may have: each keeps a file open.
    #[test]
    fn logs_that_end_for_their_values_do_not_pile_up() {
        let env = Env::with_vfs(Arc::new(StrictVfs::new()), 1);
        let setup = Setup { env, inline_background: true, ..Setup::default() };
        let default_keyspace = KeyspaceOptions {
            memtable_bytes: 64 << 10,
            value_log_bytes_min: Some(100),
            value_log_compression: Compression::None,
            ..KeyspaceOptions::default()
        };
        let options = Options {
            wal_bytes_max: 1 << 20,
            value_log_file_bytes: 16 << 10,
            value_log_space_amp_max: 100.0,
            default_keyspace,
            ..Options::default()
        };
        let db = Db::open_with("/db", options, setup).expect("open");
        let put = |range: std::ops::Range<u32>| {
            for number in range {
                db.put(&number.to_be_bytes(), &[7; 4096]).expect("put");
            }
        };
        // What is alive says how much of it may be without a table.
        put(0..300);
        db.flush().expect("flush");
        let mut most = 0;
        for number in 300..540 {
            put(number..number + 1);
            most = most.max(db.core().retired.lock().len());
        }
        assert!((32..=33).contains(&most), "{most} logs");
    }
}

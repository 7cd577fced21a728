//! What is simulated: a tree, a load, a machine.

use crate::options::{KeyspaceOptions, memtable_limit_bytes};
use esker_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// As many compactions as a store may run at once.
const THREADS_MAX: u32 = 64;

/// What is simulated.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Of the only keyspace.
    pub options: KeyspaceOptions,
    /// Most bytes that its memtables may hold. Minimum: two memtables. As in a store, one is sealed
    /// at a quarter of it if that is less than `memtable_bytes`; where writers are stopped only at
    /// `memtable_bytes`, as in those whose way that is.
    pub memtables_bytes_max: u64,
    /// Compactions that may run at once, each on a thread of its own. Range: 1 to 64.
    pub compaction_threads: u32,
    /// What is written.
    pub load: Load,
    /// What it is written on.
    pub machine: Machine,
    /// How writers are held back.
    pub writers: Writers,
}

/// A load of writes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Bytes of keys and values, all together.
    pub bytes: u64,
    /// Bytes of a record. Minimum: 1. No more than a memtable holds before it is sealed.
    pub record_bytes: u64,
    /// Which keys.
    pub keys: Keys,
    /// Bytes a second that come if nothing holds writers back. Minimum: 1.
    pub bytes_per_second: u64,
    /// Every write also goes to a log on the same device.
    pub log: bool,
}

/// Which keys are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keys {
    /// Each once, in random order.
    Random,
    /// Each once, in ascending order.
    Ascending,
    /// Again and again, at random, out of so many. Minimum: 1.
    Out {
        /// How many there are.
        of: u64,
    },
}

/// A device and the processors before it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Bytes a second that one head reads or writes. Minimum: 1.
    pub bytes_per_second: u64,
    /// Requests that are served at once. Minimum: 1.
    pub heads: u32,
    /// What every request costs before its first byte.
    pub seek_us: u64,
    /// Bytes of a request. Minimum: 1.
    pub request_bytes: u64,
    /// Bytes a second that a thread can read and write, if the device is fast enough. Minimum: 1.
    pub thread_bytes_per_second: u64,
}

/// How writers are held back when they come too fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Writers {
    /// As Esker does it, but for its stop at twice `level0_runs_max` runs: more and more, and
    /// altogether only while memory is full.
    Paced,
    /// As LevelDB and RocksDB 2.5 do it: by a millisecond for each record from `level0_runs_slow`
    /// runs on, and altogether at `level0_runs_max` runs or while memory is full. Flushes go before
    /// compactions, which have what these leave of the device.
    Stopped,
}

impl Machine {
    /// A disk that turns, 7 200 times a minute. Seeks are counted into its 100 MB a second:
    /// `seek_us` is 0, and requests of any size go at the same rate.
    pub const DISK: Machine = Machine {
        bytes_per_second: 100_000_000,
        heads: 1,
        seek_us: 0,
        request_bytes: 1 << 20,
        thread_bytes_per_second: 1_000_000_000,
    };

    /// A solid-state drive behind SATA.
    pub const SATA: Machine = Machine {
        bytes_per_second: 250_000_000,
        heads: 2,
        seek_us: 60,
        request_bytes: 256 << 10,
        thread_bytes_per_second: 300_000_000,
    };

    /// A fast solid-state drive.
    pub const NVME: Machine = Machine {
        bytes_per_second: 700_000_000,
        heads: 4,
        seek_us: 20,
        request_bytes: 256 << 10,
        thread_bytes_per_second: 300_000_000,
    };

    /// Bytes a nanosecond of one head, seeks counted in.
    pub(super) fn head(&self) -> f64 {
        let request_ns = self.request_bytes as f64 * 1e9 / self.bytes_per_second as f64;
        self.request_bytes as f64 / (request_ns + self.seek_us as f64 * 1e3)
    }
}

impl Plan {
    /// Bytes with which a memtable is full.
    pub(super) fn memtable_bytes(&self) -> u64 {
        match self.writers {
            Writers::Paced => memtable_limit_bytes(&self.options, self.memtables_bytes_max),
            Writers::Stopped => self.options.memtable_bytes,
        }
    }

    /// Checks every range, and that no option asks for what is not simulated.
    ///
    /// # Errors
    /// `InvalidArgument` naming what is wrong.
    pub fn validate(&self) -> Result<()> {
        self.options.validate()?;
        for (name, asked) in [
            ("value_log_bytes_min", self.options.value_log_bytes_min.is_some()),
            ("run_index", self.options.run_index),
        ] {
            if asked {
                return Err(Error::invalid(format!(
                    "{name} is set, and simulations have neither values apart from the tree nor run indexes: leave it out"
                )));
            }
        }
        let distinct = if let Keys::Out { of } = self.load.keys { of } else { 1 };
        for (name, value, min) in [
            ("record_bytes", self.load.record_bytes, 1),
            ("bytes_per_second of the load", self.load.bytes_per_second, 1),
            ("distinct keys", distinct, 1),
            ("bytes_per_second", self.machine.bytes_per_second, 1),
            ("heads", self.machine.heads.into(), 1),
            ("request_bytes", self.machine.request_bytes, 1),
            ("thread_bytes_per_second", self.machine.thread_bytes_per_second, 1),
            ("compaction_threads", self.compaction_threads.into(), 1),
            ("memtables_bytes_max", self.memtables_bytes_max, 2 * self.options.memtable_bytes),
        ] {
            if value < min {
                return Err(Error::invalid(format!("{name} = {value} is below its minimum {min}")));
            }
        }
        let (record, memtable) = (self.load.record_bytes, self.memtable_bytes());
        if record > memtable {
            return Err(Error::invalid(format!(
                "record_bytes = {record} is more than the {memtable} bytes with which a memtable is full, and simulations divide no \
                 records"
            )));
        }
        let threads = self.compaction_threads;
        if threads > THREADS_MAX {
            let what = format!("compaction_threads = {threads} is above its maximum {THREADS_MAX}");
            return Err(Error::invalid(what));
        }
        Ok(())
    }
}

/// How far a simulation is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Bytes of the load that were written.
    pub user_bytes: u64,
    /// The time that has passed in it.
    pub at_us: u64,
    /// Compactions made.
    pub compactions: u64,
}

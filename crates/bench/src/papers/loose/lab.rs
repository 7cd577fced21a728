//! Runs workloads on a store of the experiments.

use crate::config::Config;
use crate::drive::{self, Plan};
use crate::keys::Known;
use crate::progress::Progress;
use crate::result::Measured;
use crate::store::Store;
use crate::workload;
use esker_draw::Outcome;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs workloads on a store.
pub(super) struct Lab<'a> {
    pub(super) name: String,
    /// Records, and bytes of their values.
    pub(super) num: u64,
    pub(super) value_size: usize,
    pub(super) dir: &'a Path,
    pub(super) stop: &'a AtomicBool,
    pub(super) progress: &'a mut Progress,
}

impl Lab<'_> {
    /// Runs a workload; `None` if that was interrupted.
    pub(super) fn run(
        &mut self,
        store: &dyn Store,
        workload: &str,
        nexts: u64,
        step: usize,
        operations: u64,
    ) -> Outcome<Option<Measured>> {
        let config = self.config(nexts)?;
        let (known, workload) = (Known::new(config.num), workload::find(workload)?);
        let plan = Plan { operations, ..config.plan(workload, step)? };
        let of = (self.name.as_str(), store);
        let measured = drive::run(of, self.dir, workload, &plan, &known, self.stop, self.progress)?;
        Ok((!self.stop.load(Ordering::Relaxed)).then_some(measured))
    }

    pub(super) fn config(&self, nexts: u64) -> Outcome<Config> {
        let (num, value_size) = (self.num.to_string(), self.value_size.to_string());
        let nexts = nexts.to_string();
        Config::of(&["--num", &num, "--value_size", &value_size, "--seek_nexts", &nexts])
    }
}

//! The simulator: the engine's own policies, schedules and pace, on tables that are only counted
//! and a machine that is only computed.
//!
//! Tables are sizes and key ranges, a compaction is a number of bytes that go through a device, and
//! time jumps from one event to the next: days pass in minutes. What is chosen, when, and what it
//! leads to, is decided by the code that decides it in a store (`compaction/policy` and
//! `compaction/scheduler`); what a compaction writes is computed from how many keys its inputs
//! share (`spread.rs`).
//!
//! Left out: compression, tombstones, filters, reads and what they cache, values apart from the
//! tree and run indexes (which [`Plan::validate`] refuses), that outputs are cut where they would
//! overlap too much of the level below them, that one compaction is done by several threads, and
//! that writers, flushes and compactions share processors.

mod plan;
mod rule;
mod spread;
#[cfg(test)]
mod tests;
mod world;

pub use crate::version::LevelScore;
pub use plan::{Keys, Load, Machine, Plan, Progress, Writers};
pub use rule::Rule;

use crate::compaction::scheduler::Schedule;
use crate::trace::Trace;
use esker_base::Result;

/// Runs a plan until everything is written and nothing is left to compact. `progress` is called
/// after each step; false ends it early.
///
/// # Errors
/// `InvalidArgument` of [`Plan::validate`]; `Cancelled` if `progress` said so.
/// # Cost
/// Time in proportion to compactions times tables of the levels they touch: in a leveled tree the
/// square of the load, and more. Measured with the default options and keys in random order, on a
/// machine that others used too, in time of one processor: 256 GiB 2 s, 512 GiB 10 s, 1 TiB 70 to
/// 110 s; in tiers, 1 TiB half a second.
pub fn run(plan: &Plan, progress: impl FnMut(&Progress) -> bool) -> Result<Trace> {
    plan.validate()?;
    world::World::new(plan, &mut Schedule::new(&plan.options)).run(progress)
}

/// The same with a rule of one's own in the place of the options' `scheduler`: for experiments.
///
/// # Errors
/// As [`run`].
pub fn run_by(
    rule: &mut dyn Rule,
    plan: &Plan,
    progress: impl FnMut(&Progress) -> bool,
) -> Result<Trace> {
    plan.validate()?;
    world::World::new(plan, rule).run(progress)
}

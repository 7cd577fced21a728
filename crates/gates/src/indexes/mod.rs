//! Gate: indexes hold what the records hold, whatever happens.
//!
//! In the first part (`cuts`) the power fails at calls that change the disk, while records are
//! written and indexes are made, built, dropped, and built anew after a bulk load, also by a store
//! with other options. The store is reopened from what the disk kept, in several ways: once it is
//! idle every index is ready and agrees with the records in both directions, and the records with a
//! prefix of what was written. In the second one (`threads`) sixteen threads write the same few
//! keys; finds are compared with records under snapshots meanwhile, and everything at the end. In
//! the third one (`outages`) the power fails while sixteen threads write and indexes come and go,
//! again and again in one store, whose indexes agree with its records each time. In the fourth one
//! (`faults`) calls of the first part's script fail, once or from then on, and then the disk heals.

mod cuts;
mod faults;
mod outages;
mod records;
mod threads;

use crate::faults::fail_everywhere;
use crate::gate::{Config, Outcome, case_seed, for_cases};
use std::sync::atomic::AtomicU64;

/// Runs the gate.
pub fn gate(config: &Config) -> Outcome {
    let scripts = config.choose(2, 40);
    let totals: [AtomicU64; 2] = Default::default();
    for_cases(&config.share(0.4), scripts, |case| {
        cuts::cut_everywhere(case_seed(config.seed, case), config.choose(3, 1), &totals)
    })?;
    let [cuts, reopens] = totals.map(AtomicU64::into_inner);
    let seconds = config.share(0.2).seconds(4.0, 300.0);
    let ([mut batches, mut finds], [mut rounds, mut outlived]) = ([0; 2], [0; 2]);
    // These have no numbers.
    if config.case.is_none() {
        [batches, finds] = threads::threads(config.seed, seconds)?;
        [rounds, outlived] = outages::outages(config.seed, seconds)?;
    }
    let faults = fail_everywhere(&config.share(0.2).behind(scripts), faults::run)?;
    Ok(format!(
        "{cuts} cuts, {reopens} reopens; {batches} batches of threads, {finds} finds; {rounds} outages under threads, \
         {outlived} batches; {faults} runs with calls that fail"
    ))
}

//! Gate: the store does what a plain ordered map does.
//!
//! Random operations of some fifty kinds go to a store and to a model made of `BTreeMap`s; every
//! answer is compared. Snapshots and cursors are kept across many operations. The store lives on a
//! strict disk, does its background work inline and is closed, cut off, filled up and reopened with
//! other options in between. The same seed gives the same run.

mod orders;
mod reads;
mod world;
mod writes;

pub use orders::OrderKind;

use crate::gate::{Config, Outcome, case_seed, for_cases};
use crate::random::Random;
use std::sync::atomic::{AtomicU64, Ordering};
use world::World;

/// Operations on each store.
const OPERATIONS: u64 = 100_000;

type Step = fn(&mut World) -> Result<(), String>;

/// Kinds of operation: how often they come, in ten thousandths, what they are called, what they do.
const STEPS: &[(u64, &str, Step)] = &[
    (2_400, "put", World::put),
    (300, "put the same again", World::put_again),
    (500, "delete", World::delete),
    (60, "delete a range", World::delete_range),
    (10, "delete an empty range", World::delete_empty_range),
    (10, "delete a reversed range", World::delete_reversed_range),
    (400, "batch across keyspaces", World::batch),
    (50, "batch, synced", World::batch_synced),
    (10, "empty batch", World::empty_batch),
    (20, "batches joined", World::joined_batches),
    (20, "batch that overwrites itself", World::batch_over_itself),
    (10, "sync", World::sync),
    (5, "key too long", World::key_too_long),
    (5, "batch for an unknown keyspace", World::unknown_keyspace),
    (2_500, "get", World::get),
    (500, "get a missing key", World::get_missing),
    (400, "get at a snapshot", World::get_at_snapshot),
    (100, "several keys", World::multi_get),
    (50, "several keys at a snapshot", World::multi_get_at),
    (30, "scan forward", World::scan_forward),
    (30, "scan backward", World::scan_backward),
    (30, "scan at a snapshot", World::scan_at_snapshot),
    (200, "scan a range", World::scan_range),
    (60, "range iterator", World::range_iterator),
    (60, "iterator from both ends", World::both_ends),
    (60, "prefix", World::prefix),
    (30, "scan a reversed range", World::scan_reversed_range),
    (300, "cursor walk", World::cursor_walk),
    (40, "cursor walk at a snapshot", World::cursor_walk_at),
    (60, "keep a cursor", World::keep_cursor),
    (400, "move a kept cursor", World::move_kept_cursor),
    (30, "drop kept cursors", World::drop_cursors),
    (120, "open a snapshot", World::open_snapshot),
    (110, "drop a snapshot", World::drop_snapshot),
    (8, "flush a keyspace", World::flush_one),
    (4, "flush all", World::flush_all),
    (4, "compact all", World::compact_all),
    (6, "compact a range", World::compact_part),
    (6, "collect values", World::collect),
    (2, "wait until idle", World::wait_idle),
    (3, "delete all and be idle", World::delete_all),
    (4, "compact otherwise", World::compact_otherwise),
    (4, "close and reopen", World::reopen),
    (3, "reopen with other options", World::reopen_otherwise),
    (3, "process death", World::process_death),
    (3, "power cut", World::power_cut),
    (2, "disk full, then not", World::disk_full),
    (2, "checkpoint", World::checkpoint),
    (1, "open read-only", World::read_only),
    (3, "second open", World::second_open),
    (6, "ingest", World::ingest),
    (3, "ingest out of order", World::ingest_unordered),
    (2, "ingest dropped", World::ingest_dropped),
    (2, "create a keyspace", World::create_keyspace),
    (2, "drop a keyspace", World::drop_keyspace),
    (2, "create one that exists", World::create_twice),
    (1, "verify", World::verify),
    (4, "statistics", World::statistics),
    (6, "approximate sizes", World::approximate_size),
];

/// Runs the gate: many stores, each with its own options.
pub fn gate(config: &Config) -> Outcome {
    let stores = config.choose(100, 10_000);
    let (done, opens) = (AtomicU64::new(0), AtomicU64::new(0));
    for_cases(config, stores, |case| {
        let made = run(case_seed(config.seed, case), OPERATIONS)?;
        done.fetch_add(1, Ordering::Relaxed);
        opens.fetch_add(made, Ordering::Relaxed);
        Ok(())
    })?;
    let (done, opens) = (done.into_inner(), opens.into_inner());
    Ok(format!("{} operations on {done} stores, {opens} opens", done * OPERATIONS))
}

/// Runs operations on one store made from `seed`. Returns how often it was opened.
fn run(seed: u64, operations: u64) -> Result<u64, String> {
    let mut random = Random::new(seed);
    let mut world = World::new(seed, &mut random)?;
    let weights: u64 = STEPS.iter().map(|step| step.0).sum();
    for i in 0..operations {
        let mut pick = random.below(weights);
        let step = STEPS.iter().find(|step| {
            let here = pick < step.0;
            pick = pick.saturating_sub(step.0);
            here
        });
        let Some(&(_, name, step)) = step else { continue };
        world.name_step(name);
        step(&mut world).map_err(|error| {
            format!(
                "operation {i} ({name}), {}: {error}\nbefore it: {}",
                world.describe(),
                world.recent_steps()
            )
        })?;
    }
    Ok(world.opens)
}

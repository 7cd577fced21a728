//! Gate: faults that are planted into the store are found by the gate `external`.

use crate::gate::{Config, Outcome, forget_panics};
use esker::Planted;

/// Runs of the gate with one fault, each with a seed of its own, before the gate counts as blind.
const RUNS: u64 = 3;

/// Runs the gate.
pub fn gate(config: &Config) -> Outcome {
    let mut found = Vec::new();
    for fault in Planted::ALL {
        fault.plant();
        let runs = (0..RUNS).map(|run| Config { seed: config.seed + run, ..*config });
        let report = runs.filter_map(|config| super::gate(&config).err()).next();
        Planted::Nothing.plant();
        forget_panics();
        match report.as_deref().and_then(|report| report.lines().find(|line| !line.is_empty())) {
            Some(line) => found.push(format!("{fault:?} is found: {line}")),
            None => return Err(format!("{fault:?} is not found by {RUNS} runs of `external`")),
        }
    }
    println!("  {}", found.join("\n  "));
    Ok(format!("{} faults planted, each found", Planted::ALL.len()))
}

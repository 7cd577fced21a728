//! `esker-gates GATE [--long] [--seed N]`: runs one reliability gate, or `all`.

use esker_gates::crash::{self, Totals};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let long = arguments.iter().any(|a| a == "--long");
    let seed = arguments
        .iter()
        .position(|a| a == "--seed")
        .and_then(|at| arguments.get(at + 1))
        .and_then(|n| n.parse().ok())
        .unwrap_or(1);
    match crash_gate(long, seed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn crash_gate(long: bool, seed: u64) -> Result<(), String> {
    let seeds = if long { 20 } else { 1 };
    let mut totals = Totals::default();
    for seed in seed..seed + seeds {
        for &(name, script) in crash::SCENARIOS {
            for plain_logs in [false, true] {
                let before = totals;
                crash::every_call(name, script, plain_logs, seed, 1, &mut totals)?;
                println!(
                    "crash: {name} ({} logs), seed {seed}: {} cuts, {} reopens, 0 violations",
                    if plain_logs { "plain" } else { "preallocated" },
                    totals.crashes - before.crashes,
                    totals.reopens - before.reopens
                );
            }
        }
    }
    println!("crash: {} cuts, {} reopens, 0 violations", totals.crashes, totals.reopens);
    Ok(())
}

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
    let gate = arguments.first().map_or("all", String::as_str);
    let crash = || if matches!(gate, "crash" | "all") { crash_gate(long, seed) } else { Ok(()) };
    let model = || if matches!(gate, "model" | "all") { model_gate(long, seed) } else { Ok(()) };
    let limits = || if matches!(gate, "limits" | "all") { limits_gate(long, seed) } else { Ok(()) };
    match crash().and_then(|()| model()).and_then(|()| limits()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn model_gate(long: bool, seed: u64) -> Result<(), String> {
    let (stores, operations) = if long { (2_000, 500_000) } else { (100, 100_000) };
    let mut totals = esker_gates::model::ModelTotals::default();
    for seed in seed..seed + stores {
        esker_gates::model::run(seed, operations, &mut totals)?;
    }
    println!(
        "model: {} operations on {} stores, {} opens, all answers the same",
        totals.operations, totals.stores, totals.opens
    );
    Ok(())
}

fn limits_gate(long: bool, seed: u64) -> Result<(), String> {
    let dir = std::env::temp_dir().join(format!("esker-limits-{}", std::process::id()));
    let (budget, data, burst) =
        if long { (256 << 20, 10 << 30, 5 << 30) } else { (64 << 20, 1 << 30, 1 << 30) };
    let mut violations = Vec::new();
    let mut run = |name: &str, result: esker::Result<esker_gates::limits::Figures>| {
        let _ = std::fs::remove_dir_all(&dir);
        let figures = result.map_err(|e| format!("{name}: {e}"))?;
        figures.lines.iter().for_each(|line| println!("{name}: {line}"));
        violations.extend(figures.violations.iter().map(|v| format!("{name}: {v}")));
        Ok::<(), String>(())
    };
    run("burst", esker_gates::limits::burst(&dir, burst, 1_024, seed))?;
    run("budget", esker_gates::limits::budget(&dir, budget, data, seed))?;
    if violations.is_empty() { Ok(()) } else { Err(violations.join("\n")) }
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

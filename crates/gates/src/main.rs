//! `esker-gates GATE|all [--long] [--seed N] [--minutes M] [--case N]`: runs reliability gates.
//!
//! Prints what each came to. Exits with an error if any found a violation.

use esker_gates::gate::{Config, Outcome, Stopwatch, cases_run, note_panic, panics};
use esker_gates::{
    collection, crash, damage, external, faults, fuzz, indexes, kill, limits, model, power, syncs,
    threads,
};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: esker_gates::memory::Counting = esker_gates::memory::Counting;

/// A gate: its name, what it does in its short and its long form, and how.
struct Gate {
    name: &'static str,
    short: &'static str,
    long: &'static str,
    run: fn(&Config) -> Outcome,
}

const GATES: &[Gate] = &[
    Gate {
        name: "crash",
        short: "power cut at every call of each scenario, at every third where values are apart",
        long: "at every call of each, with 20 seeds",
        run: crash::gate,
    },
    Gate {
        name: "model",
        short: "10 million operations against plain maps",
        long: "a thousand million",
        run: model::gate,
    },
    Gate {
        name: "limits",
        short: "64 MiB of memory for 1 GiB of data",
        long: "256 MiB for 10 GiB; a burst of 5 GiB",
        run: limits::gate,
    },
    Gate {
        name: "power",
        short: "20 thousand power cuts of random scripts",
        long: "a million",
        run: power::gate,
    },
    Gate {
        name: "faults",
        short: "every call of each kind fails, then the disk heals",
        long: "the same with 200 random scripts",
        run: faults::gate,
    },
    Gate {
        name: "syncs",
        short: "a sync fails under threads that write, copy and close, 400 times",
        long: "20 thousand times",
        run: syncs::gate,
    },
    Gate {
        name: "damage",
        short: "each fifth bit, every cut, pages and files mixed up, in small stores; less where files repeat",
        long: "each bit of all of them, and 20 thousand random changes to each file",
        run: damage::gate,
    },
    Gate {
        name: "collection",
        short: "every interleaving of a model of how values are collected",
        long: "the same",
        run: collection::gate,
    },
    Gate {
        name: "indexes",
        short: "power cuts at every third call while indexes are made and built, 16 threads, 16 threads and power cuts, then calls that fail",
        long: "at every call of 40 scripts, then for 5 minutes each",
        run: indexes::gate,
    },
    Gate {
        name: "external",
        short: "power cuts below a log of somebody else's, with 1, 16 and 256 groups; then under four threads",
        long: "at every call of 120 scripts, then for 10 minutes",
        run: external::gate,
    },
    Gate {
        name: "kill",
        short: "a process under load is killed 200 times",
        long: "10 thousand times",
        run: kill::gate,
    },
    Gate {
        name: "fuzz",
        short: "mutated input for each parser, 60 seconds together",
        long: "an hour",
        run: fuzz::gate,
    },
    Gate {
        name: "threads",
        short: "16 threads on one store for 20 seconds",
        long: "for 10 minutes",
        run: threads::gate,
    },
    #[cfg(esker_planted)]
    Gate {
        name: "planted",
        short: "faults that `external` must find",
        long: "the same, at every call",
        run: external::planted,
    },
    #[cfg(esker_shuttle)]
    Gate {
        name: "schedules",
        short: "10 thousand random schedules of a small store",
        long: "a million",
        run: esker_gates::schedules::gate,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((kill::CHILD, rest)) = arguments.split_first().map(|(a, b)| (a.as_str(), b)) {
        return match kill::child(rest) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    // One line for each panic: the report says the rest.
    std::panic::set_hook(Box::new(|panic| {
        note_panic();
        eprintln!("{panic}");
    }));
    let wanted = arguments.first().map_or("", String::as_str);
    let chosen: Vec<&Gate> =
        GATES.iter().filter(|gate| wanted == "all" || wanted == gate.name).collect();
    let config = match parse(arguments.get(1..).unwrap_or_default()) {
        Ok(config) if !chosen.is_empty() => config,
        Ok(_) => return usage("no such gate"),
        Err(message) => return usage(&message),
    };
    let (mut passed, mut failed) = (0, 0);
    for gate in chosen {
        let form = if config.long { gate.long } else { gate.short };
        let instead = config.minutes.map(|m| format!("; as far as it goes by time, {m} minutes"));
        println!("{}: {form}{}; seed {}", gate.name, instead.unwrap_or_default(), config.seed);
        let watch = Stopwatch::default();
        let (panics_before, cases_before) = (panics(), cases_run());
        let outcome = (gate.run)(&config).and_then(|totals| {
            let (panics, cases) = (panics().saturating_sub(panics_before), cases_run());
            match config.case {
                _ if panics > 0 => Err(format!("{panics} panics, see above")),
                Some(case) if cases == cases_before => Err(format!("there is no case {case}")),
                _ => Ok(totals),
            }
        });
        let seconds = watch.seconds();
        match outcome {
            Ok(totals) => {
                println!("{}: {totals}, 0 violations, {seconds:.1} s", gate.name);
                passed += 1;
            }
            Err(report) => {
                // The first line again, for those who see only the end of all that was printed.
                let first = report.lines().next().unwrap_or_default();
                println!("{report}\n{}: FAILED after {seconds:.1} s: {first}", gate.name);
                failed += 1;
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(arguments: &[String]) -> Result<Config, String> {
    let mut config = Config { seed: 1, long: false, minutes: None, case: None, before: 0 };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().and_then(|text| text.parse::<f64>().ok());
            value.ok_or_else(|| format!("{word} needs a number"))
        };
        match word.as_str() {
            "--long" => config.long = true,
            "--seed" => config.seed = number()? as u64,
            "--minutes" => config.minutes = Some(number()?),
            "--case" => config.case = Some(number()? as u64),
            _ => return Err(format!("what is {word}?")),
        }
    }
    Ok(config)
}

fn usage(message: &str) -> ExitCode {
    eprintln!(
        "{message}\nusage: esker-gates GATE|all [--long] [--seed N] [--minutes M] [--case N]"
    );
    for gate in GATES {
        eprintln!("  {:8} {}; --long: {}", gate.name, gate.short, gate.long);
    }
    ExitCode::FAILURE
}

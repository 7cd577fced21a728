//! Gate: each parser gets mutated input, with its checksums mended so that the damage goes deep.
//!
//! | parser | input |
//! |---|---|
//! | options | JSON text |
//! | batch | encoded operations |
//! | record | named fields, parsed, searched without a check, changed; and keys made of them |
//! | block | payload of a data block, walked and searched |
//! | table | file whose blocks were mutated and sealed anew: open, get, scan, verify |
//! | log | write-ahead log with mutated bytes, or with mutated batches sealed anew; opened with its store |
//! | manifest | the same with version edits |
//! | groups | the same with those of a store below a log of somebody else's, of which groups were deleted and carried |
//! | values | a file of values with mutated bytes; opened with its store |
//! | current | CURRENT with mutated text, with and without its checksum mended |
//!
//! The corpus is made by the engine itself. Any answer will do but a panic, a hang, or more than 64
//! MiB. Inputs that lead to a new answer join the corpus: a poor man's coverage.

use crate::gate::{Config, Outcome, Stopwatch, Watchdog, case_seed, guarded};
use crate::memory::peak_of;
use crate::mutate::Target;
use crate::random::Random;
use crate::targets::targets;
use esker::base::sync::Mutex;
use std::collections::BTreeSet;
use std::time::Duration;

const MEMORY_BYTES_MAX: u64 = 64 << 20;

/// Inputs that a corpus holds at most.
const CORPUS_MAX: usize = 400;

/// Runs the gate: 60 seconds together, or an hour.
pub fn gate(config: &Config) -> Outcome {
    let targets = targets(config.seed)?;
    let seconds = config.seconds(60.0, 3600.0) / targets.len() as f64;
    let watchdog = Watchdog::start(Duration::from_secs(20));
    let mut totals = Vec::new();
    for target in &targets {
        let (runs, answers, peak) = fuzz(target.as_ref(), config, seconds, &watchdog)?;
        totals.push(format!("{} {runs} ({answers} answers, {peak} KiB)", target.name()));
    }
    Ok(format!("inputs: {}", totals.join(", ")))
}

/// Returns how many inputs were run, how many different answers they had, and the peak of memory.
fn fuzz(
    target: &dyn Target,
    config: &Config,
    seconds: f64,
    watchdog: &Watchdog,
) -> Result<(u64, usize, u64), String> {
    let watch = Stopwatch::default();
    let corpus = Mutex::new(target.corpus());
    let answers = Mutex::new(BTreeSet::new());
    let totals = Mutex::new((0u64, 0u64));
    let failure = Mutex::new(None);
    let work = |thread: u64| {
        let (mut runs, mut peak) = (0, 0);
        while watch.seconds() < seconds && failure.lock().is_none() {
            let mut random = Random::new(case_seed(config.seed, thread << 48 | runs));
            let (mut input, other) = {
                let corpus = corpus.lock();
                let pick = |random: &mut Random| {
                    corpus[random.below(corpus.len() as u64) as usize].clone()
                };
                (pick(&mut random), pick(&mut random))
            };
            if runs > 0 {
                target.mutate(&mut input, &other, &mut random);
            }
            target.mend(&mut input, &mut random);
            let hex = || input.iter().map(|b| format!("{b:02x}")).collect::<String>();
            if runs % 256 == 0 {
                watchdog.alive(format!("{}, thread {thread}, run {runs}", target.name()));
            }
            let (result, bytes) = peak_of(|| guarded(|| Ok(target.run(&input))));
            runs += 1;
            peak = peak.max(bytes);
            match result {
                Ok(answer) if bytes <= MEMORY_BYTES_MAX => {
                    if answers.lock().insert(answer) {
                        let mut corpus = corpus.lock();
                        if corpus.len() < CORPUS_MAX {
                            corpus.push(input);
                        }
                    }
                }
                Ok(_) => *failure.lock() = Some(format!("{bytes} bytes of memory; {}", hex())),
                Err(message) => *failure.lock() = Some(format!("{message}; input {}", hex())),
            }
        }
        let mut totals = totals.lock();
        totals.0 += runs;
        totals.1 = totals.1.max(peak);
    };
    let work = &work;
    std::thread::scope(|scope| {
        for thread in 0..crate::gate::threads() as u64 {
            scope.spawn(move || work(thread));
        }
    });
    if let Some(message) = failure.into_inner() {
        return Err(format!("{}: {message}", target.name()));
    }
    let (runs, peak) = totals.into_inner();
    Ok((runs, answers.into_inner().len(), peak >> 10))
}

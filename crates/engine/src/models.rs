//! What loom models share: how they are explored, and a line that says what it came to.

use esker_base::sync::checker::model::Builder;
use esker_base::sync::thread::{self, JoinHandle};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Explores all interleavings with at most so many preemptions and prints how many there were.
///
/// `ESKER_LOOM_DEEPER` is a number of preemptions to allow beyond that, for a longer search.
pub(crate) fn explore(name: &str, preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let deeper = std::env::var("ESKER_LOOM_DEEPER").ok();
    let preemptions = preemptions + deeper.and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    let executions = Arc::new(AtomicU64::new(0));
    let counted = executions.clone();
    let clock = esker_base::env::SystemClock::new();
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let seconds = esker_base::Clock::now_ns(&clock) as f64 / 1e9;
    let executions = executions.load(Ordering::Relaxed);
    println!("{name}: {executions} interleavings, up to {preemptions} preemptions, {seconds:.1} s");
}

/// Stack of a model's thread that runs the engine, in words.
const STACK_WORDS: usize = 1 << 16;

/// Starts a thread with a stack that the engine fits in, as one of a model has not.
pub(crate) fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let builder = thread::Builder::new().stack_size(STACK_WORDS);
    builder.spawn(run).expect("loom starts threads")
}

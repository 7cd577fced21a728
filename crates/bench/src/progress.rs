//! Progress on standard error: a bar on a terminal, a line every few seconds elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write, stderr};
use std::time::Instant;

/// Seconds between two lines where there is no terminal.
const LINE_SECONDS: f64 = 5.0;
const DRAWS_HZ: u8 = 10;

/// A line on standard error. That nobody reads it is no reason to end a run.
fn say(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

/// Shows how far a run is.
#[derive(Debug)]
pub struct Progress(Shown);

#[derive(Debug)]
enum Shown {
    Nowhere,
    Lines { last: Instant },
    Bar(ProgressBar),
}

impl Progress {
    /// Begins a run.
    pub fn start(quiet: bool) -> Progress {
        Progress(if quiet {
            Shown::Nowhere
        } else if stderr().is_terminal() {
            let bar =
                ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(DRAWS_HZ));
            let style = ProgressStyle::with_template(
                "{prefix:24} [{bar:30}] {human_pos}/{human_len} {per_sec}",
            );
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            Shown::Bar(bar)
        } else {
            Shown::Lines { last: Instant::now() }
        })
    }

    /// `done` of `total` operations of `what` are done; `u64::MAX` stands for operations without
    /// end.
    pub fn at(&mut self, what: &str, done: u64, total: u64) {
        match &mut self.0 {
            Shown::Nowhere => {}
            Shown::Lines { last } => {
                if last.elapsed().as_secs_f64() >= LINE_SECONDS {
                    *last = Instant::now();
                    match total {
                        u64::MAX => say(&format!("  {what}: {done}")),
                        _ => say(&format!("  {what}: {done} of {total}")),
                    }
                }
            }
            Shown::Bar(bar) => {
                bar.set_prefix(what.to_owned());
                bar.set_length(if total == u64::MAX { done } else { total });
                bar.set_position(done);
            }
        }
    }

    /// Tells something for good, above the bar.
    pub fn tell(&self, line: &str) {
        match &self.0 {
            Shown::Nowhere => {}
            Shown::Lines { .. } => say(line),
            Shown::Bar(bar) => bar.suspend(|| say(line)),
        }
    }

    /// Ends a run.
    pub fn finish(self) {
        if let Shown::Bar(bar) = self.0 {
            bar.finish_and_clear();
        }
    }
}

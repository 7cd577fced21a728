//! Progress on standard error: a bar on a terminal, a line every few seconds elsewhere.

use crate::clock::Stopwatch;
use crate::output::note;
use crate::units;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};

/// Time between two lines where there is no terminal.
const LINE_SECONDS: f64 = 3.0;
/// Drawings of the bar per second.
const DRAWS_HZ: u8 = 10;

/// A bar whose end is not known.
const WITHOUT_END: &str = "{spinner} {prefix} {msg}";

/// What is counted on the way to an end that may be unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct At {
    /// Records so far.
    pub(crate) records: u64,
    /// Bytes of the source so far.
    pub(crate) bytes: u64,
    /// Bytes of the source, if known.
    pub(crate) bytes_total: Option<u64>,
}

enum Shown {
    Nowhere,
    Lines { last_seconds: f64 },
    Bar(ProgressBar),
}

/// Progress of one piece of work.
pub(crate) struct Progress {
    what: &'static str,
    shown: Shown,
    watch: Stopwatch,
}

impl Progress {
    /// Starts. `what`: the word for what is going on, such as `loading`.
    pub(crate) fn start(what: &'static str, quiet: bool) -> Progress {
        let shown = if quiet {
            Shown::Nowhere
        } else if stderr().is_terminal() {
            let target = ProgressDrawTarget::stderr_with_hz(DRAWS_HZ);
            let bar = ProgressBar::with_draw_target(None, target);
            // It may be drawn before the first figure comes.
            bar.set_style(style(WITHOUT_END));
            bar.set_prefix(what);
            Shown::Bar(bar)
        } else {
            Shown::Lines { last_seconds: 0.0 }
        };
        Progress { what, shown, watch: Stopwatch::start() }
    }

    /// Tells how far the work is. Cheap enough to be called for each batch.
    pub(crate) fn at(&mut self, at: At) {
        let seconds = self.watch.seconds();
        let told = match &mut self.shown {
            Shown::Nowhere => return,
            Shown::Lines { last_seconds } => {
                if seconds - *last_seconds < LINE_SECONDS {
                    return;
                }
                *last_seconds = seconds;
                None
            }
            Shown::Bar(bar) => Some(bar),
        };
        let mut text = String::new();
        if at.records > 0 {
            let rate = units::rate(at.records, seconds);
            text = format!("{} records, {rate}", units::count(at.records));
        } else if at.bytes_total.is_none() {
            text = units::bytes(at.bytes);
        }
        // A file may have grown since, or say nothing of its length.
        let total = at.bytes_total.map(|total| total.max(at.bytes)).filter(|&total| total > 0);
        match (told, total) {
            (Some(bar), Some(total)) => {
                if bar.length() != Some(total) {
                    bar.set_length(total);
                    bar.set_style(style(
                        "{prefix} [{bar:30}] {binary_bytes}/{binary_total_bytes} {msg}",
                    ));
                }
                bar.set_message(text);
                bar.set_position(at.bytes);
            }
            (Some(bar), None) => {
                bar.set_message(text);
                bar.tick();
            }
            (None, Some(total)) => {
                let percent = at.bytes as f64 * 100.0 / total as f64;
                let done = units::bytes(at.bytes);
                note(&format!("{}: {percent:.0} % ({done}) {text}", self.what));
            }
            (None, None) => note(&format!("{}: {text}", self.what)),
        }
    }

    /// Takes the bar away before something else is said.
    pub(crate) fn suspend(&self, say: impl FnOnce()) {
        match &self.shown {
            Shown::Bar(bar) => bar.suspend(say),
            _ => say(),
        }
    }

    /// Ends; the bar goes away. Returns the seconds it took.
    pub(crate) fn finish(self) -> f64 {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
        self.watch.seconds()
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

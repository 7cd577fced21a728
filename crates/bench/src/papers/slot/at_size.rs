//! What came of the simulations of one size, and what the thesis measured there.

use super::DYNAMIC;
use esker_draw::Points;
use esker_lab::Summary;

/// What the thesis measured: gigabytes, and how many times as much was written a second with the
/// slice.
pub(super) const MEASURED: [(u64, f64); 2] = [(5, 4.86), (50, 20.17)];

/// Everything that was simulated at one size.
pub(super) struct AtSize {
    pub(super) gigabytes: u64,
    /// Of every schedule.
    pub(super) summaries: Vec<(String, Summary)>,
    /// Lines of bytes a second over the slice in milliseconds: the engine's rotation, and the
    /// thesis's.
    pub(super) slices: Vec<(&'static str, Points)>,
}

/// The names of the lines.
pub(super) const OURS: &str = "slices";
pub(super) const THEIRS: &str = "as built there";
pub(super) const THEIRS_SLOW: &str = "as built there, 45 MB/s";

impl AtSize {
    pub(super) fn of(&self, name: &str) -> Option<&Summary> {
        self.summaries.iter().find(|(other, _)| other == name).map(|(_, summary)| summary)
    }

    /// What the dynamic slice lacks of the best fixed one, as a share; below zero if it is ahead.
    pub(super) fn deficit(&self) -> Option<f64> {
        let dynamic = self.of(DYNAMIC)?.throughput();
        let (_, points) = self.slices.iter().find(|(name, _)| *name == OURS)?;
        let best = points.iter().map(|point| point.1).fold(0.0, f64::max);
        Some(1.0 - dynamic / best)
    }
}

//! What every part of the experiments works with.

use super::choice::Choice;
use crate::place::Place;
use crate::progress::Progress;
use esker_draw::Outcome;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is to be done, where, who may interrupt it, and who is told how far it is.
pub(super) struct Lab<'a> {
    pub(super) choice: &'a Choice,
    pub(super) place: &'a Place,
    pub(super) stop: &'a AtomicBool,
    pub(super) progress: &'a mut Progress,
}

/// Takes what was measured, as soon as it was.
pub(super) type Each<'a, T> = &'a mut dyn FnMut(T) -> Outcome<()>;

impl Lab<'_> {
    /// True once somebody has interrupted.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

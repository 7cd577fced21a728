//! What a panic leaves half done: nobody writes to it any more.

use super::core::Core;

/// Poisons the database if something panics half-way: to be forgotten by what does not.
pub(super) struct PanicWatch<'a> {
    pub(super) core: &'a Core,
    pub(super) what: &'static str,
}

impl Drop for PanicWatch<'_> {
    fn drop(&mut self) {
        self.core.poison(self.what.to_owned());
    }
}

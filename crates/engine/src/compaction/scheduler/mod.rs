//! Which level to compact first, by the levels' scores, and when to compact although none is over its limit.

pub(crate) mod priority;
pub(crate) mod toll;

//! When to compact which level: pure functions over scores and an injected clock.

pub(crate) mod priority;

//! Which level to compact first: functions of the levels' scores.

pub(crate) mod priority;

//! Benchmarks of key-value stores: workloads, what they are measured by, and how results are told.
//!
//! Flow: [`config`] says what is to be run; [`session`] opens a [`store::Store`] for each workload
//! in turn; [`workload`] makes operations of [`keys`]; [`drive`] does them with [`values`] from
//! several threads and looks at [`machine`]; the outcome is a [`result::Measured`] in a
//! [`report::Report`], which [`table`], [`markdown`] and [`plot`] show. Nothing here knows more of
//! an engine than [`store`]'s traits, so that all are asked the same, except for [`ablation`],
//! which takes Esker apart, [`fields`], [`papers`] and [`stalls`].

#![allow(clippy::disallowed_methods, reason = "what is measured is the time of the machine itself")]

pub mod ablation;
pub mod config;
pub mod drive;
pub mod esker_store;
pub mod fields;
pub mod interrupt;
pub mod keys;
pub mod machine;
pub mod markdown;
pub mod papers;
pub mod place;
pub mod plot;
pub mod progress;
mod race;
pub mod report;
pub mod result;
mod rounds;
pub mod session;
pub mod stalls;
pub mod store;
pub mod table;
pub mod values;
pub mod workload;

pub use esker_draw::Outcome;

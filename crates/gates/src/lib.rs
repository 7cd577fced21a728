//! The reliability gates: programs that try to make the store break its promises.
//!
//! Each gate has a short form for every change and a long form for releases; each prints its seed,
//! and a failure can be run again from it.
//!
//! Two model checkers stand beside the gates, each in a build of its own: `cargo xtask loom`
//! explores every interleaving (within a number of preemptions) of small models that stand beside
//! the code they check, in files named `models.rs` of the engine; `cargo xtask shuttle` runs whole
//! stores under random schedules, in `schedules`. Both take `--long`.

pub mod collection;
pub mod crash;
pub mod damage;
pub mod external;
pub mod faults;
pub mod fuzz;
pub mod gate;
pub mod history;
pub mod indexes;
pub mod kill;
pub mod limits;
pub mod memory;
pub mod model;
pub mod mutate;
pub mod power;
pub mod random;
#[cfg(esker_shuttle)]
pub mod schedules;
pub mod script;
pub mod specimen;
pub mod syncs;
pub mod targets;
pub mod threads;

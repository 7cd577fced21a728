//! The reliability gates: programs that try to make the store break its promises.
//!
//! Each gate has a short form for every change and a long form for releases; each prints its seed, and
//! a failure can be run again from it.

pub mod crash;
pub mod damage;
pub mod faults;
pub mod fuzz;
pub mod gate;
pub mod history;
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
pub mod targets;
pub mod threads;

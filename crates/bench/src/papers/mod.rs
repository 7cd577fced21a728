//! The experiments of papers, each by one command: simulated at their sizes, and on real stores.

pub mod basics;
pub mod loose;
pub mod phoenix;
pub mod slot;

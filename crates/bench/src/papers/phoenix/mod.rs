//! The experiments of PheonixLSM on one machine: what a write costs without a log, how many tables
//! groups of their own make, what deleting a group takes, and what replacing the state of a replica
//! does to time and space.
//!
//! Source: PheonixLSM, the engine of PheonixKV, was measured beside RocksDB 5.18. Here Esker is
//! measured in the same ways of working: with a log of its own and below one of somebody else's,
//! with and without groups.

mod choice;
mod deletion;
mod figures;
mod groups;
mod lab;
mod latency;
mod repair;
mod replica;
mod tables;
mod watch;

pub use choice::Choice;
pub use replica::{Pairs, Replica, States, Way};

use crate::machine::Machine;
use crate::place::{self, Place, make_dir};
use crate::progress::Progress;
use choice::Part;
use esker_draw::Outcome;
use lab::Lab;
use serde::Serialize;
use std::sync::atomic::AtomicBool;

/// What was found, as it stands in `phoenix.json`.
#[derive(Debug, Default, Serialize)]
struct Found {
    machine: Machine,
    latency: Vec<latency::Run>,
    tables: Vec<tables::Filled>,
    deletions: Vec<deletion::Deletion>,
    repairs: Vec<repair::Repair>,
}

/// Does all of it, with ways of peers beside Esker's in the full repair. Ends early if `stop` is
/// set; what was measured before is kept.
///
/// # Errors
/// Of a store, or of the file system.
pub fn run(
    choice: &Choice,
    peers: &[&dyn Way],
    stop: &AtomicBool,
    progress: &mut Progress,
) -> Outcome<()> {
    choice.check()?;
    make_dir(&choice.out)?;
    let place = Place::new("phoenix", choice.db.as_deref());
    let mut found = Found { machine: Machine::this(), ..Found::default() };
    let mut lab = Lab { choice, place: &place, stop, progress };
    let has = |part, lab: &Lab<'_>| choice.has(part) && !lab.is_stopped();
    if has(Part::Latency, &lab) {
        lab.latency(&mut |run| {
            found.latency.push(run);
            found.keep(choice)?;
            keep(choice, "latency.svg", latency::drawing(&found.latency)?)
        })?;
    }
    if has(Part::Tables, &lab) {
        lab.tables(&mut |filled| {
            found.tables.push(filled);
            found.keep(choice)?;
            keep(choice, "tables.svg", tables::drawing(&found.tables)?)
        })?;
    }
    if has(Part::Deletion, &lab) {
        lab.deletion(&mut |deletion| {
            found.deletions.push(deletion);
            found.keep(choice)?;
            keep(choice, "deletion.svg", deletion::drawing(&found.deletions)?)
        })?;
    }
    if has(Part::Repair, &lab) {
        lab.repair(peers, &mut |repair| {
            found.repairs.push(repair);
            found.keep(choice)?;
            keep(choice, "repair.svg", repair::drawing(&found.repairs)?)
        })?;
    }
    Ok(())
}

fn keep(choice: &Choice, name: &str, text: String) -> Outcome<()> {
    place::write(&choice.out.join(name), text)
}

impl Found {
    /// Writes all figures, and their tables.
    fn keep(&self, choice: &Choice) -> Outcome<()> {
        keep(choice, "phoenix.md", page(choice, self))?;
        keep(choice, "phoenix.json", serde_json::to_string_pretty(self)?)
    }
}

/// The tables of all parts that were measured.
fn page(choice: &Choice, found: &Found) -> String {
    let mut text = format!("{}\n\n", found.machine);
    if !found.latency.is_empty() {
        text.push_str(&latency::page(choice, &found.latency));
    }
    if !found.tables.is_empty() {
        text.push_str(&tables::page(choice.groups, &found.tables));
    }
    if !found.deletions.is_empty() {
        text.push_str(&deletion::page(choice, &found.deletions));
    }
    if !found.repairs.is_empty() {
        text.push_str(&repair::page(choice, &found.repairs));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use choice::tests::choice;

    #[test]
    fn only_what_was_measured_is_told() {
        let mut found = Found::default();
        let headings = |found: &Found| page(&choice(), found).matches("\n## ").count();
        assert_eq!(headings(&found), 0);
        found.latency = vec![latency::tests::run(latency::Arm::Applied, 1.0)];
        found.tables = vec![tables::tests::filled(1, true)];
        assert_eq!(headings(&found), 2);
        found.deletions = vec![deletion::tests::deletion(1)];
        found.repairs = repair::tests::repairs();
        assert_eq!(headings(&found), 4);
        let text = serde_json::to_string(&found).expect("JSON");
        for name in ["\"applied\"", "took_ns", "live_bytes", "\"delete_range, apply\""] {
            assert!(text.contains(name), "{name} in {text}");
        }
    }
}

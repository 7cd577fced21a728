//! What is tried while the disk is full.
//!
//! The most urgent job may need more room than there is, and be all that a thread ever tries,
//! although others would make room: so jobs take turns until one succeeds. None is given up: a job
//! that fails for want of space leaves nothing behind.

use esker_base::sync::atomic::{AtomicUsize, Ordering};
use esker_base::{Error, Result};

/// What to look for first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// As if the disk were not full.
    Usual,
    /// Files of values: those without live ones cost nothing.
    Values,
    /// The compaction that reads least of all that could run; or that after so many which were
    /// tried.
    Smallest(usize),
}

/// How often in a row a job found the disk full.
#[derive(Debug, Default)]
pub(super) struct FullDisk {
    failures: AtomicUsize,
}

impl FullDisk {
    /// Notes what became of a job, true if there was one. Other failures say nothing about space,
    /// but have others take their turn; nothing is said by there being nothing to do beside what
    /// others do.
    pub(super) fn note(&self, result: &Result<bool>) {
        match result {
            Ok(true) => self.failures.store(0, Ordering::Relaxed),
            Err(Error::NoSpace { .. }) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
            }
            Ok(false) | Err(Error::Cancelled) => {}
            Err(_) => {
                let next = |failures| (failures > 0).then_some(failures + 1);
                let _ = self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
            }
        }
    }

    pub(super) fn turn(&self) -> Turn {
        let failures = self.failures.load(Ordering::Relaxed);
        match failures % 3 {
            0 => Turn::Usual,
            1 => Turn::Values,
            _ => Turn::Smallest(failures / 3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_take_turns_until_one_succeeds() {
        let disk = FullDisk::default();
        let full = || Err(Error::NoSpace { path: "a".into() });
        let turns: Vec<Turn> = (0..7)
            .map(|_| {
                let turn = disk.turn();
                disk.note(&full());
                turn
            })
            .collect();
        let wanted = [
            Turn::Usual,
            Turn::Values,
            Turn::Smallest(0),
            Turn::Usual,
            Turn::Values,
            Turn::Smallest(1),
            Turn::Usual,
        ];
        assert_eq!(turns, wanted);
        let other = || Err(Error::invalid("another error"));
        disk.note(&other());
        assert_eq!(disk.turn(), Turn::Smallest(2), "it does not stay whose turn it is");
        disk.note(&Ok(true));
        disk.note(&other());
        assert_eq!(disk.turn(), Turn::Usual, "no disk is full");
        disk.note(&full());
        disk.note(&Err(Error::Cancelled));
        disk.note(&Ok(false));
        assert_eq!(disk.turn(), Turn::Values, "these say nothing");
        disk.note(&Ok(true));
        assert_eq!(disk.turn(), Turn::Usual);
    }
}

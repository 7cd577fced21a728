//! What is tried after a job has failed.
//!
//! The most urgent job may be one that fails each time: it may need more room than there is, which
//! others would make, or what it reads cannot be read. It would be all that a thread ever tries: so
//! jobs take turns until one succeeds. None is given up: a job that fails leaves nothing behind.

use esker_base::sync::atomic::{AtomicUsize, Ordering};
use esker_base::{Error, Result};

/// What to look for first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// As if nothing had failed.
    Usual,
    /// Files of values: those without live ones cost nothing.
    Values,
    /// The compaction that reads least of all that could run; or that after so many which were
    /// tried.
    Smallest(usize),
}

/// How often in a row a job failed.
#[derive(Debug, Default)]
pub(super) struct Turns {
    failures: AtomicUsize,
}

impl Turns {
    /// Notes what became of a job, true if there was one. Nothing is said by there being nothing to
    /// do beside what others do.
    pub(super) fn note(&self, result: &Result<bool>) {
        match result {
            Ok(true) => self.failures.store(0, Ordering::Relaxed),
            Ok(false) | Err(Error::Cancelled) => {}
            Err(_) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
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
        let turns = Turns::default();
        let full = || Err(Error::NoSpace { path: "a".into() });
        let taken: Vec<Turn> = (0..7)
            .map(|_| {
                let turn = turns.turn();
                turns.note(&full());
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
        assert_eq!(taken, wanted);
        let other = || Err(Error::invalid("another error"));
        turns.note(&other());
        assert_eq!(turns.turn(), Turn::Smallest(2), "whatever the failure");
        turns.note(&Ok(true));
        assert_eq!(turns.turn(), Turn::Usual);
        turns.note(&other());
        turns.note(&Err(Error::Cancelled));
        turns.note(&Ok(false));
        assert_eq!(turns.turn(), Turn::Values, "these say nothing");
        turns.note(&Ok(true));
        assert_eq!(turns.turn(), Turn::Usual);
    }
}

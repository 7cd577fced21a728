//! What comes of a step of `cargo xtask test`.

/// Of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Passed,
    /// All that was tried has passed. Some was not, for these reasons.
    PassedBut(String),
    /// Nothing was tried, for this reason.
    Skipped(String),
    Failed,
}

impl From<bool> for Done {
    fn from(passed: bool) -> Done {
        if passed { Done::Passed } else { Done::Failed }
    }
}

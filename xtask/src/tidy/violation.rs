//! What a rule finds.

use std::fmt;

/// A rule broken at a place, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Violation {
    /// Relative to the project, with `/`.
    pub(super) file: String,
    /// From 1.
    pub(super) line: usize,
    pub(super) what: String,
    pub(super) mend: String,
}

impl Violation {
    pub(super) fn new(
        file: &str,
        line: usize,
        what: impl Into<String>,
        mend: impl Into<String>,
    ) -> Violation {
        Violation { file: file.to_owned(), line, what: what.into(), mend: mend.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file, self.line, self.what, self.mend)
    }
}

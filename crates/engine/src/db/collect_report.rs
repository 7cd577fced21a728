//! What collecting values has done.

/// What collecting values has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectReport {
    /// Files that were collected.
    pub files: u64,
    /// Their length.
    pub bytes_before: u64,
    /// Length of the files that took their place.
    pub bytes_after: u64,
}

impl CollectReport {
    /// Bytes that were given back.
    pub(super) fn freed_bytes(&self) -> u64 {
        self.bytes_before.saturating_sub(self.bytes_after)
    }

    /// Counts more of the same.
    pub(super) fn add(&mut self, more: &CollectReport) {
        self.files += more.files;
        self.bytes_before += more.bytes_before;
        self.bytes_after += more.bytes_after;
    }
}

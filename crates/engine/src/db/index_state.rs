//! What a keyspace knows of its run index besides what is in force.

use crate::version::{Replaced, Version};
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct Indexing {
    /// One is being made. What compactions have replaced since.
    pub(super) replaced: Option<Vec<Step>>,
    /// Runs without a digest, by id.
    pub(super) without_digest: BTreeSet<u64>,
    /// With so many records the index was too large.
    pub(super) too_large: Option<u64>,
    /// A digest could not be read.
    pub(super) failed: bool,
    /// How many were made since open.
    pub(super) made: u64,
}

/// A version that followed another by a compaction.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) before: Arc<Version>,
    pub(super) after: Arc<Version>,
    pub(super) replaced: Replaced,
}

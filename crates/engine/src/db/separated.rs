//! What a write has besides its batch, if values of it are large.

use crate::value_log::Packed;
use esker_base::Batch;

/// The large values of a batch.
pub(super) struct Separated {
    /// For each operation: its value as it is to be stored, if it is large.
    pub(super) packed: Vec<Option<Packed>>,
    /// Bytes of these as they are to be stored.
    pub(super) stored_bytes: u64,
    /// Bytes of the batch without them, about.
    pub(super) kept_bytes: u64,
    /// The batch as it was logged, with pointers.
    pub(super) logged: Batch,
}

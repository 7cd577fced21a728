//! What a write has besides its batch, if values of it are large.

use crate::value_log::Packed;
use esker_base::Batch;

/// The large values of a batch.
pub(super) struct Separated {
    /// For each operation: its value as it is to be stored, if it is large.
    pub(super) packed: Vec<Option<Packed>>,
    /// The batch as it was logged, with pointers.
    pub(super) logged: Batch,
}

impl Separated {
    /// Bytes of the large values as they are stored.
    pub(super) fn stored_bytes(&self, batch: &Batch) -> u64 {
        let packed = batch.iter().zip(&self.packed);
        packed
            .filter_map(|(op, packed)| Some(packed.as_ref()?.parts(op.value).1.len() as u64))
            .sum()
    }
}

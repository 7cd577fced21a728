//! What a snapshot is; databases make them, and read options name them.

use crate::fork::Own;
use crate::handle::{Shell, handle};
use esker::Snapshot;
use std::sync::Arc;

/// A database as it was at one moment.
#[allow(non_camel_case_types, reason = "as C names it")]
pub struct leveldb_snapshot_t(Shell<Arc<Own<Snapshot>>>);
handle!(leveldb_snapshot_t, Arc<Own<Snapshot>>, "snapshot");

//! What makes writes durable.

use serde::{Deserialize, Serialize};

/// What makes writes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// The store's own write-ahead log.
    #[default]
    Wal,
    /// Somebody else's log, such as that of a consensus protocol, which gives again what the store
    /// has not flushed: the store writes no log. After a crash it is exactly as it was when its
    /// newest flushed memtable was sealed, in all keyspaces; see [`crate::Db::apply`]. Source:
    /// PheonixLSM.
    External,
}

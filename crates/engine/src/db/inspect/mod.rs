//! Inspection: what stands in a file, event by event, for dumps and for finding damage.
//!
//! Flow: log::Salvager and table::TableReader -> events -> sink. Events are data, and print as
//! text.
//! Invariant: damaged files are gone through as far as possible; no bytes make this panic.

mod events;
mod logs;
mod tables;

#[cfg(test)]
mod tests;

pub use events::{CurrentDump, DumpedKind, DumpedOp, LogEvent, TableEvent};
pub use logs::dump_log;
pub use tables::dump_table;

use crate::version::Current;
use esker_base::vfs::Access;
use esker_base::{Result, Vfs};
use std::path::Path;

/// How much of a file is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpOptions {
    /// Every record of a table. Default: false.
    pub records: bool,
    /// Bytes shown of each value; its length is always told. Default: 64.
    pub value_bytes_max: usize,
    /// The file's salt, if it is known from elsewhere: lets a file be read whose header or footer
    /// is damaged. Default: none.
    pub salt: Option<u64>,
}

impl Default for DumpOptions {
    fn default() -> DumpOptions {
        DumpOptions { records: false, value_bytes_max: 64, salt: None }
    }
}

/// So much of CURRENT is read and told.
const CURRENT_BYTES_MAX: u64 = 64 << 10;

/// Reads CURRENT.
///
/// # Errors
/// `NotFound`, `Io`; damage is told in the dump.
pub fn dump_current(vfs: &dyn Vfs, path: &Path) -> Result<CurrentDump> {
    let file = vfs.open(path, Access::Sequential)?;
    let len_bytes = file.len_bytes()?;
    let mut bytes = vec![0; len_bytes.min(CURRENT_BYTES_MAX) as usize];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    // None is that long.
    let whole = Some(&bytes).filter(|_| len_bytes <= CURRENT_BYTES_MAX);
    let current = whole.and_then(|text| std::str::from_utf8(text).ok()).and_then(Current::decode);
    Ok(CurrentDump {
        text: bytes.escape_ascii().to_string(),
        sound: current.is_some(),
        manifest: current.map(|current| current.number),
        salt: current.map(|current| current.salt),
        durable_bytes: current.map(|current| current.durable_bytes),
    })
}

/// The first bytes of a value, escaped.
fn shown(value: &[u8], bytes_max: usize) -> String {
    let cut = value.len().min(bytes_max);
    let dots = if cut < value.len() { "…" } else { "" };
    format!("{}{dots}", value[..cut].escape_ascii())
}

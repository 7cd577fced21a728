//! Verification: reads every byte of every live file and checks what can be checked.

use super::core::Core;
use crate::log::{LogKind, Reader};
use crate::names;
use crate::version::{Table, TableStore};
use esker_base::{Error, Result};
use std::path::PathBuf;
use std::sync::Arc;

/// How far a verification is.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct VerifyProgress {
    /// Files read so far.
    pub files: u64,
    /// Files there are.
    pub files_total: u64,
    /// Bytes read so far.
    pub bytes: u64,
    /// Bytes there are.
    pub bytes_total: u64,
}

/// What a verification found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Files read.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Records in tables.
    pub entries: u64,
    /// What is damaged; empty if all is well.
    pub damage: Vec<(PathBuf, Error)>,
}

/// Reads all tables, the older logs, and checks how the tables fit together.
pub(super) fn verify(
    core: &Core,
    mut progress: impl FnMut(&VerifyProgress) -> bool,
) -> Result<VerifyReport> {
    // The views hold the tables, so that no file goes away meanwhile.
    let views: Vec<_> = core.keyspaces.load().by_id.values().map(|k| k.view.load_full()).collect();
    let tables: Vec<Arc<Table>> =
        views.iter().flat_map(|view| view.version.tables()).map(|(_, t)| t.clone()).collect();
    let logs: Vec<u64> = core.retired.lock().iter().map(|wal| wal.number).collect();
    let mut at = VerifyProgress {
        files_total: (tables.len() + logs.len()) as u64,
        bytes_total: tables.iter().map(|t| t.meta.file_bytes).sum(),
        ..VerifyProgress::default()
    };
    let mut report = VerifyReport::default();
    for table in &tables {
        match check_table(&core.store, table) {
            Ok(()) => report.entries += table.meta.entries,
            Err(error) => {
                report.damage.push((names::table(&core.dir, table.meta.number), error));
            }
        }
        at.files += 1;
        at.bytes += table.meta.file_bytes;
        if !progress(&at) {
            return Err(Error::Cancelled);
        }
    }
    for number in logs {
        let path = names::wal(&core.dir, number);
        match check_log(core, number) {
            // Flushed and removed while we were reading.
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => report.damage.push((path, error)),
        }
        at.files += 1;
        if !progress(&at) {
            return Err(Error::Cancelled);
        }
    }
    report.files = at.files;
    report.bytes = at.bytes;
    Ok(report)
}

pub(super) fn check_table(store: &TableStore, table: &Arc<Table>) -> Result<()> {
    let reader = table.shared_reader()?;
    reader.verify()?;
    let (order, meta) = (table.order(), &table.meta);
    let properties = reader.properties();
    let outside = "the table holds keys outside the range that the manifest gives it";
    let fits = properties.entries == 0
        || (!order.less(&properties.smallest_key, &meta.smallest)
            && !order.less(&meta.largest, &properties.largest_key));
    if fits {
        Ok(())
    } else {
        Err(Error::corruption(names::table(&store.dir, meta.number), 0, outside))
    }
}

fn check_log(core: &Core, number: u64) -> Result<()> {
    let path = names::wal(&core.dir, number);
    let mut reader = Reader::open(core.env.vfs.as_ref(), &path, LogKind::Wal, number, 0)?;
    if reader.header().is_none() {
        return Err(Error::corruption(path, 0, "the log has lost its header"));
    }
    while let Some((offset, payload)) = reader.next()? {
        let damaged = |what| Error::corruption(&path, offset, what);
        let (_, _, ops) = esker_base::batch::decode(payload).map_err(damaged)?;
        for op in ops {
            op.map_err(damaged)?;
        }
    }
    Ok(())
}

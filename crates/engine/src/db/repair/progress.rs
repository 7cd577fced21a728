//! How far a repair is, and whether it goes on.

use super::Repair;
use crate::names::FileKind;
use esker_base::{Error, Result};

impl Repair<'_> {
    /// Counts what there is to do.
    pub(super) fn measure(&mut self) {
        for (kind, bytes) in &self.files {
            if matches!(kind, FileKind::Table(_) | FileKind::Wal(_) | FileKind::Values(_)) {
                self.progress.files_total += 1;
                self.progress.bytes_total += bytes;
            }
        }
    }

    /// One more file was looked at, if it is there.
    pub(super) fn advance(&mut self, kind: FileKind) -> Result<()> {
        if let Some(bytes) = self.files.get(&kind) {
            self.progress.files += 1;
            self.progress.bytes += bytes;
        }
        self.ask()
    }

    /// Shall it go on?
    pub(super) fn ask(&mut self) -> Result<()> {
        if (self.tell)(&self.progress) { Ok(()) } else { Err(Error::Cancelled) }
    }
}

//! A table's file, and the reading of checked blocks from it.

use super::format::{Footer, Handle, Properties};
use crate::block::{Damage, Payload, TRAILER_BYTES, open_payload};
use crate::stats::{TableCounter, TableCounters};
use esker_base::heap::{Heap, SharedBytes};
use esker_base::vfs::ReadableFile;
use esker_base::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open file, and what somebody, most often the manifest, says it should be. Cheap to clone but
/// for the path.
#[derive(Clone, Debug)]
pub struct TableFile {
    pub(super) inner: Arc<dyn ReadableFile>,
    pub(super) path: PathBuf,
    /// Its length.
    pub(super) bytes: u64,
    /// The random number its checksums are bound to.
    pub(super) salt: u64,
}

impl TableFile {
    /// A file that should have this length and salt.
    pub fn new(file: Arc<dyn ReadableFile>, path: &Path, bytes: u64, salt: u64) -> TableFile {
        TableFile { inner: file, path: path.to_path_buf(), bytes, salt }
    }

    /// What the table says about itself, whatever the order of its keys: for repair and for dumps.
    ///
    /// # Errors
    /// `Corruption` if footer or properties are damaged, or the salt is another.
    pub(crate) fn properties(&self) -> Result<Properties> {
        let handle = self.footer()?.properties;
        let payload = self.read(&Heap::global(), &TableCounters::new(), handle)?;
        Properties::decode(payload.bytes()).map_err(|damage| self.damaged(handle, damage))
    }

    pub(super) fn footer(&self) -> Result<Footer> {
        Footer::read(self.inner.as_ref(), &self.path, self.bytes)
    }

    /// Reads one stored block and checks it. The payload's memory comes from `heap`.
    pub(super) fn read(
        &self,
        heap: &Heap,
        counters: &TableCounters,
        handle: Handle,
    ) -> Result<Payload> {
        let corrupt = |what| self.damaged(handle, Damage(what));
        if handle.end_bytes() > self.bytes {
            return Err(corrupt("block would lie beyond the end of the file"));
        }
        let whole = handle.stored_bytes as usize + TRAILER_BYTES;
        if u32::try_from(whole).is_err() {
            return Err(corrupt("block is longer than a block can be"));
        }
        let fill = |data: &mut [u8]| self.inner.read_at(handle.offset_bytes, data);
        let (data, read) = SharedBytes::filled(heap, whole, fill);
        let read = read?;
        let stripe = counters.local();
        stripe.add(TableCounter::Reads, 1);
        stripe.add(TableCounter::ReadBytes, read as u64);
        if read != whole {
            return Err(corrupt("block is cut short"));
        }
        let stored_bytes = handle.stored_bytes as usize;
        open_payload(heap, &data, 0, stored_bytes, self.salt, handle.offset_bytes)
            .map_err(|damage| self.damaged(handle, damage))
    }

    #[cold]
    pub(super) fn damaged(&self, handle: Handle, Damage(what): Damage) -> Error {
        Error::corruption(&self.path, handle.offset_bytes, what)
    }
}

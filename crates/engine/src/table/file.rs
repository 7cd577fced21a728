//! A table's file, and the reading of checked blocks from it.

use super::format::{Footer, Handle, Properties};
use crate::block::{Damage, Payload, TRAILER_BYTES, copy_payload, open_payload};
use crate::stats::{TableCounter, TableCounters};
use esker_base::heap::{Heap, SharedBytes};
use esker_base::vfs::ReadableFile;
use esker_base::{Error, Result};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Stored blocks up to this length are read into memory that the thread keeps.
const SCRATCH_BYTES_MAX: usize = 128 << 10;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

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
    ///
    /// A block of usual size is read into memory of the thread's, where it is expanded or copied
    /// from: what the heap gives then has one holder and one length from the first on.
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
        let place = handle.offset_bytes;
        let opened = if whole <= SCRATCH_BYTES_MAX {
            let mut scratch = SCRATCH.try_with(Cell::take).unwrap_or_default();
            if scratch.len() < whole {
                scratch.resize(whole, 0);
            }
            let data = &mut scratch[..whole];
            let opened = self
                .fill(counters, handle, data)
                .map(|()| copy_payload(heap, data, self.salt, place));
            // At the end of a thread there may be none any more.
            let _ = SCRATCH.try_with(|kept| kept.set(scratch));
            opened?
        } else {
            let fill = |data: &mut [u8]| self.fill(counters, handle, data);
            let (data, filled) = SharedBytes::filled(heap, whole, fill);
            filled?;
            open_payload(heap, &data, 0, whole - TRAILER_BYTES, self.salt, place)
        };
        opened.map_err(|damage| self.damaged(handle, damage))
    }

    /// Reads all of `data` from where the block stands.
    fn fill(&self, counters: &TableCounters, handle: Handle, data: &mut [u8]) -> Result<()> {
        let read = self.inner.read_at(handle.offset_bytes, data)?;
        let stripe = counters.local();
        stripe.add(TableCounter::Reads, 1);
        stripe.add(TableCounter::ReadBytes, read as u64);
        if read != data.len() {
            return Err(self.damaged(handle, Damage("block is cut short")));
        }
        Ok(())
    }

    #[cold]
    pub(super) fn damaged(&self, handle: Handle, Damage(what): Damage) -> Error {
        Error::corruption(&self.path, handle.offset_bytes, what)
    }
}

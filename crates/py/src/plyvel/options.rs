//! The options of LevelDB as options of our engine.

use crate::comparator;
use esker::{Compression, Filter, Options};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// The compression that is asked for by name: LZ4 takes the place of Snappy, for the same purpose.
pub(super) struct Named(Compression);

impl Named {
    /// That of `'snappy'`.
    pub(super) const SNAPPY: Named = Named(Compression::Lz4);
}

impl FromPyObject<'_, '_> for Named {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let name = match given.cast::<PyBytes>() {
            Ok(bytes) => String::from_utf8_lossy(bytes.as_bytes()).into_owned(),
            Err(_) => match given.cast::<PyString>() {
                Ok(name) => name.extract()?,
                Err(_) => {
                    let kind = given.get_type().name()?;
                    let what = format!("compression is 'snappy' or None, and no '{kind}'");
                    return Err(PyTypeError::new_err(what));
                }
            },
        };
        match name.as_str() {
            "snappy" => Ok(Named::SNAPPY),
            _ => Err(PyValueError::new_err(format!(
                "no compression {name:?}: use 'snappy', or None to store blocks as they are"
            ))),
        }
    }
}

/// What `DB` and `repair_db` take beside the name.
pub(super) struct Given<'py> {
    pub(super) write_buffer_size: Option<u64>,
    pub(super) max_open_files: Option<i64>,
    pub(super) lru_cache_size: Option<u64>,
    pub(super) block_size: Option<u64>,
    pub(super) block_restart_interval: Option<u64>,
    pub(super) max_file_size: Option<u64>,
    pub(super) compression: Option<Named>,
    pub(super) bloom_filter_bits: i32,
    pub(super) comparator: Option<Bound<'py, PyAny>>,
    pub(super) comparator_name: Option<Bound<'py, PyBytes>>,
}

/// Memory beside the block cache for indexes, filters, and what compactions read.
const BESIDE_CACHE_BYTES: u64 = 64 << 20;

impl Given<'_> {
    /// The options they ask for. Sizes out of range are taken for the nearest in it, as LevelDB
    /// does.
    ///
    /// # Errors
    /// `TypeError` and `ValueError`, as plyvel.
    pub(super) fn options(self) -> PyResult<Options> {
        let compression = self.compression.map_or(Compression::None, |named| named.0);
        let name = self.comparator_name.as_ref().map(|name| name.as_bytes());
        let order = comparator::order(self.comparator, name)?;
        let mut options = Options::default();
        let keyspace = &mut options.default_keyspace;
        keyspace.order = order;
        keyspace.compression = vec![compression];
        keyspace.filter = match u32::try_from(self.bloom_filter_bits) {
            Ok(bits @ 1..) => Filter::Bloom { bits_per_key: bits.min(64) },
            _ => Filter::None,
        };
        if let Some(bytes) = self.write_buffer_size {
            keyspace.memtable_bytes = bytes.clamp(64 << 10, 1 << 30);
        }
        if let Some(bytes) = self.block_size {
            keyspace.block_bytes = bytes.clamp(1 << 10, 1 << 20) as u32;
        }
        if let Some(records) = self.block_restart_interval {
            keyspace.restart_interval = records.clamp(1, 256) as u32;
        }
        if let Some(bytes) = self.max_file_size {
            keyspace.table_bytes_max = bytes.clamp(1 << 20, 1 << 30);
        }
        // -1 is the least, as there.
        if let Some(files) = self.max_open_files {
            options.open_files_max = files.clamp(64, 50_000) as u32;
        }
        share_memory(&mut options, self.lru_cache_size);
        Ok(options)
    }
}

/// Makes room for four memtables, and for a block cache of the size asked for.
fn share_memory(options: &mut Options, cache_bytes: Option<u64>) {
    let rest = options.memory_budget_bytes - options.memtables_limit_bytes();
    let memtables =
        options.memtables_limit_bytes().max(4 * options.default_keyspace.memtable_bytes);
    options.memtables_bytes_max = memtables;
    options.block_cache_bytes = cache_bytes.map(|bytes| bytes.min(1 << 50));
    // An eighth of what memtables leave is for compactions.
    let asked =
        options.block_cache_bytes.map_or(0, |cache| (cache + BESIDE_CACHE_BYTES) / 7 * 8 + 8);
    options.memory_budget_bytes = memtables + rest.max(asked);
}

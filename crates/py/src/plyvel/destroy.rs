//! `repair_db` and `destroy_db`.

use super::options::{Given, Named};
use crate::bytes;
use crate::comparator::guarded;
use crate::errors::Face;
use crate::waiting::watched;
use esker::names;
use esker::repair::{RepairProgress, repair};
use esker::{Error, Result, Setup};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::Path;

/// Makes a damaged database one that opens. What it cannot use is kept in the directory `lost`
/// inside of it.
#[pyfunction]
#[pyo3(
    signature = (name, *, paranoid_checks=None, write_buffer_size=None, max_open_files=None, lru_cache_size=None, block_size=None, block_restart_interval=None, max_file_size=None, compression=Some(Named::SNAPPY), bloom_filter_bits=0, comparator=None, comparator_name=None),
    text_signature = "(name, *, paranoid_checks=None, write_buffer_size=None, max_open_files=None, lru_cache_size=None, block_size=None, block_restart_interval=None, max_file_size=None, compression='snappy', bloom_filter_bits=0, comparator=None, comparator_name=None)"
)]
#[expect(clippy::too_many_arguments, reason = "those of plyvel")]
pub(super) fn repair_db<'py>(
    py: Python<'py>,
    name: &Bound<'py, PyAny>,
    paranoid_checks: Option<bool>,
    write_buffer_size: Option<u64>,
    max_open_files: Option<i64>,
    lru_cache_size: Option<u64>,
    block_size: Option<u64>,
    block_restart_interval: Option<u64>,
    max_file_size: Option<u64>,
    compression: Option<Named>,
    bloom_filter_bits: i32,
    comparator: Option<Bound<'py, PyAny>>,
    comparator_name: Option<Bound<'py, PyBytes>>,
) -> PyResult<()> {
    let _ = paranoid_checks;
    let path = bytes::path(name)?;
    let given = Given {
        write_buffer_size,
        max_open_files,
        lru_cache_size,
        block_size,
        block_restart_interval,
        max_file_size,
        compression,
        bloom_filter_bits,
        comparator,
        comparator_name,
    };
    let options = given.options()?;
    watched(
        py,
        |progress| {
            let work = || repair(&path, &options, Setup::default(), |report| progress(report));
            let repaired = py.detach(|| guarded(work))?;
            repaired.map(|_| ()).map_err(|error| Face::Plyvel.error(py, &error))
        },
        |_, _: &RepairProgress| Ok(()),
    )
}

/// Removes a database: its files, and the directory if nothing else is in it. What is not there is
/// no error.
#[pyfunction]
pub(super) fn destroy_db(py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<()> {
    let path = bytes::path(name)?;
    let destroyed = py.detach(|| destroy(&path));
    destroyed.map_err(|error| Face::Plyvel.error(py, &error))
}

/// The engine's, but for what is no error here: that nothing is there.
fn destroy(dir: &Path) -> Result<()> {
    let setup = Setup::default();
    match esker::destroy(dir, &setup) {
        // LevelDB has files of the same names.
        Err(Error::NotFound { .. }) if setup.env.vfs.exists(&names::current(dir))? => {
            Err(Error::Incompatible {
                path: dir.to_path_buf(),
                what: "its CURRENT is not one of ours, so it may be somebody else's: remove it by hand".to_owned(),
            })
        }
        Err(Error::NotFound { .. }) => Ok(()),
        destroyed => destroyed,
    }
}

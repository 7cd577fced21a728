//! `repair`.

use super::convert::to_python;
use super::options::{of_database, set_order};
use crate::bytes::{self, BytesLike};
use crate::comparator::{guarded, order};
use crate::errors::{Face, invalid};
use crate::waiting::watched;
use esker::Setup;
use esker::repair::RepairProgress;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A report of the engine as a dict.
pub(super) fn reported<'py>(
    py: Python<'py>,
    report: &impl serde::Serialize,
) -> PyResult<Bound<'py, PyAny>> {
    let value = serde_json::to_value(report);
    let value = value.map_err(|error| invalid(py, &format!("cannot show a report: {error}")))?;
    to_python(py, &value)
}

/// Makes a damaged database one that opens, and says of every file what became of it and what is
/// lost.
///
/// Give the options that it is opened with. `progress` is called with a dict after each file; what
/// it raises ends the repair, and the database is as it was. What cannot be used is kept in the
/// directory `lost` inside of the database's.
#[pyfunction]
#[pyo3(signature = (path, *, preset="default", progress=None, comparator=None, comparator_name=None, **options))]
pub(super) fn repair<'py>(
    py: Python<'py>,
    path: &Bound<'py, PyAny>,
    preset: &str,
    progress: Option<Bound<'py, PyAny>>,
    comparator: Option<Bound<'py, PyAny>>,
    comparator_name: Option<BytesLike<'py>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let path = bytes::path(path)?;
    let mut options = of_database(py, preset, options)?;
    let name = comparator_name.as_ref().map(BytesLike::get);
    set_order(&mut options, &order(comparator, name)?);
    let progress = progress.map(Bound::unbind);
    let report = watched(
        py,
        |tell| {
            let setup = Setup::default();
            let work = || esker::repair::repair(&path, &options, setup, |report| tell(report));
            let repaired = py.detach(|| guarded(work))?;
            repaired.map_err(|error| Face::Own.error(py, &error))
        },
        |py, report: &RepairProgress| {
            if let Some(progress) = &progress {
                progress.bind(py).call1((reported(py, report)?,))?;
            }
            Ok(())
        },
    )?;
    let dict = reported(py, &report)?;
    dict.set_item("is_complete", report.is_complete())?;
    Ok(dict)
}

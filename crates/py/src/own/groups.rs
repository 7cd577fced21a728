//! Groups of a store below a log, as dicts.

use esker::report::GroupStats;
use esker::{DeletedGroup, GroupFiles, GroupIndex};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// A dict of figures.
fn figures<'py, const N: usize>(
    py: Python<'py>,
    figures: [(&str, u64); N],
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, figure) in figures {
        dict.set_item(name, figure)?;
    }
    Ok(dict)
}

/// How far the log of a group was applied.
pub(super) fn index<'py>(py: Python<'py>, group: &GroupIndex) -> PyResult<Bound<'py, PyDict>> {
    let dict = figures(py, [("applied", group.applied), ("persisted", group.persisted)])?;
    dict.set_item("group", PyBytes::new(py, &group.group))?;
    dict.set_item("note", PyBytes::new(py, &group.note))?;
    Ok(dict)
}

/// What a group has of the tables.
pub(super) fn stats<'py>(py: Python<'py>, group: &GroupStats) -> PyResult<Bound<'py, PyDict>> {
    let given = [
        ("applied", group.applied),
        ("persisted", group.persisted),
        ("tables", group.tables),
        ("table_bytes", group.table_bytes),
        ("entries", group.entries),
        ("value_bytes", group.value_bytes),
        ("shared_tables", group.shared_tables),
    ];
    let dict = figures(py, given)?;
    dict.set_item("group", PyBytes::new(py, &group.group))?;
    Ok(dict)
}

/// What a deletion has done.
pub(super) fn deleted<'py>(py: Python<'py>, done: &DeletedGroup) -> PyResult<Bound<'py, PyDict>> {
    let given = [
        ("tables", done.tables),
        ("value_files", done.value_files),
        ("file_bytes", done.file_bytes),
        ("shared_tables", done.shared_tables),
    ];
    figures(py, given)
}

/// A group as files.
pub(super) fn files<'py>(py: Python<'py>, files: &GroupFiles) -> PyResult<Bound<'py, PyDict>> {
    let given = [
        ("index", files.index),
        ("tables", files.tables),
        ("value_files", files.value_files),
        ("file_bytes", files.file_bytes),
    ];
    let dict = figures(py, given)?;
    dict.set_item("note", PyBytes::new(py, &files.note))?;
    Ok(dict)
}

//! Values between the engine and Python: reports, options, and what fields hold.

use crate::bytes::BytesLike;
use crate::errors::invalid;
use esker::fields::{FieldRef, FieldValue, Record, RecordView};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple,
    PyType,
};
use serde_json::{Map, Number, Value};

/// Levels of containers inside of each other that an option may have.
const DEPTH_MAX: usize = 8;

/// What a class with an item in brackets is, in annotations.
pub(super) fn alias<'py>(
    class: &Bound<'py, PyType>,
    item: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    class.py().import("types")?.getattr("GenericAlias")?.call1((class, item))
}

/// A report as dicts, lists and plain values.
pub(super) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => number.into_pyobject(py)?.into_any(),
            (None, Some(number)) => number.into_pyobject(py)?.into_any(),
            (None, None) => PyFloat::new(py, number.as_f64().unwrap_or(f64::NAN)).into_any(),
        },
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(to_python(py, item)?)?;
            }
            list.into_any()
        }
        Value::Object(fields) => {
            let dict = PyDict::new(py);
            for (name, item) in fields {
                dict.set_item(name, to_python(py, item)?)?;
            }
            dict.into_any()
        }
    })
}

/// The option of this name as it was given.
///
/// # Errors
/// `TypeError` for what no option can be, `InvalidArgumentError` for what is no number; both name
/// the option.
pub(super) fn from_python(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Value> {
    from_python_at(name, given, 0)
}

fn from_python_at(name: &str, given: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if depth < DEPTH_MAX
        && let Ok(dict) = given.cast::<PyDict>()
    {
        let mut fields = Map::new();
        for (field, item) in dict {
            fields.insert(field.extract()?, from_python_at(name, &item, depth + 1)?);
        }
        return Ok(Value::Object(fields));
    }
    if depth < DEPTH_MAX && (given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>())
    {
        let items = given.try_iter()?.map(|item| from_python_at(name, &item?, depth + 1));
        return items.collect::<PyResult<Vec<_>>>().map(Value::Array);
    }
    if given.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(value) = given.cast::<PyBool>() {
        return Ok(Value::Bool(value.is_true()));
    }
    if given.is_instance_of::<PyInt>() {
        let small = given.extract::<u64>().map(Number::from);
        return Ok(Value::Number(small.or_else(|_| given.extract::<i64>().map(Number::from))?));
    }
    if given.is_instance_of::<PyFloat>() {
        let number = Number::from_f64(given.extract()?);
        return number.map(Value::Number).ok_or_else(|| {
            let what = format!("option {name} = {given}: give a number, or None for none");
            invalid(given.py(), &what)
        });
    }
    if given.is_instance_of::<PyString>() {
        return Ok(Value::String(given.extract()?));
    }
    let kind = given.get_type().name()?;
    Err(PyTypeError::new_err(format!("option {name} cannot be a '{kind}'")))
}

/// What a field is to hold.
///
/// # Errors
/// `TypeError` for what no field holds, `OverflowError` for an integer of more than 64 bits; both
/// name the field.
pub(super) fn to_field(name: &str, given: &Bound<'_, PyAny>) -> PyResult<FieldValue> {
    if given.is_none() {
        return Ok(FieldValue::Null);
    }
    if let Ok(value) = given.cast::<PyBool>() {
        return Ok(FieldValue::Bool(value.is_true()));
    }
    if given.is_instance_of::<PyInt>() {
        let number = given.extract();
        return number.map(FieldValue::Int).map_err(|_| {
            let what = format!("field {name:?}: an integer has 64 bits: use float, str or bytes");
            PyOverflowError::new_err(what)
        });
    }
    if given.is_instance_of::<PyFloat>() {
        return Ok(FieldValue::Float(given.extract()?));
    }
    if given.is_instance_of::<PyString>() {
        return Ok(FieldValue::Text(given.extract()?));
    }
    // Numbers of other libraries give their bytes too, which nobody would find them by.
    let is_bytes = given.is_instance_of::<PyBytes>()
        || given.is_instance_of::<PyByteArray>()
        || given.is_instance_of::<PyMemoryView>();
    if is_bytes && let Ok(bytes) = given.extract::<BytesLike<'_>>() {
        return Ok(FieldValue::Bytes(bytes.get().to_vec()));
    }
    let kind = given.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "field {name:?}: a field holds None, bool, int, float, str or bytes, not '{kind}'"
    )))
}

/// A record of the items of a dict.
pub(super) fn to_record(fields: &Bound<'_, PyDict>) -> PyResult<Record> {
    let mut record = Record::new();
    for (name, value) in fields {
        let Ok(name) = name.extract::<String>() else {
            let kind = name.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "the name of a field is a str, not '{kind}'"
            )));
        };
        let value = to_field(&name, &value)?;
        record.set(name, value);
    }
    Ok(record)
}

/// What a field holds.
pub(super) fn from_field<'py>(py: Python<'py>, value: FieldRef<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        FieldRef::Null => py.None().into_bound(py),
        FieldRef::Bool(value) => PyBool::new(py, value).to_owned().into_any(),
        FieldRef::Int(value) => value.into_pyobject(py)?.into_any(),
        FieldRef::Float(value) => PyFloat::new(py, value).into_any(),
        FieldRef::Text(value) => PyString::new(py, value).into_any(),
        FieldRef::Bytes(value) => PyBytes::new(py, value).into_any(),
    })
}

/// The fields of a record, read in place.
pub(super) fn from_record<'py>(
    py: Python<'py>,
    record: &RecordView<'_>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in record.iter() {
        dict.set_item(name, from_field(py, value)?)?;
    }
    Ok(dict)
}

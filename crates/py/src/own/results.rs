//! Results in an order that is not that of keys: of finds, and of unordered scans.

use super::convert::{alias, from_field};
use crate::comparator::has_raised;
use crate::handle::{Handle, Slot};
use crate::walk::Begins;
use esker::fields::FieldValue;
use esker::{Found, UnorderedCursor};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple, PyType};
use std::collections::VecDeque;
use std::sync::Arc;

/// What closed results are called.
const RESULTS: &str = "result";

/// The most results that are read ahead.
const AHEAD_MAX: usize = 256;

/// Bytes of results after which no more are read ahead.
const AHEAD_BYTES: usize = 64 << 10;

/// Where results come from.
pub(super) enum Source {
    Found(Found),
    Unordered(UnorderedCursor, Begins),
}

/// What is given beside a key.
enum Beside {
    Nothing,
    Field(FieldValue),
    Value(Vec<u8>),
}

impl Beside {
    /// About the memory that it takes.
    fn len_bytes(&self) -> usize {
        match self {
            Beside::Value(value) | Beside::Field(FieldValue::Bytes(value)) => value.len(),
            Beside::Field(FieldValue::Text(text)) => text.len(),
            Beside::Nothing | Beside::Field(_) => 0,
        }
    }
}

/// Results that were read and not given yet.
struct Ahead {
    source: Source,
    with_values: bool,
    ready: VecDeque<(Vec<u8>, Beside)>,
    budget: usize,
    /// There is no more, or it cannot be read; also while one is read.
    ended: bool,
    /// Why, if it cannot.
    failed: Option<esker::Error>,
}

impl Ahead {
    fn read_one(&mut self) -> esker::Result<Option<(Vec<u8>, Beside)>> {
        let entry = match &mut self.source {
            Source::Found(found) => found.advance()?.then(|| {
                let beside = match self.with_values {
                    true => Beside::Field(found.value()?.to_value()),
                    false => Beside::Nothing,
                };
                Ok((found.key().to_vec(), beside))
            }),
            Source::Unordered(cursor, begins) => cursor.advance()?.then(|| {
                begins.check(cursor.key())?;
                let beside = match self.with_values {
                    true => Beside::Value(cursor.value().to_vec()),
                    false => Beside::Nothing,
                };
                Ok((cursor.key().to_vec(), beside))
            }),
        };
        entry.transpose()
    }

    /// Reads some results ahead, more with every time.
    fn fill(&mut self) -> esker::Result<()> {
        let mut bytes = 0;
        while !self.ended && self.ready.len() < self.budget && bytes < AHEAD_BYTES {
            // Where a comparator fails, nobody knows where it stands.
            self.ended = true;
            match self.read_one() {
                Ok(Some(entry)) => {
                    self.ended = false;
                    bytes += entry.0.len() + entry.1.len_bytes();
                    self.ready.push_back(entry);
                }
                Ok(None) => {}
                Err(error) => self.failed = Some(error),
            }
        }
        self.budget = (self.budget * 2).min(AHEAD_MAX);
        match self.failed.take() {
            // An interrupt is told first.
            Some(error) if self.ready.is_empty() && !has_raised() => Err(error),
            failed => {
                self.failed = failed;
                Ok(())
            }
        }
    }
}

/// Keys that were found, or keys and what belongs to them: gives each once.
///
/// It sees the database as it was when it was made. Use it by one thread at a time.
#[pyclass(module = "esker", frozen)]
pub(crate) struct Results {
    slot: Arc<Slot<Ahead>>,
}

impl Results {
    pub(super) fn new(
        py: Python<'_>,
        handle: &Arc<Handle>,
        source: Source,
        with_values: bool,
    ) -> PyResult<Results> {
        let ready = VecDeque::new();
        let ahead = Ahead { source, with_values, ready, budget: 1, ended: false, failed: None };
        Ok(Results { slot: Slot::new(py, handle, ahead)? })
    }

    fn closed(&self, py: Python<'_>) -> PyErr {
        self.slot.handle.store.face.closed(py, RESULTS)
    }
}

#[pymethods]
impl Results {
    /// For annotations, such as `Results[bytes]`.
    #[classmethod]
    fn __class_getitem__<'py>(
        class: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        alias(class, item)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let ready = self.slot.lock(py)?.as_mut().map(|ahead| ahead.ready.pop_front());
        let ready = match ready.ok_or_else(|| self.closed(py))? {
            Some(ready) => Some(ready),
            None => {
                // Who consumes it in C, as `list` does, looks at no signals.
                py.check_signals()?;
                self.slot.run(py, RESULTS, |ahead| {
                    ahead.fill()?;
                    // A call that was interrupted gives nothing.
                    Ok(if has_raised() { None } else { ahead.ready.pop_front() })
                })?
            }
        };
        let Some((key, beside)) = ready else { return Ok(None) };
        let key = PyBytes::new(py, &key).into_any();
        let beside = match beside {
            Beside::Nothing => return Ok(Some(key)),
            Beside::Field(value) => from_field(py, value.as_ref())?,
            Beside::Value(value) => PyBytes::new(py, &value).into_any(),
        };
        Ok(Some(PyTuple::new(py, [key, beside])?.into_any()))
    }

    /// Closes it. The second time it does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.close(py)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.slot.close(py)
    }
}

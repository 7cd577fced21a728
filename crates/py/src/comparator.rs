//! An order of keys that a Python function knows.
//!
//! The engine asks it from whatever thread compares keys: from the one that called, which has let
//! go of the interpreter, and from those in the background. It cannot be told of a failure. So one
//! that fails ends the job by a panic, which the engine takes for what it is: work in the
//! background stops and the store takes no more writes. In a call, [`guarded`] turns the panic back
//! into the exception. An interrupt is kept until the comparison was made again. While it is asked,
//! locks of the engine are held: calls that it makes, or a handler of a signal that comes
//! meanwhile, are refused and not waited for.

use esker::{Comparator, KeyOrder};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

thread_local! {
    /// This thread is inside of a call from Python.
    static CALLED: Cell<bool> = const { Cell::new(false) };
    /// This thread is inside of the function.
    static ASKED: Cell<bool> = const { Cell::new(false) };
    /// A call was refused for that.
    static REFUSED: Cell<bool> = const { Cell::new(false) };
    /// What the function raised in this call.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// What the store is told of a function that failed.
const FAILED: &str = "the comparator failed, and without it the order of keys is unknown: mend it";

/// A function of two keys that returns a number below, at or above zero.
struct PyComparator {
    name: String,
    function: Py<PyAny>,
}

/// The order that arguments ask for: bytewise if there is no function.
///
/// # Errors
/// `ValueError` if only one of both is given, `TypeError` if the function cannot be called or the
/// name is no UTF-8.
pub(crate) fn order(function: Option<Bound<'_, PyAny>>, name: Option<&[u8]>) -> PyResult<KeyOrder> {
    let (function, name) = match (function, name) {
        (None, None) => return Ok(KeyOrder::Bytewise),
        (Some(function), Some(name)) => (function, name),
        _ => {
            return Err(PyValueError::new_err(
                "a comparator has a name that is stored: give comparator and comparator_name, or neither",
            ));
        }
    };
    if !function.is_callable() {
        return Err(PyTypeError::new_err(
            "comparator cannot be called: give a function of two keys",
        ));
    }
    let Ok(name) = str::from_utf8(name) else {
        return Err(PyValueError::new_err(
            "comparator_name is no text in UTF-8: give it another name",
        ));
    };
    let function = function.unbind();
    Ok(KeyOrder::Custom(Arc::new(PyComparator { name: name.to_owned(), function })))
}

/// This thread is inside of the function as long as this lives; then it is again as it was.
struct Asking(bool);

impl Drop for Asking {
    fn drop(&mut self) {
        ASKED.set(self.0);
    }
}

impl PyComparator {
    fn ask(&self, py: Python<'_>, a: &[u8], b: &[u8]) -> PyResult<Ordering> {
        let answer = self.function.bind(py).call1((PyBytes::new(py, a), PyBytes::new(py, b)))?;
        match answer.extract::<i64>() {
            Ok(number) => Ok(number.cmp(&0)),
            // Any number will do, such as a float.
            Err(_) if answer.gt(0)? => Ok(Ordering::Greater),
            Err(_) if answer.lt(0)? => Ok(Ordering::Less),
            Err(_) => Ok(Ordering::Equal),
        }
    }

    /// Asks until nothing interrupts it. What interrupted it is raised by the end of the call.
    fn ask_again(&self, py: Python<'_>, a: &[u8], b: &[u8]) -> PyResult<Ordering> {
        let mut refused_before = false;
        loop {
            REFUSED.set(false);
            match self.ask(py, a, b) {
                Err(error) if error.is_instance_of::<PyKeyboardInterrupt>(py) => keep(py, error),
                // It may have been a handler of a signal that was refused: then the function knows
                // next time.
                Err(error) if REFUSED.get() && !refused_before => {
                    refused_before = true;
                    keep(py, error);
                }
                answer => return answer,
            }
        }
    }
}

impl Comparator for PyComparator {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        // Also while Python does what had to wait until somebody is attached to it, and while it
        // tells what cannot be raised: both may run functions of the user's.
        let _asking = Asking(ASKED.replace(true));
        let answer =
            Python::try_attach(|py| self.ask_again(py, a, b).map_err(|error| keep(py, error)));
        match answer {
            Some(Ok(order)) => order,
            // Not a panic of ours: nothing is to be printed.
            Some(Err(())) => resume_unwind(Box::new(FAILED)),
            None => resume_unwind(Box::new("the interpreter has ended: close stores before that")),
        }
    }
}

/// Keeps what was raised for the end of the call; in the background it is printed.
fn keep(py: Python<'_>, error: PyErr) {
    if CALLED.get() {
        // What it takes the place of is dropped after that: this may run Python.
        drop(RAISED.replace(Some(error)));
    } else {
        error.write_unraisable(py, None);
    }
}

/// True if the function has raised something in the call that this thread is in.
pub(crate) fn has_raised() -> bool {
    RAISED.with_borrow(Option::is_some)
}

/// True on a thread that is inside of such a function.
pub(crate) fn is_asked() -> bool {
    ASKED.get()
}

/// Fails on a thread that is inside of such a function: what it calls could wait for itself.
///
/// # Errors
/// `RuntimeError` that says so.
pub(crate) fn check_not_asked() -> PyResult<()> {
    if !is_asked() {
        return Ok(());
    }
    REFUSED.set(true);
    Err(PyRuntimeError::new_err(
        "a comparator, or what interrupts it, uses a database that has a comparator: that could wait for ever; do it elsewhere",
    ))
}

/// Runs a call into the engine during which the function may be asked.
///
/// # Errors
/// What the function raised; if it was an interrupt, the call was made to its end.
pub(crate) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, PyErr> {
    let before = CALLED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    CALLED.set(before);
    match (RAISED.take(), result) {
        (Some(raised), _) => Err(raised),
        (None, Ok(result)) => Ok(result),
        (None, Err(panic)) => resume_unwind(panic),
    }
}

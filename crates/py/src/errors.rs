//! Errors of the engine as exceptions of either face. The classes stand in Python:
//! `esker/_errors.py`, `esker/plyvel.py`.

use esker::Error;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

/// Whose exceptions are raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Face {
    /// Those of `esker`.
    Own,
    /// Those of `esker.plyvel`.
    Plyvel,
}

/// What a store is called where it was closed.
pub(crate) const STORE: &str = "store";

/// That something was closed, and what to do.
fn was_closed(what: &str) -> String {
    match what {
        STORE => "the store was closed: open it again".to_owned(),
        what => format!("the {what} was closed, by itself or with its store: make another"),
    }
}

/// Makes an exception of a class that Python defines.
fn raise(py: Python<'_>, module: &str, class: &str, text: &str) -> PyErr {
    let made = py
        .import(module)
        .and_then(|module| module.getattr(class))
        .and_then(|class| Ok(class.cast_into::<PyType>()?))
        .and_then(|class| class.call1((PyString::new(py, text),)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// What to do about an error, unless its text says it already.
fn remedy(error: &Error) -> &'static str {
    match error {
        Error::Corruption { what, .. } if what.ends_with("run repair") => "",
        Error::Corruption { .. } => "verify() lists all damage; then repair() or restore a backup",
        Error::Incompatible { what, .. } if what.contains(": ") => "",
        Error::Incompatible { .. } => "use the version or the options that it was written with",
        Error::Io { .. } => "see to the disk and its permissions, then try again",
        Error::Busy { .. } => "close it there first",
        Error::NotFound { .. } => "check the path, or create it with create_if_missing=True",
        Error::ReadOnly => "open it for writing",
        Error::Poisoned { .. } => "close it and open it again",
        Error::Cancelled => "try again if the store is open",
        _ => "",
    }
}

/// What happened, and what to do.
fn text(error: &Error) -> String {
    let what = match error {
        Error::InvalidArgument { what } => what.clone(),
        error => error.to_string(),
    };
    match remedy(error) {
        "" => what,
        remedy => format!("{what}: {remedy}"),
    }
}

impl Face {
    /// The exception for an error of the engine.
    #[cold]
    pub(crate) fn error(self, py: Python<'_>, error: &Error) -> PyErr {
        match self {
            Face::Own => own(py, error),
            Face::Plyvel => raise(py, "esker.plyvel", plyvel_class(error), &text(error)),
        }
    }

    /// The exception for the use of something that was closed.
    #[cold]
    pub(crate) fn closed(self, py: Python<'_>, what: &str) -> PyErr {
        self.unusable(py, &was_closed(what))
    }

    /// The exception for the use of a store in a child of the process that has opened it.
    #[cold]
    pub(crate) fn inherited(self, py: Python<'_>) -> PyErr {
        self.unusable(
            py,
            "the store was opened by another process, from which this one was forked: open it after the fork",
        )
    }

    fn unusable(self, py: Python<'_>, text: &str) -> PyErr {
        match self {
            Face::Own => raise(py, "esker._errors", "ClosedError", text),
            Face::Plyvel => PyRuntimeError::new_err(text.to_owned()),
        }
    }
}

fn plyvel_class(error: &Error) -> &'static str {
    match error {
        Error::Corruption { .. } => "CorruptionError",
        Error::Io { .. } | Error::NoSpace { .. } | Error::Busy { .. } | Error::Poisoned { .. } => {
            "IOError"
        }
        _ => "Error",
    }
}

/// Of Linux.
const ENOENT: i32 = 2;
const ENOSPC: i32 = 28;

fn own(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error {
        Error::InvalidArgument { .. } => "InvalidArgumentError",
        Error::Corruption { .. } => "CorruptionError",
        Error::Incompatible { .. } => "IncompatibleError",
        Error::Io { .. } => "IoError",
        Error::NoSpace { .. } => "NoSpaceError",
        Error::Busy { .. } => "BusyError",
        Error::NotFound { .. } => "NotFoundError",
        Error::ReadOnly => "ReadOnlyError",
        Error::Poisoned { .. } => "PoisonedError",
        Error::Cancelled => "CancelledError",
        _ => "Error",
    };
    let exception = raise(py, "esker._errors", class, &text(error));
    // Those that are kinds of OSError say what the system said.
    let said = match error {
        Error::Io { source, path, .. } => Some((source.raw_os_error(), path)),
        Error::NoSpace { path } => Some((Some(ENOSPC), path)),
        Error::NotFound { path } => Some((Some(ENOENT), path)),
        _ => None,
    };
    if let Some((said, path)) = said {
        let value = exception.value(py);
        let _ = value.setattr("errno", said);
        let _ = value.setattr("filename", path);
    }
    exception
}

/// The own face's exception for wrong arguments that the engine does not see.
#[cold]
pub(crate) fn invalid(py: Python<'_>, what: &str) -> PyErr {
    raise(py, "esker._errors", "InvalidArgumentError", what)
}

/// The exception of plyvel for a raw iterator that stands on nothing.
#[cold]
pub(crate) fn stands_on_nothing(py: Python<'_>) -> PyErr {
    raise(py, "esker.plyvel", "IteratorInvalidError", "the iterator stands on no key: seek first")
}

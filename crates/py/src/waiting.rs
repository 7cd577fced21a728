//! Calls that may take long, and end when the user asks for it.

use crate::comparator::has_raised;
use crate::handle::Store;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How often signals are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Makes a call that cannot be told to stop, on a thread of its own, and waits for it.
///
/// # Errors
/// That of the engine; that this is a comparator; `KeyboardInterrupt`, in which case nobody waits
/// any more and the call goes on to its end.
pub(crate) fn patiently<T: Send + 'static>(
    py: Python<'_>,
    store: &Arc<Store>,
    call: impl FnOnce() -> esker::Result<T> + Send + 'static,
) -> PyResult<T> {
    // The other thread could wait for this one.
    store.check_not_asked()?;
    let (sender, mut receiver) = channel();
    let theirs = store.clone();
    let work = move || {
        // Who waits may have gone.
        let _ = sender.send(theirs.call(call));
    };
    thread::Builder::new()
        .name("esker-python".to_owned())
        .spawn(work)
        .map_err(|error| PyRuntimeError::new_err(format!("cannot start a thread: {error}")))?;
    loop {
        let received;
        (receiver, received) = py.detach(move || {
            let received = receiver.recv_timeout(LOOK_EVERY);
            (receiver, received)
        });
        match received {
            Ok(result) => return result?.map_err(|error| store.face.error(py, &error)),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err(
                    "the call ended by a fault inside of the engine: close the store and open it again",
                ));
            }
        }
    }
}

/// Makes a call that reports its progress, and may be told to stop by the answer.
///
/// `tell` is called with each report; what it raises, and a signal, end the call.
///
/// # Errors
/// What `tell` raised, or `KeyboardInterrupt`; that of the engine.
pub(crate) fn watched<T: Send, P: ?Sized>(
    py: Python<'_>,
    run: impl FnOnce(&mut (dyn FnMut(&P) -> bool + Send)) -> PyResult<T>,
    tell: impl Fn(Python<'_>, &P) -> PyResult<()> + Send + Sync,
) -> PyResult<T> {
    let mut raised = None;
    let mut progress = |report: &P| {
        // An interrupt may have come while keys were compared.
        if has_raised() {
            return false;
        }
        let told = Python::try_attach(|py| {
            py.check_signals()?;
            tell(py, report)
        });
        match told {
            Some(Ok(())) => true,
            Some(Err(error)) => {
                raised = Some(error);
                false
            }
            None => false,
        }
    };
    let result = run(&mut progress);
    match raised {
        Some(error) => Err(error),
        None => {
            py.check_signals()?;
            result
        }
    }
}

//! Errors as LevelDB's programs know them: text with the kind before a colon.

use crate::boundary::{free, guard, text_out};
use crate::fork::Inherited;
use crate::handle::Misuse;
use esker::Error;
use libc::c_char;

/// What went wrong.
#[derive(Clone)]
pub(super) struct Status(String);

/// What a call comes to.
pub(super) type Outcome<T> = Result<T, Status>;

impl Status {
    pub(super) fn invalid(what: &str) -> Status {
        Status(format!("Invalid argument: {what}"))
    }

    pub(super) fn io(what: &str) -> Status {
        Status(format!("IO error: {what}"))
    }
}

impl From<Misuse> for Status {
    fn from(misuse: Misuse) -> Status {
        Status::invalid(&misuse.to_string())
    }
}

impl From<Inherited> for Status {
    fn from(inherited: Inherited) -> Status {
        Status::invalid(&inherited.to_string())
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Status {
        match &error {
            Error::InvalidArgument { what } => Status::invalid(what),
            Error::Incompatible { .. } | Error::ReadOnly => Status::invalid(&error.to_string()),
            Error::Corruption { path, offset_bytes, what } => {
                Status(format!("Corruption: {}: {what} (offset {offset_bytes})", path.display()))
            }
            Error::NotFound { path } => Status(format!("NotFound: {}", path.display())),
            // In LevelDB's words, which programs look for.
            Error::Busy { path } => {
                Status::io(&format!("lock {}: already held by process", path.display()))
            }
            _ => Status::io(&error.to_string()),
        }
    }
}

/// Runs the body of a function that tells errors through `errptr`, and returns `failed` after one.
///
/// # Safety
/// `errptr` is NULL, or leads to NULL or to text that `malloc` gave.
#[inline]
pub(super) unsafe fn report<R>(
    errptr: *mut *mut c_char,
    failed: R,
    body: impl FnOnce() -> Outcome<R>,
) -> R {
    let outcome = guard(body, |panic| Err(Status::io(&format!("a bug of Esker: {panic}"))));
    match outcome {
        Ok(result) => result,
        Err(Status(text)) => {
            if !errptr.is_null() {
                // SAFETY: as the caller says.
                unsafe {
                    free((*errptr).cast());
                    *errptr = text_out(&text);
                }
            }
            failed
        }
    }
}

/// Runs the body of a function that tells no errors, and returns `failed` after one.
#[inline]
pub(super) fn quiet<R>(failed: R, body: impl FnOnce() -> Outcome<R>) -> R {
    let outcome = guard(body, |_| Err(Status(String::new())));
    outcome.unwrap_or(failed)
}

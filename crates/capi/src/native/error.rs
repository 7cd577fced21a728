//! Errors: a code that says what to do next, and a text for people.

use crate::boundary::{guard, slice, text_out};
use crate::fork::Inherited;
use crate::handle::Misuse;
use esker::Error;
use libc::{c_char, c_void, size_t};
use std::cell::RefCell;
use std::ffi::{CStr, CString};

/// How a call ended.
#[allow(non_camel_case_types, reason = "as C names it")]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum esker_code {
    /// Well. That a key is not there is no error.
    ESKER_OK = 0,
    /// The call was wrong, and nothing changed: fix it.
    ESKER_INVALID_ARGUMENT = 1,
    /// Stored bytes are not what was written: restore, or repair.
    ESKER_CORRUPTION = 2,
    /// The store was made with a format or options that this call cannot work with.
    ESKER_INCOMPATIBLE = 3,
    /// The operating system refused.
    ESKER_IO = 4,
    /// The disk is full. Reads go on; writes work again once there is space.
    ESKER_NO_SPACE = 5,
    /// Another process or handle has the store open.
    ESKER_BUSY = 6,
    /// There is no store.
    ESKER_NOT_FOUND = 7,
    /// The store was opened for reading only.
    ESKER_READ_ONLY = 8,
    /// An earlier failure left the state on the disk unknown: reopen the store to write again.
    ESKER_POISONED = 9,
    /// Cancelled by the store closing.
    ESKER_CANCELLED = 10,
    /// A handle is NULL, closed, of another kind, or its database is closed; or a place for a
    /// result is NULL.
    ESKER_MISUSE = 11,
    /// A bug of Esker. What the call did is unknown.
    ESKER_INTERNAL = 12,
}

use esker_code as Code;

/// What went wrong.
#[derive(Debug)]
pub(super) struct Failure {
    code: Code,
    text: String,
}

/// What a call comes to.
pub(super) type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub(super) fn invalid(text: impl Into<String>) -> Failure {
        Failure { code: Code::ESKER_INVALID_ARGUMENT, text: text.into() }
    }

    pub(super) fn misuse(text: impl Into<String>) -> Failure {
        Failure { code: Code::ESKER_MISUSE, text: text.into() }
    }

    pub(super) fn internal(text: impl Into<String>) -> Failure {
        Failure { code: Code::ESKER_INTERNAL, text: text.into() }
    }
}

impl From<Inherited> for Failure {
    fn from(inherited: Inherited) -> Failure {
        Failure::misuse(inherited.to_string())
    }
}

impl From<Misuse> for Failure {
    fn from(misuse: Misuse) -> Failure {
        Failure::misuse(misuse.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let code = match &error {
            Error::InvalidArgument { .. } => Code::ESKER_INVALID_ARGUMENT,
            Error::Corruption { .. } => Code::ESKER_CORRUPTION,
            Error::Incompatible { .. } => Code::ESKER_INCOMPATIBLE,
            Error::NoSpace { .. } => Code::ESKER_NO_SPACE,
            Error::Busy { .. } => Code::ESKER_BUSY,
            Error::NotFound { .. } => Code::ESKER_NOT_FOUND,
            Error::ReadOnly => Code::ESKER_READ_ONLY,
            Error::Poisoned { .. } => Code::ESKER_POISONED,
            Error::Cancelled => Code::ESKER_CANCELLED,
            _ => Code::ESKER_IO,
        };
        Failure { code, text: error.to_string() }
    }
}

thread_local! {
    /// Of the last call on this thread that failed.
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Runs the body of a function of the interface, and keeps the text of what went wrong.
#[inline]
pub(super) fn run(body: impl FnOnce() -> Outcome<()>) -> Code {
    match guard(body, |panic| Err(Failure::internal(format!("a bug of Esker: {panic}")))) {
        Ok(()) => Code::ESKER_OK,
        Err(failure) => keep(&failure),
    }
}

#[cold]
fn keep(failure: &Failure) -> Code {
    let text = failure.text.replace('\0', "?");
    // A thread that is ending has no text any more.
    let _ = LAST.try_with(|last| *last.borrow_mut() = CString::new(text).unwrap_or_default());
    failure.code
}

/// What went wrong in the last call on this thread that failed: good until the next that fails.
/// Empty if none has.
#[unsafe(no_mangle)]
pub extern "C" fn esker_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The place that a result goes to: NULL, 0 or false until there is one.
///
/// # Safety
/// `place` is NULL or leads to a value that may be replaced, whose bytes may all be 0.
pub(super) unsafe fn place<'a, T>(place: *mut T) -> Outcome<&'a mut T> {
    if place.is_null() {
        return Err(Failure::misuse("the place for a result is NULL"));
    }
    // SAFETY: as the caller says.
    unsafe {
        place.write_bytes(0, 1);
        Ok(&mut *place)
    }
}

/// Text that ends in a zero.
///
/// # Safety
/// `text` is NULL or such text.
pub(super) unsafe fn text<'a>(text: *const c_char, what: &str) -> Outcome<&'a str> {
    if text.is_null() {
        return Err(Failure::invalid(format!("the {what} is NULL")));
    }
    // SAFETY: as the caller says.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::invalid(format!("the {what} is not UTF-8")))
}

/// Text that may be left out.
///
/// # Safety
/// As `text`.
pub(super) unsafe fn text_or_empty<'a>(given: *const c_char, what: &str) -> Outcome<&'a str> {
    // SAFETY: as the caller says.
    if given.is_null() { Ok("") } else { unsafe { text(given, what) } }
}

/// The bytes that C names; NULL only without any.
///
/// # Safety
/// `data` is NULL or leads to so many bytes that stay as they are while the slice is in use.
#[inline]
pub(super) unsafe fn bytes<'a>(data: *const c_void, len: size_t) -> Outcome<&'a [u8]> {
    if data.is_null() && len > 0 {
        return Err(Failure::invalid("bytes are NULL although they have a length"));
    }
    // SAFETY: as the caller says.
    Ok(unsafe { slice(data.cast(), len) })
}

/// A report as JSON that C frees.
pub(super) fn give_json(report: &impl serde::Serialize) -> Outcome<*mut c_char> {
    let text = serde_json::to_string(report)
        .map_err(|error| Failure::internal(format!("cannot write JSON: {error}")))?;
    let copy = text_out(&text);
    if copy.is_null() { Err(no_memory()) } else { Ok(copy) }
}

#[cold]
pub(super) fn no_memory() -> Failure {
    Failure { code: Code::ESKER_IO, text: "there is no memory for the result".to_owned() }
}

//! The boundary to C: nothing unwinds across it, and what C frees is of its own allocator.

use libc::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a function that C calls. A panic, which is a bug of ours, becomes what
/// `otherwise` makes of its message.
#[inline]
pub(crate) fn guard<R>(body: impl FnOnce() -> R, otherwise: impl FnOnce(&str) -> R) -> R {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            let result = otherwise(text.unwrap_or("no message"));
            // What was thrown may throw while it is dropped.
            std::mem::forget(panic);
            result
        }
    }
}

/// The bytes that C names.
///
/// # Safety
/// `bytes` is NULL or leads to `len` bytes that stay as they are while the slice is in use.
#[inline]
pub(crate) unsafe fn slice<'a>(bytes: *const c_char, len: usize) -> &'a [u8] {
    if bytes.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { std::slice::from_raw_parts(bytes.cast(), len) }
}

/// Where bytes begin that C borrows: never NULL, and, without any, a place that may be read.
#[inline]
pub(crate) fn start_of(bytes: &[u8]) -> *const c_char {
    if bytes.is_empty() { c"".as_ptr() } else { bytes.as_ptr().cast() }
}

/// A copy that C frees; NULL if there is no memory.
#[inline]
pub(crate) fn copy_out(bytes: &[u8]) -> *mut c_char {
    // SAFETY: a size that is not 0.
    let copy = unsafe { libc::malloc(bytes.len().max(1)) };
    if !copy.is_null() {
        // SAFETY: so many bytes were just allocated.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.cast(), bytes.len()) };
    }
    copy.cast()
}

/// A copy that ends in a zero and that C frees; zeros within become question marks. NULL if there
/// is no memory.
pub(crate) fn text_out(text: &str) -> *mut c_char {
    let bytes = text.bytes().map(|byte| if byte == 0 { b'?' } else { byte });
    copy_out(&bytes.chain([0]).collect::<Vec<u8>>())
}

/// Frees what C or one of the copies above has allocated.
///
/// # Safety
/// `memory` is NULL or was allocated by `malloc` and not freed.
pub(crate) unsafe fn free(memory: *mut c_void) {
    // SAFETY: as the caller says.
    unsafe { libc::free(memory) };
}

//! Handles: what stands behind the pointers that C programs hold.
//!
//! A handle is a *shell* with a magic word for its kind, and a content. Closing it takes the
//! content out and changes the word. The memory of a shell is never given back: closed ones wait in
//! a queue, the oldest are used again. So a pointer to a handle that was closed leads to memory
//! that is there and says so, until a thousand more were closed.
//! Invariants: (1) a shell holds content if and only if its word is that of its kind; (2) it is in
//! the queue of its kind at most once, and only when it is closed.
//! Threads: opening and closing are safe from any; a handle that is closed while another thread
//! uses it is the caller's fault, as is using one that only one thread may use from two.

use crate::fork::{forks, watch};
use esker::base::sync::Mutex;
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The word of a closed handle.
const CLOSED: u64 = 0;

/// Closed handles of a kind that are not used again yet.
const CLOSED_MIN: usize = 1_000;

/// What a handle points to. The word stands first, whatever the content.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Shell<T> {
    word: AtomicU64,
    content: UnsafeCell<Option<T>>,
}

/// Closed shells of a kind: the queue of this process, or still that of the one it was forked from.
#[derive(Debug)]
pub(crate) struct Closed(AtomicPtr<Queue>);

/// Addresses of closed shells, the oldest first.
#[derive(Debug)]
struct Queue {
    shells: Mutex<VecDeque<usize>>,
    forks: usize,
}

impl Closed {
    pub(crate) const fn new() -> Closed {
        Closed(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// The queue of this process. A child begins with a new one, and leaves the old where it is: it
    /// may have been locked when the child was forked.
    fn shells(&self) -> &'static Mutex<VecDeque<usize>> {
        let mut queue = self.0.load(Ordering::Acquire);
        loop {
            // SAFETY: NULL, or a queue that was put there below, and such are never freed.
            if let Some(queue) = unsafe { queue.as_ref() }
                && queue.forks == forks()
            {
                return &queue.shells;
            }
            let new = Queue { shells: Mutex::new(VecDeque::new()), forks: forks() };
            let new = Box::into_raw(Box::new(new));
            queue = match self.0.compare_exchange(queue, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => new,
                Err(other) => {
                    // SAFETY: nobody else has seen it.
                    drop(unsafe { Box::from_raw(new) });
                    other
                }
            };
        }
    }
}

/// A kind of handle.
pub(crate) trait Handle: Sized + 'static {
    /// What it holds.
    type Content;
    /// What messages call it.
    const WHAT: &'static str;
    /// Tells it from other kinds.
    const WORD: u64 = word_of(Self::WHAT);

    /// What it is made of: begins where the handle does.
    fn shell(handle: *const Self) -> *const Shell<Self::Content>;
    /// The handle made of this.
    fn from_shell(shell: Shell<Self::Content>) -> Self;
    /// Those that were closed.
    fn closed() -> &'static Closed;
}

/// Makes a struct with one field, a shell, a kind of handle.
macro_rules! handle {
    ($name:ident, $content:ty, $what:literal) => {
        impl $crate::handle::Handle for $name {
            type Content = $content;
            const WHAT: &'static str = $what;

            fn shell(handle: *const $name) -> *const $crate::handle::Shell<$content> {
                // SAFETY: nothing is read; the only field stands where the whole does.
                unsafe { &raw const (*handle).0 }
            }

            fn from_shell(shell: $crate::handle::Shell<$content>) -> $name {
                $name(shell)
            }

            fn closed() -> &'static $crate::handle::Closed {
                static CLOSED: $crate::handle::Closed = $crate::handle::Closed::new();
                &CLOSED
            }
        }
    };
}
pub(crate) use handle;

/// A pointer that is no open handle of the kind that the call wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misuse {
    Null(&'static str),
    NotOpen(&'static str),
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misuse::Null(what) => write!(f, "the pointer to the {what} is NULL"),
            Misuse::NotOpen(what) => {
                write!(
                    f,
                    "the pointer leads to no open {what}: it was closed, or is something else"
                )
            }
        }
    }
}

/// FNV-1a of the name; odd, and so never that of a closed handle.
const fn word_of(what: &str) -> u64 {
    let bytes = what.as_bytes();
    let mut word: u64 = 0xcbf2_9ce4_8422_2325;
    let mut at = 0;
    while at < bytes.len() {
        word = (word ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    word | 1
}

/// A new handle with this content.
pub(crate) fn open<H: Handle>(content: H::Content) -> *mut H {
    watch();
    let reused = {
        let mut closed = H::closed().shells().lock();
        if closed.len() > CLOSED_MIN { closed.pop_front() } else { None }
    };
    let Some(address) = reused else {
        let word = AtomicU64::new(H::WORD);
        let shell = Shell { word, content: UnsafeCell::new(Some(content)) };
        return Box::into_raw(Box::new(H::from_shell(shell)));
    };
    let handle = std::ptr::with_exposed_provenance_mut::<H>(address);
    // SAFETY: a shell in the queue is one of this kind that `close` put there; nobody else has it
    // now.
    let shell = unsafe { &*H::shell(handle) };
    // SAFETY: as above; its word says that it is closed, so that nobody looks at its content.
    unsafe { *shell.content.get() = Some(content) };
    shell.word.store(H::WORD, Ordering::Release);
    handle
}

/// The content of a handle.
///
/// # Safety
/// `handle` is NULL or a pointer that `open` has returned, for whatever kind. It is not closed, nor
/// its content changed by another thread, while the content is in use.
#[inline]
pub(crate) unsafe fn get<'h, H: Handle>(handle: *const H) -> Result<&'h H::Content, Misuse> {
    if handle.is_null() {
        return Err(Misuse::Null(H::WHAT));
    }
    if !handle.is_aligned() {
        return Err(Misuse::NotOpen(H::WHAT));
    }
    let shell = H::shell(handle);
    // Of other kinds it has less behind the word, maybe: nothing but that is looked at until it is
    // known for ours. SAFETY: shells are never freed, and their word stands at the beginning of all
    // kinds.
    let word = unsafe { AtomicU64::from_ptr(shell.cast_mut().cast()) };
    if word.load(Ordering::Acquire) != H::WORD {
        return Err(Misuse::NotOpen(H::WHAT));
    }
    // SAFETY: an open shell of this kind; the caller says that nobody changes it.
    unsafe { (*(*shell).content.get()).as_ref() }.ok_or(Misuse::NotOpen(H::WHAT))
}

/// The content of a handle, to be changed.
///
/// # Safety
/// As `get`; and nobody else uses the content meanwhile.
#[inline]
pub(crate) unsafe fn get_mut<'h, H: Handle>(handle: *mut H) -> Result<&'h mut H::Content, Misuse> {
    // SAFETY: as the caller says.
    unsafe { get(handle.cast_const())? };
    // SAFETY: an open shell, as was just seen; the caller says that nobody else uses it.
    unsafe { (*(*H::shell(handle)).content.get()).as_mut() }.ok_or(Misuse::NotOpen(H::WHAT))
}

/// Closes a handle. Of two threads that close it at once, one gets the content.
///
/// # Safety
/// As `get`; and nobody uses the content any more.
pub(crate) unsafe fn close<H: Handle>(handle: *mut H) -> Result<H::Content, Misuse> {
    // SAFETY: as the caller says.
    unsafe { get(handle.cast_const())? };
    // SAFETY: a shell of this kind, as was just seen; none is ever freed.
    let shell = unsafe { &*H::shell(handle) };
    let (open, closed) = (H::WORD, CLOSED);
    if shell.word.compare_exchange(open, closed, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return Err(Misuse::NotOpen(H::WHAT));
    }
    // SAFETY: whoever changes the word has the content.
    let content = unsafe { (*shell.content.get()).take() };
    H::closed().shells().lock().push_back(handle.expose_provenance());
    content.ok_or(Misuse::NotOpen(H::WHAT))
}

/// Closes a handle and drops its content.
///
/// # Safety
/// As `close`.
pub(crate) unsafe fn discard<H: Handle>(handle: *mut H) -> Result<(), Misuse> {
    // SAFETY: as the caller says.
    unsafe { close(handle).map(drop) }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Apple(Shell<u32>);
    handle!(Apple, u32, "apple");
    struct Pear(Shell<u32>);
    handle!(Pear, u32, "pear");

    #[test]
    fn misuse_is_noticed() {
        let apple = open::<Apple>(7);
        // SAFETY: handles of `open`, on one thread.
        unsafe {
            assert_eq!(get(apple), Ok(&7));
            *get_mut(apple).expect("open") = 8;
            assert_eq!(get(apple.cast::<Pear>()), Err(Misuse::NotOpen("pear")));
            assert_eq!(close(apple), Ok(8));
            assert_eq!(get(apple), Err(Misuse::NotOpen("apple")));
            assert_eq!(close(apple), Err(Misuse::NotOpen("apple")));
            assert_eq!(get(std::ptr::null::<Apple>()), Err(Misuse::Null("apple")));
        }
    }

    #[test]
    fn a_closed_handle_is_used_again_only_after_a_thousand_others() {
        let first = open::<Pear>(0);
        // SAFETY: as above.
        unsafe { close(first).expect("open") };
        let mut reused_after = None;
        for n in 1..=3_000 {
            let next = open::<Pear>(n);
            if next == first {
                reused_after = Some(n);
                // SAFETY: as above.
                unsafe { assert_eq!(get(first), Ok(&n)) };
                break;
            }
            // SAFETY: as above.
            unsafe { close(next).expect("open") };
        }
        assert!(reused_after.is_some_and(|n| n as usize > CLOSED_MIN), "{reused_after:?}");
    }
}

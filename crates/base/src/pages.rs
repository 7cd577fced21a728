//! Large zeroed arrays straight from the system.
//!
//! An allocator that keeps what is freed for later turns a few large short-lived arrays into a heap
//! that stays as large as its peak, whatever the budget says. Arrays from [`LARGE_BYTES`] on are
//! therefore mapped, and unmapped when dropped; smaller ones come from the allocator. Those that
//! will be filled can ask for huge pages, which spares faults while they are and address
//! translation later. The thread sanitizer does not see system calls that are made directly, and
//! would take what is mapped where something else was for the same memory: under it all of them
//! come from the allocator. Under a model checker atomics are no plain integers, and
//! [`AtomicPages`] is a list of them.

use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Arrays of at least this many bytes are mapped.
pub const LARGE_BYTES: usize = if cfg!(esker_tsan) { usize::MAX } else { 128 << 10 };

/// What a huge page holds; smaller arrays do without.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A type for which all-zero bytes are a value, and which needs no dropping.
///
/// # Safety
/// Both must be true.
pub unsafe trait Zeroable {}

// SAFETY: an integer of zero, and no drop.
unsafe impl Zeroable for u8 {}
// SAFETY: an integer of zero, and no drop.
unsafe impl Zeroable for u32 {}
// SAFETY: has the representation of `u64`, and no drop.
unsafe impl Zeroable for AtomicU64 {}
// SAFETY: both are integers; padding has no invalid value.
unsafe impl Zeroable for (u64, u32) {}

/// An array of fixed length, zero at first.
pub struct Pages<T: Zeroable> {
    start: NonNull<T>,
    len: usize,
}

// SAFETY: owns its elements like a box does.
unsafe impl<T: Zeroable + Send> Send for Pages<T> {}
// SAFETY: shared access gives shared access to the elements only.
unsafe impl<T: Zeroable + Sync> Sync for Pages<T> {}

impl<T: Zeroable> Pages<T> {
    /// An array of `len` zeros.
    ///
    /// # Panics
    /// If the size overflows. Ends the process, like any allocation, if there is no memory.
    pub fn zeroed(len: usize) -> Pages<T> {
        let layout = layout::<T>(len);
        if layout.size() == 0 {
            return Pages { start: NonNull::dangling(), len };
        }
        let start = if layout.size() >= LARGE_BYTES {
            // SAFETY: a fresh private mapping at an address the kernel chooses.
            let mapped = unsafe {
                let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
                rustix::mm::mmap_anonymous(std::ptr::null_mut(), layout.size(), prot, flags)
            };
            mapped.unwrap_or(std::ptr::null_mut()).cast::<T>()
        } else {
            // SAFETY: the size is not zero.
            unsafe { alloc_zeroed(layout) }.cast::<T>()
        };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Pages { start, len }
    }

    /// As [`Pages::zeroed`], in pages of 2 MiB where the array is large enough and the kernel has
    /// them.
    ///
    /// For arrays of which most is going to be written: the first write to each page takes all of
    /// it.
    pub fn huge(len: usize) -> Pages<T> {
        let pages = Pages::<T>::zeroed(len);
        let bytes = layout::<T>(len).size();
        if bytes >= HUGE_PAGE_BYTES.max(LARGE_BYTES) {
            // SAFETY: a mapping of our own.
            unsafe { prefer_huge(pages.as_ptr().cast(), bytes) };
        }
        pages
    }

    /// Lets the kernel take the memory away, without a copy, until an element is written again:
    /// each element is what it was, or zero. What is not taken costs no fault when it is written.
    pub fn may_be_taken(&mut self) {
        let bytes = layout::<T>(self.len).size();
        if bytes >= LARGE_BYTES {
            // SAFETY: a mapping of our own; zero is a value of every element.
            let _ = unsafe { rustix::mm::madvise(self.as_ptr().cast(), bytes, Advice::LinuxFree) };
        }
    }

    /// Has the memory there before it is written: takes every page from the system now. Sets no
    /// element.
    ///
    /// By touching pages: `MADV_POPULATE_WRITE` would hold the address space's lock all the while,
    /// and make every other thread that maps or faults wait.
    pub fn populate(&mut self) {
        let bytes = layout::<T>(self.len).size();
        // SAFETY: the array is ours alone, and all of it is there.
        unsafe { touch(self.as_ptr().cast(), bytes) };
    }

    /// Sets all elements to zero.
    pub fn clear(&mut self) {
        let bytes = layout::<T>(self.len).size();
        // SAFETY: the array is ours alone; zero is a value of every element.
        unsafe { self.as_ptr().cast::<u8>().write_bytes(0, bytes) };
    }

    /// Address of the first element.
    pub fn as_ptr(&self) -> *mut T {
        self.start.as_ptr()
    }
}

/// Has the memory of every page there, and changes no byte. Each is written and not read first: a
/// page that was read is one of zeros for all, and the next who writes it waits for memory as if it
/// had not been touched.
///
/// # Safety
/// Readable and writable memory that nobody else uses meanwhile.
pub(crate) unsafe fn touch(start: *mut u8, bytes: usize) {
    const PAGE_BYTES: usize = 4 << 10;
    // Of a zero that it knows the compiler makes a read.
    // SAFETY: of a constant.
    let nothing = unsafe { std::ptr::read_volatile(&0) };
    for at in (0..bytes).step_by(PAGE_BYTES) {
        // SAFETY: the caller's.
        unsafe { AtomicU8::from_ptr(start.add(at)) }.fetch_or(nothing, Ordering::Relaxed);
    }
}

/// Asks the kernel for huge pages in a part of a mapping; without them it stays in small ones.
///
/// # Safety
/// The part belongs to a mapping of the caller's.
pub(crate) unsafe fn prefer_huge(start: *mut u8, bytes: usize) {
    // SAFETY: the caller's; it changes how memory is backed, not what is in it.
    let _ = unsafe { rustix::mm::madvise(start.cast(), bytes, Advice::LinuxHugepage) };
}

/// What the processor fetches at once.
pub const LINE_BYTES: usize = 64;

/// Pulls the line at an address towards the processor. Any address will do: nothing is read that
/// could be missed.
#[inline]
pub fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

fn layout<T>(len: usize) -> Layout {
    let layout = Layout::array::<T>(len).expect("an array fits the address space");
    assert!(layout.align() <= 4096, "pages are aligned to their size");
    layout
}

impl<T: Zeroable> Deref for Pages<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `len` elements, zeroed at first and so valid, owned by this value.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Zeroable> DerefMut for Pages<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and access is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Zeroable> Drop for Pages<T> {
    fn drop(&mut self) {
        let layout = layout::<T>(self.len);
        let start = self.start.as_ptr();
        if layout.size() >= LARGE_BYTES {
            // SAFETY: mapped with this size by `zeroed`, and nobody refers to it any more.
            let unmapped = unsafe { rustix::mm::munmap(start.cast(), layout.size()) };
            debug_assert!(unmapped.is_ok(), "munmap of our own mapping: {unmapped:?}");
        } else if layout.size() > 0 {
            // SAFETY: allocated with this layout by `zeroed`.
            unsafe { dealloc(start.cast(), layout) };
        }
    }
}

/// An array of atomic integers, zero at first.
#[cfg(not(any(esker_loom, esker_shuttle)))]
pub type AtomicPages = Pages<AtomicU64>;

#[cfg(any(esker_loom, esker_shuttle))]
pub use checked::AtomicPages;

#[cfg(any(esker_loom, esker_shuttle))]
mod checked {
    use crate::sync::atomic::AtomicU64;

    /// An array of atomic integers, zero at first.
    #[derive(Debug)]
    pub struct AtomicPages(Box<[AtomicU64]>);

    impl AtomicPages {
        /// An array of `len` zeros.
        pub fn zeroed(len: usize) -> AtomicPages {
            AtomicPages((0..len).map(|_| AtomicU64::new(0)).collect())
        }

        /// As [`AtomicPages::zeroed`].
        pub fn huge(len: usize) -> AtomicPages {
            AtomicPages::zeroed(len)
        }

        /// Does nothing: the memory is there.
        pub fn populate(&mut self) {}

        /// Does nothing: nothing can be taken.
        pub fn may_be_taken(&mut self) {}

        /// Sets all elements to zero.
        pub fn clear(&mut self) {
            *self = AtomicPages::zeroed(self.0.len());
        }
    }

    impl std::ops::Deref for AtomicPages {
        type Target = [AtomicU64];

        fn deref(&self) -> &[AtomicU64] {
            &self.0
        }
    }
}

impl<T: Zeroable> fmt::Debug for Pages<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pages({} x {} B)", self.len, size_of::<T>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_every_size_are_zero_and_writable() {
        for len in [0, 1, 100, LARGE_BYTES / 4 - 1, LARGE_BYTES / 4, 3 << 20] {
            check(Pages::zeroed(len), len);
            check(Pages::huge(len), len);
        }

        fn check(mut pages: Pages<u32>, len: usize) {
            assert_eq!(pages.len(), len);
            assert!(pages.iter().all(|&n| n == 0));
            pages.iter_mut().enumerate().for_each(|(i, n)| *n = i as u32);
            pages.populate();
            assert!(pages.iter().enumerate().all(|(i, &n)| n == i as u32));
            pages.clear();
            assert!(pages.iter().all(|&n| n == 0));
        }
    }

    /// Pages of this thread that the kernel had to provide so far.
    #[cfg(target_os = "linux")]
    fn faults() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("/proc is there");
        let after_name = stat.rsplit(')').next().expect("a name in parentheses");
        let minor = after_name.split_whitespace().nth(7).expect("the tenth field");
        minor.parse().expect("a number")
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_is_there_costs_no_fault_when_it_is_written() {
        const PAGES: u64 = 256;
        let write = |populated: bool| {
            let mut pages = Pages::<u8>::zeroed(PAGES as usize * 4096);
            if populated {
                pages.populate();
            }
            let before = faults();
            pages.clear();
            faults() - before
        };
        // Where pages are larger there are fewer to begin with.
        let (untouched, touched) = (write(false), write(true));
        assert!(touched <= untouched / 8, "{touched} faults instead of {untouched}");
    }
}

//! Bytes that are filled once and then shared by count.

use super::{Heap, Home, IN_PASSING, STRIPE_HEAD_BYTES, placed};
use crate::pages::prefetch;
use std::alloc::Layout;
use std::fmt;
use std::ops::Deref;
use std::process::abort;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// More holders than this are a leak that would overflow their count.
const HOLDERS_MAX: u32 = u32::MAX / 2;

/// Bytes from a [`Heap`], freed with their last holder.
///
/// What `Arc<[u8]>` is, but from a heap of choice and in half the room. Reference counts are the
/// standard library's atomics in all builds.
pub struct SharedBytes(NonNull<Head>);

/// Stands right before the bytes.
#[repr(C, align(16))]
struct Head {
    holders: AtomicU32,
    len: u32,
    home: Home,
}

// SAFETY: the bytes are only read once they are shared, and the count is atomic.
unsafe impl Send for SharedBytes {}
// SAFETY: as above.
unsafe impl Sync for SharedBytes {}

impl SharedBytes {
    /// `len` bytes, zero at first, which `fill` writes before they are shared; and what it returns.
    ///
    /// # Panics
    /// If `len` is not below 4 GiB.
    pub fn filled<R>(
        heap: &Heap,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> (SharedBytes, R) {
        // SAFETY: zeros are written over all of it.
        let mut bytes = unsafe { SharedBytes::written(heap, len, |to| to.write_bytes(0, len)) };
        // SAFETY: nobody else has them yet.
        let result = fill(unsafe { bytes.as_mut() });
        (bytes, result)
    }

    /// As [`SharedBytes::filled`] from the global allocator, at the front of `spare` if that is at
    /// least as long and nobody else holds it; then `fill` finds in it what was there, and the
    /// bytes stay as many as they were.
    ///
    /// # Panics
    /// If `len` is not below 4 GiB.
    pub fn refilled<R>(
        spare: Option<SharedBytes>,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> (SharedBytes, R) {
        match spare {
            Some(mut bytes) if bytes.len() >= len && bytes.is_exclusive() => {
                // SAFETY: just found out.
                let result = fill(unsafe { &mut bytes.as_mut()[..len] });
                (bytes, result)
            }
            _ => SharedBytes::filled(&Heap::global(), len, fill),
        }
    }

    /// A copy.
    ///
    /// # Panics
    /// If `bytes` are not below 4 GiB.
    pub fn copied(heap: &Heap, bytes: &[u8]) -> SharedBytes {
        let len = bytes.len();
        // SAFETY: all of it is written, and no one else has it.
        let fill = |to: *mut u8| unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), len) };
        // SAFETY: as above.
        unsafe { SharedBytes::written(heap, len, fill) }
    }

    /// # Safety
    /// `fill` writes all `len` bytes.
    unsafe fn written(heap: &Heap, len: usize, fill: impl FnOnce(*mut u8)) -> SharedBytes {
        let len_u32 = u32::try_from(len).expect("shared bytes are below 4 GiB");
        let (start, home) = heap.allocate(layout(len));
        let head = start.cast::<Head>();
        // SAFETY: of this layout, and nobody else has it.
        unsafe {
            head.write(Head { holders: AtomicU32::new(1), len: len_u32, home });
            fill(head.add(1).cast::<u8>().as_ptr());
        }
        SharedBytes(head)
    }

    /// True if nobody else holds them.
    fn is_exclusive(&self) -> bool {
        self.head().holders.load(Ordering::Acquire) == 1
    }

    /// # Safety
    /// Nobody else holds them.
    unsafe fn as_mut(&mut self) -> &mut [u8] {
        let len = self.len();
        // SAFETY: initialized by `written`, and the only holder is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(1).cast::<u8>().as_ptr(), len) }
    }

    /// Brings the line of the byte at `at` near, without waiting for it; there need be none.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        prefetch(self.0.as_ptr().wrapping_add(1).cast::<u8>().wrapping_add(at));
    }

    /// Brings near what the allocator looks at when they are freed, without waiting for it: their
    /// head, and what follows them. They are about `len` bytes, which is not looked up.
    #[inline]
    pub fn prefetch_ends(&self, len: usize) {
        let head = self.0.as_ptr().cast::<u8>();
        prefetch(head);
        prefetch(head.wrapping_sub(size_of::<Head>()));
        let next = placed(layout(len)).size();
        prefetch(head.wrapping_add(next + size_of::<usize>()));
    }

    /// True if they are not in the heap they were asked of, since it grows only once more of it is
    /// ready: whoever keeps them for long should rather make them anew later.
    pub fn is_in_passing(&self) -> bool {
        self.head().home == IN_PASSING
    }

    /// Bytes of memory that they take, in a heap; about as many elsewhere.
    pub fn heap_bytes(&self) -> usize {
        placed(layout(self.len())).size() + STRIPE_HEAD_BYTES
    }

    #[inline]
    fn head(&self) -> &Head {
        // SAFETY: from `written`, and this holder keeps it.
        unsafe { self.0.as_ref() }
    }

    /// Frees the bytes.
    ///
    /// # Safety
    /// The last holder is gone.
    #[inline(never)]
    unsafe fn free(self_head: NonNull<Head>) {
        // SAFETY: nobody has it any more, and it was allocated with this layout.
        unsafe {
            let Head { len, home, .. } = *self_head.as_ref();
            home.free(self_head.cast(), layout(len as usize));
        }
    }
}

fn layout(len: usize) -> Layout {
    Layout::from_size_align(size_of::<Head>() + len, align_of::<Head>())
        .expect("below 4 GiB and so in the address space")
}

impl Clone for SharedBytes {
    #[inline]
    fn clone(&self) -> SharedBytes {
        if self.head().holders.fetch_add(1, Ordering::Relaxed) > HOLDERS_MAX {
            abort();
        }
        SharedBytes(self.0)
    }
}

impl Drop for SharedBytes {
    #[inline]
    fn drop(&mut self) {
        if self.head().holders.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // What others did with the bytes is over before they are freed.
        self.head().holders.load(Ordering::Acquire);
        // SAFETY: the count is 0 now.
        unsafe { SharedBytes::free(self.0) };
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: initialized by `written`, as long as it says, and this holder keeps them.
        unsafe {
            std::slice::from_raw_parts(
                self.0.add(1).cast::<u8>().as_ptr(),
                self.head().len as usize,
            )
        }
    }
}

impl From<&[u8]> for SharedBytes {
    /// A copy from the global allocator.
    fn from(bytes: &[u8]) -> SharedBytes {
        SharedBytes::copied(&Heap::global(), bytes)
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBytes({} B)", self.len())
    }
}

//! A slice with one owner.

use super::{GLOBAL, Heap, Home};
use std::alloc::Layout;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

/// A slice from a [`Heap`]: what `Box<[T]>` is, but from a heap of choice.
pub struct HeapBox<T> {
    start: NonNull<T>,
    len: usize,
    home: Home,
}

// SAFETY: owns its elements like a box does.
unsafe impl<T: Send> Send for HeapBox<T> {}
// SAFETY: shared access gives shared access to the elements only.
unsafe impl<T: Sync> Sync for HeapBox<T> {}

impl<T> HeapBox<T> {
    /// Moves the elements of `from` into memory of `heap`.
    pub fn new(heap: &Heap, from: Vec<T>) -> HeapBox<T> {
        let len = from.len();
        let layout = Layout::for_value::<[T]>(&from);
        let (start, home) = match layout.size() {
            0 => (NonNull::dangling(), GLOBAL),
            _ => {
                let (start, home) = heap.allocate(layout);
                (start.cast::<T>(), home)
            }
        };
        // From here on the elements are the box's: the vector frees its memory only.
        let mut from = ManuallyDrop::new(from);
        // SAFETY: room for `len` elements, apart from the vector's, which are then forgotten.
        unsafe {
            start.as_ptr().copy_from_nonoverlapping(from.as_ptr(), len);
            from.set_len(0);
            ManuallyDrop::drop(&mut from);
        }
        HeapBox { start, len, home }
    }
}

impl<T> Default for HeapBox<T> {
    /// An empty one, which takes no memory.
    fn default() -> HeapBox<T> {
        HeapBox { start: NonNull::dangling(), len: 0, home: GLOBAL }
    }
}

impl<T> Deref for HeapBox<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `len` elements, moved in by `new`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for HeapBox<T> {
    fn drop(&mut self) {
        let layout = Layout::for_value::<[T]>(&**self);
        let elements = std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.len);
        // SAFETY: owned, initialized, and not used again.
        unsafe { elements.drop_in_place() };
        if layout.size() > 0 {
            // SAFETY: allocated by `new` with this layout.
            unsafe { self.home.free(self.start.cast(), layout) };
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for HeapBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

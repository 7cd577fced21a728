//! Loom's atomics, with every access made dependent on every other.
//!
//! Loom leaves out interleavings that differ only in the order of independent accesses, and looks
//! for what an access depends on no further back than the last access to the same atomic. Of a load
//! in one thread, then a load and a store in another, it therefore never tries the first load after
//! the store. Here each access is preceded by one that changes a companion of the atomic, relaxed,
//! so that no order is left out and no synchronisation is added.

pub use std::sync::atomic::Ordering;

use loom::sync::atomic as inner;

macro_rules! atomic {
    ($name:ident $(<$type:ident>)?, $value:ty) => {
        /// As the standard library's.
        #[derive(Debug)]
        pub struct $name $(<$type>)? {
            value: inner::$name $(<$type>)?,
            companion: inner::AtomicU8,
        }

        impl $(<$type>)? $name $(<$type>)? {
            /// Holds `value`.
            #[track_caller]
            pub fn new(value: $value) -> Self {
                $name { value: inner::$name::new(value), companion: inner::AtomicU8::new(0) }
            }

            fn touched(&self) -> &inner::$name $(<$type>)? {
                self.companion.fetch_add(1, Ordering::Relaxed);
                &self.value
            }

            /// As the standard library's.
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                self.touched().load(order)
            }

            /// As the standard library's.
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                self.touched().store(value, order);
            }

            /// As the standard library's.
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.touched().swap(value, order)
            }
        }
    };
}

macro_rules! arithmetic {
    ($name:ident, $value:ty) => {
        atomic!($name, $value);

        impl $name {
            /// As the standard library's.
            #[track_caller]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.touched().fetch_add(value, order)
            }

            /// As the standard library's.
            #[track_caller]
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.touched().fetch_sub(value, order)
            }

            /// As the standard library's.
            #[track_caller]
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                self.touched().fetch_max(value, order)
            }

            /// As the standard library's.
            #[track_caller]
            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.touched().fetch_or(value, order)
            }

            /// As the standard library's.
            #[track_caller]
            pub fn compare_exchange(
                &self,
                seen: $value,
                value: $value,
                stored: Ordering,
                loaded: Ordering,
            ) -> Result<$value, $value> {
                self.touched().compare_exchange(seen, value, stored, loaded)
            }

            /// As the standard library's.
            #[track_caller]
            pub fn fetch_update(
                &self,
                stored: Ordering,
                loaded: Ordering,
                change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                self.touched().fetch_update(stored, loaded, change)
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $name::new(0)
            }
        }
    };
}

arithmetic!(AtomicU32, u32);
arithmetic!(AtomicU64, u64);
arithmetic!(AtomicUsize, usize);
atomic!(AtomicBool, bool);
atomic!(AtomicPtr<T>, *mut T);

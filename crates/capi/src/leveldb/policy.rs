//! Comparators and filter policies that are functions of the user's.
//!
//! Both are kept by reference counts: one that is destroyed while a database is open that needs it
//! is destroyed when that is closed. Options do not count: what is destroyed before the open is an
//! error of that.
//! Threads: the engine calls them from any, several at once. That goes for making filters too,
//! which LevelDB does on one thread at a time: here a flush, compactions and an open each make
//! them. So functions have to be safe for that.
//! Exceptions: one of C++ that left a function would unwind through the engine. It must not.

use super::status::quiet;
use crate::boundary::{free, slice, start_of};
use crate::handle::{self, Shell, handle};
use esker::{Comparator, FilterPolicy};
use libc::{c_char, c_int, c_void, size_t};
use std::cmp::Ordering;
use std::ffi::CStr;
use std::sync::{Arc, OnceLock};

type Destructor = Option<unsafe extern "C" fn(state: *mut c_void)>;
type Name = Option<unsafe extern "C" fn(state: *mut c_void) -> *const c_char>;
type Compare = unsafe extern "C" fn(
    state: *mut c_void,
    a: *const c_char,
    alen: size_t,
    b: *const c_char,
    blen: size_t,
) -> c_int;
type CreateFilter = unsafe extern "C" fn(
    state: *mut c_void,
    key_array: *const *const c_char,
    key_length_array: *const size_t,
    num_keys: c_int,
    filter_length: *mut size_t,
) -> *mut c_char;
type KeyMayMatch = unsafe extern "C" fn(
    state: *mut c_void,
    key: *const c_char,
    length: size_t,
    filter: *const c_char,
    filter_length: size_t,
) -> u8;

/// What a user's functions are given, and what they have in common.
struct Mine {
    state: *mut c_void,
    destructor: Destructor,
    name: Name,
    /// What `name` said when it was first asked.
    named: OnceLock<String>,
}

// SAFETY: the state is only handed to the user's functions, which may be called from any thread.
unsafe impl Send for Mine {}
// SAFETY: as above, and several at once.
unsafe impl Sync for Mine {}

impl Mine {
    fn name(&self) -> &str {
        self.named.get_or_init(|| {
            // SAFETY: the user's function, with the state that belongs to it.
            let name = self.name.map(|name| unsafe { name(self.state) });
            match name {
                Some(name) if !name.is_null() => {
                    // SAFETY: what it returns ends in a zero.
                    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
                }
                _ => "unnamed".to_owned(),
            }
        })
    }
}

impl Drop for Mine {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: the user's function, once, when nobody has the state any more.
            unsafe { destructor(self.state) };
        }
    }
}

/// An order of keys.
#[allow(non_camel_case_types, reason = "as C names it")]
pub struct leveldb_comparator_t(Shell<Arc<Order>>);
handle!(leveldb_comparator_t, Arc<Order>, "comparator");

/// The user's order.
pub struct Order {
    mine: Mine,
    compare: Compare,
}

impl Comparator for Order {
    fn name(&self) -> &str {
        self.mine.name()
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let (a, alen, b, blen) = (start_of(a), a.len(), start_of(b), b.len());
        // SAFETY: the user's function, with the state that belongs to it.
        unsafe { (self.compare)(self.mine.state, a, alen, b, blen) }.cmp(&0)
    }
}

/// Makes an order of keys of functions: `compare` says less than, equal or greater by its sign,
/// `name` the name that the database keeps, `destructor` frees the state. NULL without `compare`.
///
/// They are called from any thread, by several at once, must not use the database, and no C++
/// exception may leave them.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_comparator_create(
    state: *mut c_void,
    destructor: Option<unsafe extern "C" fn(state: *mut c_void)>,
    compare: Option<
        unsafe extern "C" fn(
            state: *mut c_void,
            a: *const c_char,
            alen: size_t,
            b: *const c_char,
            blen: size_t,
        ) -> c_int,
    >,
    name: Option<unsafe extern "C" fn(state: *mut c_void) -> *const c_char>,
) -> *mut leveldb_comparator_t {
    quiet(std::ptr::null_mut(), || {
        let Some(compare) = compare else { return Ok(std::ptr::null_mut()) };
        let mine = Mine { state, destructor, name, named: OnceLock::new() };
        Ok(handle::open(Arc::new(Order { mine, compare })))
    })
}

/// Frees an order of keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_comparator_destroy(comparator: *mut leveldb_comparator_t) {
    // SAFETY: as everywhere.
    quiet((), || unsafe { Ok(handle::discard(comparator)?) });
}

/// What spares reads of tables without a key.
#[allow(non_camel_case_types, reason = "as C names it")]
pub struct leveldb_filterpolicy_t(Shell<Arc<Filters>>);
handle!(leveldb_filterpolicy_t, Arc<Filters>, "filter policy");

/// A filter that is built in, or the user's.
pub enum Filters {
    /// Bits a key of a Bloom filter.
    Bloom(u32),
    /// Functions of the user's.
    Custom(Arc<Policy>),
}

/// The user's filter.
pub struct Policy {
    mine: Mine,
    create_filter: CreateFilter,
    key_may_match: KeyMayMatch,
}

impl FilterPolicy for Policy {
    fn name(&self) -> &str {
        self.mine.name()
    }

    fn build(&self, keys: &[&[u8]]) -> Vec<u8> {
        let starts: Vec<*const c_char> = keys.iter().map(|key| start_of(key)).collect();
        let lengths: Vec<size_t> = keys.iter().map(|key| key.len()).collect();
        let mut length = 0;
        let count = c_int::try_from(keys.len()).unwrap_or(c_int::MAX);
        let (starts, lengths, state) = (starts.as_ptr(), lengths.as_ptr(), self.mine.state);
        // SAFETY: the user's function, with the state that belongs to it.
        let filter =
            unsafe { (self.create_filter)(state, starts, lengths, count, &raw mut length) };
        // SAFETY: it returns so many bytes, which it got of `malloc`, or NULL.
        let bytes = unsafe { slice(filter, length) }.to_vec();
        // SAFETY: as above.
        unsafe { free(filter.cast()) };
        bytes
    }

    fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
        let (at, length) = (start_of(filter), filter.len());
        let state = self.mine.state;
        // SAFETY: the user's function, with the state that belongs to it.
        unsafe { (self.key_may_match)(state, start_of(key), key.len(), at, length) != 0 }
    }
}

/// Makes a filter policy of functions: `create_filter` makes the filter of some keys, which come in
/// order, with `malloc`; `key_may_match` returns 0 only if the key was not among them; `name` says
/// the name that tables keep. NULL without the first two.
///
/// They are called from any thread, by several at once (`create_filter` too), must not use the
/// database, and no C++ exception may leave them.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_create(
    state: *mut c_void,
    destructor: Option<unsafe extern "C" fn(state: *mut c_void)>,
    create_filter: Option<
        unsafe extern "C" fn(
            state: *mut c_void,
            key_array: *const *const c_char,
            key_length_array: *const size_t,
            num_keys: c_int,
            filter_length: *mut size_t,
        ) -> *mut c_char,
    >,
    key_may_match: Option<
        unsafe extern "C" fn(
            state: *mut c_void,
            key: *const c_char,
            length: size_t,
            filter: *const c_char,
            filter_length: size_t,
        ) -> u8,
    >,
    name: Option<unsafe extern "C" fn(state: *mut c_void) -> *const c_char>,
) -> *mut leveldb_filterpolicy_t {
    quiet(std::ptr::null_mut(), || {
        let (Some(create_filter), Some(key_may_match)) = (create_filter, key_may_match) else {
            return Ok(std::ptr::null_mut());
        };
        let mine = Mine { state, destructor, name, named: OnceLock::new() };
        let policy = Arc::new(Policy { mine, create_filter, key_may_match });
        Ok(handle::open(Arc::new(Filters::Custom(policy))))
    })
}

/// A Bloom filter of so many bits a key, from 1 to 64: what is beyond counts as the nearest.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_create_bloom(
    bits_per_key: c_int,
) -> *mut leveldb_filterpolicy_t {
    let bits = bits_per_key.clamp(1, 64).unsigned_abs();
    quiet(std::ptr::null_mut(), || Ok(handle::open(Arc::new(Filters::Bloom(bits)))))
}

/// Frees a filter policy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_filterpolicy_destroy(policy: *mut leveldb_filterpolicy_t) {
    // SAFETY: as everywhere.
    quiet((), || unsafe { Ok(handle::discard(policy)?) });
}

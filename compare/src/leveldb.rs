//! LevelDB: the library of the system, through its C interface.

use esker_bench::Outcome;
use esker_bench::machine::wait_until_idle;
use esker_bench::store::{Engine, Settings, Store, Walk};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::time::Instant;

/// The part of `leveldb/c.h` that is used. All its types are known by pointer only.
mod ffi {
    use super::{c_char, c_int, c_void};

    pub(super) type Ptr = *mut c_void;

    #[link(name = "leveldb")]
    unsafe extern "C" {
        pub(super) fn leveldb_options_create() -> Ptr;
        pub(super) fn leveldb_options_destroy(options: Ptr);
        pub(super) fn leveldb_options_set_create_if_missing(options: Ptr, value: u8);
        pub(super) fn leveldb_options_set_write_buffer_size(options: Ptr, bytes: usize);
        pub(super) fn leveldb_options_set_block_size(options: Ptr, bytes: usize);
        pub(super) fn leveldb_options_set_cache(options: Ptr, cache: Ptr);
        pub(super) fn leveldb_options_set_filter_policy(options: Ptr, policy: Ptr);
        pub(super) fn leveldb_options_set_compression(options: Ptr, codec: c_int);
        pub(super) fn leveldb_options_set_max_open_files(options: Ptr, files: c_int);
        pub(super) fn leveldb_cache_create_lru(bytes: usize) -> Ptr;
        pub(super) fn leveldb_cache_destroy(cache: Ptr);
        pub(super) fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> Ptr;
        pub(super) fn leveldb_filterpolicy_destroy(policy: Ptr);
        pub(super) fn leveldb_readoptions_create() -> Ptr;
        pub(super) fn leveldb_readoptions_destroy(options: Ptr);
        pub(super) fn leveldb_readoptions_set_verify_checksums(options: Ptr, value: u8);
        pub(super) fn leveldb_writeoptions_create() -> Ptr;
        pub(super) fn leveldb_writeoptions_destroy(options: Ptr);
        pub(super) fn leveldb_writeoptions_set_sync(options: Ptr, value: u8);
        pub(super) fn leveldb_open(
            options: Ptr,
            name: *const c_char,
            error: *mut *mut c_char,
        ) -> Ptr;
        pub(super) fn leveldb_close(db: Ptr);
        pub(super) fn leveldb_put(
            db: Ptr,
            options: Ptr,
            key: *const u8,
            key_bytes: usize,
            value: *const u8,
            value_bytes: usize,
            error: *mut *mut c_char,
        );
        pub(super) fn leveldb_writebatch_create() -> Ptr;
        pub(super) fn leveldb_writebatch_destroy(batch: Ptr);
        pub(super) fn leveldb_write(db: Ptr, options: Ptr, batch: Ptr, error: *mut *mut c_char);
        pub(super) fn leveldb_delete(
            db: Ptr,
            options: Ptr,
            key: *const u8,
            key_bytes: usize,
            error: *mut *mut c_char,
        );
        pub(super) fn leveldb_get(
            db: Ptr,
            options: Ptr,
            key: *const u8,
            key_bytes: usize,
            value_bytes: *mut usize,
            error: *mut *mut c_char,
        ) -> *mut u8;
        pub(super) fn leveldb_compact_range(
            db: Ptr,
            start: *const u8,
            start_bytes: usize,
            end: *const u8,
            end_bytes: usize,
        );
        pub(super) fn leveldb_create_iterator(db: Ptr, options: Ptr) -> Ptr;
        pub(super) fn leveldb_iter_destroy(iterator: Ptr);
        pub(super) fn leveldb_iter_valid(iterator: Ptr) -> u8;
        pub(super) fn leveldb_iter_seek_to_first(iterator: Ptr);
        pub(super) fn leveldb_iter_seek_to_last(iterator: Ptr);
        pub(super) fn leveldb_iter_seek(iterator: Ptr, key: *const u8, key_bytes: usize);
        pub(super) fn leveldb_iter_next(iterator: Ptr);
        pub(super) fn leveldb_iter_prev(iterator: Ptr);
        pub(super) fn leveldb_iter_key(iterator: Ptr, bytes: *mut usize) -> *const u8;
        pub(super) fn leveldb_iter_value(iterator: Ptr, bytes: *mut usize) -> *const u8;
        pub(super) fn leveldb_iter_get_error(iterator: Ptr, error: *mut *mut c_char);
        pub(super) fn leveldb_free(pointer: *mut c_void);
    }
}

/// Open files; more than any run has.
const OPEN_FILES_MAX: c_int = 10_000;

/// LevelDB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LevelDb;

struct LevelDbStore {
    db: ffi::Ptr,
    cache: ffi::Ptr,
    policy: ffi::Ptr,
    reading: ffi::Ptr,
    writing: ffi::Ptr,
    writing_synced: ffi::Ptr,
}

// SAFETY: LevelDB's objects may be used from any thread, and these are not changed once they are
// made.
unsafe impl Send for LevelDbStore {}
// SAFETY: as above.
unsafe impl Sync for LevelDbStore {}

/// Calls something that reports its error through a pointer.
fn checked<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> Outcome<T> {
    let mut error = null_mut();
    let result = call(&raw mut error);
    if error.is_null() {
        return Ok(result);
    }
    // SAFETY: a message that is not null is a string that is the caller's to free.
    let text = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
    // SAFETY: as above; not used after.
    unsafe { ffi::leveldb_free(error.cast()) };
    Err(text.into())
}

impl Engine for LevelDb {
    fn name(&self) -> String {
        "leveldb".to_owned()
    }

    fn setup(&self, settings: &Settings) -> String {
        format!(
            "the system's library through its C interface, which was built without the processor's instructions for \
             checksums: {}, {}, checksums verified, two memtables and one thread in the background, as it always has",
            settings.codec("Snappy"),
            settings.filter("Bloom filters")
        )
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
        let name = CString::new(dir.as_os_str().as_bytes())?;
        // SAFETY: objects are made, used while they are there, and destroyed when they are not
        // needed any more.
        unsafe {
            let cache = ffi::leveldb_cache_create_lru(settings.cache_bytes as usize);
            let bits = settings.filter_bits_per_key as c_int;
            let policy =
                if bits > 0 { ffi::leveldb_filterpolicy_create_bloom(bits) } else { null_mut() };
            let options = ffi::leveldb_options_create();
            ffi::leveldb_options_set_create_if_missing(options, u8::from(!settings.existing));
            ffi::leveldb_options_set_write_buffer_size(options, settings.memtable_bytes as usize);
            ffi::leveldb_options_set_block_size(options, settings.block_bytes as usize);
            ffi::leveldb_options_set_cache(options, cache);
            if !policy.is_null() {
                ffi::leveldb_options_set_filter_policy(options, policy);
            }
            ffi::leveldb_options_set_compression(options, c_int::from(settings.compression));
            ffi::leveldb_options_set_max_open_files(options, OPEN_FILES_MAX);
            let db = checked(|error| ffi::leveldb_open(options, name.as_ptr(), error));
            ffi::leveldb_options_destroy(options);
            let db = db?;
            let reading = ffi::leveldb_readoptions_create();
            ffi::leveldb_readoptions_set_verify_checksums(reading, 1);
            let writing_synced = ffi::leveldb_writeoptions_create();
            ffi::leveldb_writeoptions_set_sync(writing_synced, 1);
            let writing = ffi::leveldb_writeoptions_create();
            Ok(Box::new(LevelDbStore { db, cache, policy, reading, writing, writing_synced }))
        }
    }
}

impl Store for LevelDbStore {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Outcome<()> {
        let options = if sync { self.writing_synced } else { self.writing };
        let (k, v) = (key.as_ptr(), value.as_ptr());
        // SAFETY: pointers and lengths are of slices, which are copied.
        checked(|error| unsafe {
            ffi::leveldb_put(self.db, options, k, key.len(), v, value.len(), error);
        })
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let mut bytes = 0;
        // SAFETY: as above.
        let value = checked(|error| unsafe {
            ffi::leveldb_get(self.db, self.reading, key.as_ptr(), key.len(), &raw mut bytes, error)
        })?;
        if value.is_null() {
            return Ok(false);
        }
        // SAFETY: a value that was found has this length and is the caller's to free.
        see(unsafe { std::slice::from_raw_parts(value, bytes) });
        // SAFETY: as above; not used after.
        unsafe { ffi::leveldb_free(value.cast()) };
        Ok(true)
    }

    fn delete(&self, key: &[u8], sync: bool) -> Outcome<()> {
        let options = if sync { self.writing_synced } else { self.writing };
        // SAFETY: as above.
        checked(|error| unsafe {
            ffi::leveldb_delete(self.db, options, key.as_ptr(), key.len(), error);
        })
    }

    fn walk(&self, walk: Walk<'_>, see: &mut dyn FnMut(&[u8], &[u8])) -> Outcome<u64> {
        // SAFETY: the iterator is used by this thread alone, asked for an item only where it stands
        // on one, and an item is used before the iterator moves.
        unsafe {
            let at = ffi::leveldb_create_iterator(self.db, self.reading);
            let item = || {
                let (mut key_bytes, mut value_bytes) = (0, 0);
                let key = ffi::leveldb_iter_key(at, &raw mut key_bytes);
                let value = ffi::leveldb_iter_value(at, &raw mut value_bytes);
                (
                    std::slice::from_raw_parts(key, key_bytes),
                    std::slice::from_raw_parts(value, value_bytes),
                )
            };
            match (walk.from, walk.backwards) {
                (Some(key), false) => ffi::leveldb_iter_seek(at, key.as_ptr(), key.len()),
                (Some(key), true) => {
                    ffi::leveldb_iter_seek(at, key.as_ptr(), key.len());
                    if ffi::leveldb_iter_valid(at) == 0 {
                        ffi::leveldb_iter_seek_to_last(at);
                    } else if item().0 != key {
                        ffi::leveldb_iter_prev(at);
                    }
                }
                (None, false) => ffi::leveldb_iter_seek_to_first(at),
                (None, true) => ffi::leveldb_iter_seek_to_last(at),
            }
            let mut seen = 0;
            while seen < walk.records_max && ffi::leveldb_iter_valid(at) != 0 {
                let (key, value) = item();
                see(key, value);
                seen += 1;
                if seen == walk.records_max {
                    break;
                }
                if walk.backwards {
                    ffi::leveldb_iter_prev(at);
                } else {
                    ffi::leveldb_iter_next(at);
                }
            }
            let ended = checked(|error| ffi::leveldb_iter_get_error(at, error));
            ffi::leveldb_iter_destroy(at);
            ended.map(|()| seen)
        }
    }

    fn settle(&self) -> Outcome<Option<Instant>> {
        // It cannot be asked. Its memtable stays as it is, as it does for whoever uses it.
        let since = wait_until_idle();
        // What has failed in the background is told to who writes.
        // SAFETY: the batch is made and destroyed here.
        checked(|error| unsafe {
            let batch = ffi::leveldb_writebatch_create();
            ffi::leveldb_write(self.db, self.writing, batch, error);
            ffi::leveldb_writebatch_destroy(batch);
        })?;
        Ok(Some(since))
    }

    fn compact(&self) -> Outcome<()> {
        // SAFETY: null is before and after all keys.
        unsafe { ffi::leveldb_compact_range(self.db, null(), 0, null(), 0) };
        Ok(())
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(())
    }
}

impl Drop for LevelDbStore {
    fn drop(&mut self) {
        // SAFETY: nothing is used after; the store goes before what it uses.
        unsafe {
            ffi::leveldb_close(self.db);
            ffi::leveldb_cache_destroy(self.cache);
            if !self.policy.is_null() {
                ffi::leveldb_filterpolicy_destroy(self.policy);
            }
            ffi::leveldb_readoptions_destroy(self.reading);
            ffi::leveldb_writeoptions_destroy(self.writing);
            ffi::leveldb_writeoptions_destroy(self.writing_synced);
        }
    }
}

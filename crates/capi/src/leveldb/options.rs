//! Options, caches and environments, and what LevelDB's options come to in Esker.

use super::policy::{Filters, Order, leveldb_comparator_t, leveldb_filterpolicy_t};
use super::snapshot::leveldb_snapshot_t;
use super::status::{Outcome, Status, quiet, report};
use crate::boundary::text_out;
use crate::fork::Own;
use crate::handle::{self, Handle, Shell, handle};
use esker::{Compression, Filter, KeyOrder, KeyspaceOptions, Options, Snapshot, WriteOptions};
use libc::{c_char, c_int, size_t};
use std::ffi::CStr;
use std::sync::{Arc, Weak};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Bytes of blocks that are cached if no cache is given, as in LevelDB.
const CACHE_BYTES: u64 = 8 * MIB;

/// More is no machine's memory: a program that gives the largest number there is means that it does
/// not care.
const CACHE_BYTES_MAX: u64 = 1 << 50;

/// Threads that compact. LevelDB has one for all its work; ours flushes, makes logs and memory
/// ready and builds indexes on one thread each.
const COMPACTION_THREADS: u32 = 1;

/// Bytes of indexes and filters that stay in memory at least, which LevelDB does not count.
const PINNED_BYTES_MIN: u64 = 32 * MIB;

/// How to open a database.
#[allow(non_camel_case_types, reason = "as C names it")]
pub struct leveldb_options_t(Shell<OpenOptions>);
handle!(leveldb_options_t, OpenOptions, "options");

/// LevelDB's options, with its defaults, and settings of Esker.
pub struct OpenOptions {
    comparator: Option<Weak<Order>>,
    filter: Option<Weak<Filters>>,
    create_if_missing: bool,
    error_if_exists: bool,
    write_buffer_bytes: u64,
    open_files_max: c_int,
    cache_bytes: Option<u64>,
    block_bytes: u64,
    restart_interval: c_int,
    file_bytes: Option<u64>,
    compression: c_int,
    /// One `name=value` each.
    settings: Vec<String>,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            comparator: None,
            filter: None,
            create_if_missing: false,
            error_if_exists: false,
            write_buffer_bytes: 4 * MIB,
            open_files_max: 1_000,
            cache_bytes: None,
            block_bytes: 4 * KIB,
            restart_interval: 16,
            file_bytes: None,
            compression: leveldb_snappy_compression,
            settings: Vec::new(),
        }
    }
}

impl OpenOptions {
    /// The engine's options: LevelDB's first, then what was set by name.
    pub(super) fn engine(&self) -> Outcome<Options> {
        let mut options = self.translated()?;
        if !self.settings.is_empty() {
            esker_settings::apply_each(&mut options, &self.settings)?;
        }
        // All keyspaces have one comparator: there is one to give.
        for keyspace in options.keyspaces.values_mut() {
            keyspace.order = options.default_keyspace.order.clone();
        }
        Ok(options)
    }

    pub(super) fn creates(&self) -> bool {
        self.create_if_missing
    }

    pub(super) fn refuses_existing(&self) -> bool {
        self.error_if_exists
    }

    /// Sizes beyond what is allowed count as the nearest that is, as in LevelDB.
    fn translated(&self) -> Outcome<Options> {
        let memtable_bytes = self.write_buffer_bytes.clamp(64 * KIB, GIB);
        let memtables_bytes_max = (4 * memtable_bytes).max(MIB);
        let cache_bytes = self.cache_bytes.unwrap_or(CACHE_BYTES).min(CACHE_BYTES_MAX);
        // What the cache leaves is for indexes and filters, run indexes too; an eighth of what
        // memtables leave is for compactions.
        let blocks = cache_bytes.saturating_add(cache_bytes.max(PINNED_BYTES_MIN));
        let budget = blocks.saturating_add(blocks / 7).saturating_add(memtables_bytes_max);
        let table_bytes = self.file_bytes.unwrap_or(memtable_bytes.max(2 * MIB));
        let default_keyspace = KeyspaceOptions {
            memtable_bytes,
            block_bytes: self.block_bytes.clamp(KIB, MIB) as u32,
            restart_interval: self.restart_interval.clamp(1, 256).unsigned_abs(),
            table_bytes_max: table_bytes.clamp(MIB, GIB),
            level_base_bytes: 4 * memtable_bytes,
            compression: vec![if self.compression == leveldb_no_compression {
                Compression::None
            } else {
                Compression::Lz4
            }],
            filter: self.filter()?,
            order: self.order()?,
            ..KeyspaceOptions::default()
        };
        Ok(Options {
            create_if_missing: self.create_if_missing,
            error_if_exists: self.error_if_exists,
            memory_budget_bytes: budget.max(4 * MIB),
            memtables_bytes_max,
            block_cache_bytes: Some(cache_bytes),
            compaction_threads: COMPACTION_THREADS,
            open_files_max: self.open_files_max.clamp(16, 50_000).unsigned_abs(),
            default_keyspace,
            ..Options::default()
        })
    }

    fn order(&self) -> Outcome<KeyOrder> {
        let Some(order) = &self.comparator else { return Ok(KeyOrder::Bytewise) };
        let order = order.upgrade();
        let order = order.ok_or_else(|| Status::invalid("the comparator was destroyed"))?;
        Ok(KeyOrder::Custom(order))
    }

    fn filter(&self) -> Outcome<Filter> {
        let Some(filter) = &self.filter else { return Ok(KeyspaceOptions::default().filter) };
        let filter = filter.upgrade();
        let filter = filter.ok_or_else(|| Status::invalid("the filter policy was destroyed"))?;
        Ok(match &*filter {
            Filters::Bloom(bits_per_key) => Filter::Bloom { bits_per_key: *bits_per_key },
            Filters::Custom(policy) => Filter::Custom(policy.clone()),
        })
    }
}

/// Makes options with LevelDB's defaults.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_create() -> *mut leveldb_options_t {
    quiet(std::ptr::null_mut(), || Ok(handle::open(OpenOptions::default())))
}

/// Frees options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_destroy(options: *mut leveldb_options_t) {
    // SAFETY: pointers are what the interface asks for; the same holds for every function of it.
    quiet((), || unsafe { Ok(handle::discard(options)?) });
}

/// What an option leads to: nothing for NULL; for a handle that was closed, what is gone already,
/// so that whoever uses the options is refused.
///
/// # Safety
/// As for `handle::get`.
unsafe fn given<H: Handle<Content = Arc<T>>, T>(handle: *const H) -> Option<Weak<T>> {
    if handle.is_null() {
        return None;
    }
    // SAFETY: as the caller says.
    Some(unsafe { handle::get(handle) }.map_or_else(|_| Weak::new(), Arc::downgrade))
}

/// # Safety
/// As everywhere.
unsafe fn set(options: *mut leveldb_options_t, set: impl FnOnce(&mut OpenOptions)) {
    // SAFETY: as the caller says.
    quiet((), || unsafe {
        set(handle::get_mut(options)?);
        Ok(())
    });
}

/// The order of keys; NULL is the order of their bytes. A database keeps the order that it was made
/// with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_comparator(
    options: *mut leveldb_options_t,
    comparator: *mut leveldb_comparator_t,
) {
    // SAFETY: as everywhere.
    unsafe {
        let order = given(comparator);
        set(options, |options| options.comparator = order);
    }
}

/// What spares reads of tables without a key; NULL is a Bloom filter of 10 bits a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_filter_policy(
    options: *mut leveldb_options_t,
    policy: *mut leveldb_filterpolicy_t,
) {
    // SAFETY: as everywhere.
    unsafe {
        let filter = given(policy);
        set(options, |options| options.filter = filter);
    }
}

/// Make the database if there is none. Default: 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_create_if_missing(
    options: *mut leveldb_options_t,
    on: u8,
) {
    // SAFETY: as everywhere.
    unsafe { set(options, |options| options.create_if_missing = on != 0) };
}

/// Refuse a database that exists. Default: 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_error_if_exists(
    options: *mut leveldb_options_t,
    on: u8,
) {
    // SAFETY: as everywhere.
    unsafe { set(options, |options| options.error_if_exists = on != 0) };
}

/// Nothing that can be turned off: all checks are always made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_paranoid_checks(
    options: *mut leveldb_options_t,
    on: u8,
) {
    let _ = (options, on);
}

/// There is one environment, the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_env(
    options: *mut leveldb_options_t,
    env: *mut leveldb_env_t,
) {
    let _ = (options, env);
}

/// There is no log of messages; what happens in the background `leveldb_property_value` tells.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_info_log(
    options: *mut leveldb_options_t,
    log: *mut leveldb_logger_t,
) {
    let _ = (options, log);
}

/// Bytes of a memtable. Default: 4 MiB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_write_buffer_size(
    options: *mut leveldb_options_t,
    bytes: size_t,
) {
    // SAFETY: as everywhere.
    unsafe { set(options, |options| options.write_buffer_bytes = bytes as u64) };
}

/// Tables that are open at once. Default: 1000.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_max_open_files(
    options: *mut leveldb_options_t,
    files: c_int,
) {
    // SAFETY: as everywhere.
    unsafe { set(options, |options| options.open_files_max = files) };
}

/// How much a database caches: as much as this cache may hold, for each database. NULL is 8 MiB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_cache(
    options: *mut leveldb_options_t,
    cache: *mut leveldb_cache_t,
) {
    // SAFETY: as everywhere.
    unsafe {
        let bytes = handle::get(cache).ok().copied();
        set(options, |options| options.cache_bytes = bytes);
    }
}

/// Bytes of a block before compression. Default: 4 KiB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_block_size(
    options: *mut leveldb_options_t,
    bytes: size_t,
) {
    // SAFETY: as everywhere.
    unsafe { set(options, |options| options.block_bytes = bytes as u64) };
}

/// Keys of a block between two that are stored whole. Default: 16.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_block_restart_interval(
    options: *mut leveldb_options_t,
    keys: c_int,
) {
    // SAFETY: as everywhere.
    unsafe { set(options, |options| options.restart_interval = keys) };
}

/// Bytes of a table. Default: 2 MiB, or those of a memtable if that is more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_max_file_size(
    options: *mut leveldb_options_t,
    bytes: size_t,
) {
    // SAFETY: as everywhere.
    unsafe { set(options, |options| options.file_bytes = Some(bytes as u64)) };
}

/// No compression of blocks.
#[allow(non_upper_case_globals, reason = "as C names it")]
pub const leveldb_no_compression: c_int = 0;

/// Fast compression of blocks: LZ4, here.
#[allow(non_upper_case_globals, reason = "as C names it")]
pub const leveldb_snappy_compression: c_int = 1;

/// How blocks are compressed: not, or fast, which is the default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_compression(
    options: *mut leveldb_options_t,
    compression: c_int,
) {
    // SAFETY: as everywhere.
    unsafe { set(options, |options| options.compression = compression) };
}

/// Sets any option of Esker by name, `name=value` with commas between: those of docs/c-api.md. They
/// count after LevelDB's, whichever comes first, and the last of a name counts.
///
/// Not LevelDB's. Errors, with nothing set: no such name; no value for it, or one out of range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_string(
    options: *mut leveldb_options_t,
    settings: *const c_char,
    errptr: *mut *mut c_char,
) {
    // SAFETY: as everywhere.
    unsafe {
        report(errptr, (), || {
            let options = handle::get_mut(options)?;
            let text = text_of(settings, "settings")?;
            let mut all = options.settings.clone();
            all.extend(esker_settings::split(text));
            let mut tried = options.translated()?;
            esker_settings::apply_each(&mut tried, &all)?;
            options.settings = all;
            Ok(())
        });
    }
}

/// Text that ends in a zero.
///
/// # Safety
/// `text` is NULL or such text.
pub(super) unsafe fn text_of<'a>(text: *const c_char, what: &str) -> Outcome<&'a str> {
    if text.is_null() {
        return Err(Status::invalid(&format!("the {what} are NULL")));
    }
    // SAFETY: as the caller says.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Status::invalid(&format!("the {what} are not UTF-8")))
}

/// How to read.
#[allow(non_camel_case_types, reason = "as C names it")]
pub struct leveldb_readoptions_t(Shell<ReadOptions>);
handle!(leveldb_readoptions_t, ReadOptions, "read options");

/// What a read is told.
pub struct ReadOptions {
    pub(super) fill_cache: bool,
    /// Does not keep it: what a released snapshot saw may go.
    snapshot: Option<Weak<Own<Snapshot>>>,
}

impl ReadOptions {
    /// The snapshot to read at; `None` is the present.
    ///
    /// # Errors
    /// It was released.
    #[inline]
    pub(super) fn snapshot(&self) -> Outcome<Option<Arc<Own<Snapshot>>>> {
        let Some(snapshot) = &self.snapshot else { return Ok(None) };
        let snapshot = snapshot.upgrade();
        let released = || {
            Status::invalid("the snapshot of the read options was released: set another, or NULL")
        };
        snapshot.map(Some).ok_or_else(released)
    }
}

/// Makes read options with LevelDB's defaults.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_create() -> *mut leveldb_readoptions_t {
    let options = ReadOptions { fill_cache: true, snapshot: None };
    quiet(std::ptr::null_mut(), || Ok(handle::open(options)))
}

/// Frees read options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_destroy(options: *mut leveldb_readoptions_t) {
    // SAFETY: as everywhere.
    quiet((), || unsafe { Ok(handle::discard(options)?) });
}

/// Nothing that can be turned off: checksums are always verified.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_set_verify_checksums(
    options: *mut leveldb_readoptions_t,
    on: u8,
) {
    let _ = (options, on);
}

/// Keep what an iterator reads in the cache. Default: 1. Gets always do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_set_fill_cache(
    options: *mut leveldb_readoptions_t,
    on: u8,
) {
    // SAFETY: as everywhere.
    quiet((), || unsafe {
        handle::get_mut(options)?.fill_cache = on != 0;
        Ok(())
    });
}

/// Read what a snapshot sees; NULL is the present. Once the snapshot is released, reads with these
/// options fail.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_set_snapshot(
    options: *mut leveldb_readoptions_t,
    snapshot: *const leveldb_snapshot_t,
) {
    // SAFETY: as everywhere.
    quiet((), || unsafe {
        handle::get_mut(options)?.snapshot = given(snapshot);
        Ok(())
    });
}

/// How to write.
#[allow(non_camel_case_types, reason = "as C names it")]
pub struct leveldb_writeoptions_t(Shell<WriteOptions>);
handle!(leveldb_writeoptions_t, WriteOptions, "write options");

/// Makes write options with LevelDB's defaults.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_create() -> *mut leveldb_writeoptions_t {
    quiet(std::ptr::null_mut(), || Ok(handle::open(WriteOptions::default())))
}

/// Frees write options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writeoptions_destroy(options: *mut leveldb_writeoptions_t) {
    // SAFETY: as everywhere.
    quiet((), || unsafe { Ok(handle::discard(options)?) });
}

/// Return from a write only when it, and every write before it, is on stable storage. Default: 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writeoptions_set_sync(
    options: *mut leveldb_writeoptions_t,
    on: u8,
) {
    // SAFETY: as everywhere.
    quiet((), || unsafe {
        handle::get_mut(options)?.sync = on != 0;
        Ok(())
    });
}

/// A size that databases take for their caches.
#[allow(non_camel_case_types, reason = "as C names it")]
pub struct leveldb_cache_t(Shell<u64>);
handle!(leveldb_cache_t, u64, "cache");

/// Makes a cache of so many bytes, which each database that is opened with it has for itself.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_cache_create_lru(capacity: size_t) -> *mut leveldb_cache_t {
    quiet(std::ptr::null_mut(), || Ok(handle::open(capacity as u64)))
}

/// Frees a cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_cache_destroy(cache: *mut leveldb_cache_t) {
    // SAFETY: as everywhere.
    quiet((), || unsafe { Ok(handle::discard(cache)?) });
}

/// The system: files, clock, threads.
#[allow(non_camel_case_types, reason = "as C names it")]
pub struct leveldb_env_t(Shell<()>);
handle!(leveldb_env_t, (), "environment");

/// Where messages would go; nothing makes one.
#[allow(non_camel_case_types, reason = "as C names it")]
pub struct leveldb_logger_t {
    _private: [u8; 0],
}

/// The environment, which is always the system's.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_create_default_env() -> *mut leveldb_env_t {
    quiet(std::ptr::null_mut(), || Ok(handle::open(())))
}

/// Frees an environment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_env_destroy(env: *mut leveldb_env_t) {
    // SAFETY: as everywhere.
    quiet((), || unsafe { Ok(handle::discard(env)?) });
}

/// A directory for tests, which is made if it is not there: what the variable `TEST_TMPDIR` says,
/// or one of this user's in the system's directory for such. To be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_env_get_test_directory(env: *mut leveldb_env_t) -> *mut c_char {
    // SAFETY: as everywhere.
    quiet(std::ptr::null_mut(), || unsafe {
        handle::get(env.cast_const())?;
        let dir = match std::env::var("TEST_TMPDIR") {
            Ok(dir) if !dir.is_empty() => dir,
            _ => format!("/tmp/leveldbtest-{}", libc::geteuid()),
        };
        // It may be there already; whoever cannot write to it is told so then.
        let _ = std::fs::create_dir(&dir);
        Ok(text_out(&dir))
    })
}

//! What a call through the C interfaces costs beside the same call in Rust, on the same store.
//!
//! `cargo run --release -p esker-capi --example overhead -- [DIR]`; DIR, which must not exist, is
//! best on a file system in memory. Rounds of all variants take turns, and the medians of their
//! times a call are compared. A value that is got is looked at and freed within the time, as a
//! program would.

use esker::Db;
use esker_leveldb::{leveldb, native};
use std::ffi::{CString, c_char, c_void};
use std::hint::black_box;
use std::path::PathBuf;
use std::ptr::{null, null_mut};
use std::time::Instant;

const KEYS: u64 = 100_000;
const CALLS: u64 = 2_000;
const ROUNDS: usize = 1_501;
const VALUE: [u8; 100] = [b'v'; 100];

/// A call with a key.
type Call<'a> = Box<dyn Fn(&[u8; 16]) + 'a>;

/// The calls of one variant: `put` and `get` of the key with a number.
struct Variant<'a> {
    name: &'static str,
    put: Call<'a>,
    get: Call<'a>,
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    let digits = (number % KEYS).to_string();
    key[16 - digits.len()..].copy_from_slice(digits.as_bytes());
    key
}

fn rust(db: &Db) -> Variant<'_> {
    Variant {
        name: "Rust",
        put: Box::new(move |key| black_box(db).put(key, &VALUE).expect("put")),
        get: Box::new(move |key| {
            let value = black_box(db).get(key).expect("get").expect("there");
            assert!(black_box(&*value) == VALUE);
        }),
    }
}

fn through_leveldb<'a>(db: *mut leveldb::leveldb_t) -> Variant<'a> {
    // Pointers to functions, so that nothing of them is compiled into the loop.
    let (put, get) = (
        black_box(leveldb::leveldb_put as *const ()),
        black_box(leveldb::leveldb_get as *const ()),
    );
    // SAFETY: these are the functions whose addresses were taken.
    let (put, get) = unsafe {
        (
            std::mem::transmute::<*const (), LeveldbPut>(put),
            std::mem::transmute::<*const (), LeveldbGet>(get),
        )
    };
    let (writes, reads) =
        (leveldb::leveldb_writeoptions_create(), leveldb::leveldb_readoptions_create());
    Variant {
        name: "leveldb/c.h",
        put: Box::new(move |key| {
            let mut error = null_mut();
            // SAFETY: open handles, and bytes with their lengths.
            unsafe {
                put(
                    db,
                    writes,
                    key.as_ptr().cast(),
                    16,
                    VALUE.as_ptr().cast(),
                    100,
                    &raw mut error,
                );
            };
            assert!(error.is_null());
        }),
        get: Box::new(move |key| {
            let (mut error, mut length) = (null_mut(), 0);
            // SAFETY: as above; what is returned is freed once.
            unsafe {
                let value =
                    get(db, reads, key.as_ptr().cast(), 16, &raw mut length, &raw mut error);
                assert!(std::slice::from_raw_parts(black_box(value).cast::<u8>(), length) == VALUE);
                leveldb::leveldb_free(value.cast());
            }
        }),
    }
}

type LeveldbPut = unsafe extern "C" fn(
    *mut leveldb::leveldb_t,
    *const leveldb::leveldb_writeoptions_t,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *mut *mut c_char,
);
type LeveldbGet = unsafe extern "C" fn(
    *mut leveldb::leveldb_t,
    *const leveldb::leveldb_readoptions_t,
    *const c_char,
    usize,
    *mut usize,
    *mut *mut c_char,
) -> *mut c_char;
type EskerPut = unsafe extern "C" fn(
    *const native::esker_keyspace,
    *const c_void,
    usize,
    *const c_void,
    usize,
) -> native::esker_code;
type EskerGet = unsafe extern "C" fn(
    *const native::esker_keyspace,
    *const native::esker_snapshot,
    *const c_void,
    usize,
    *mut native::esker_slice,
) -> native::esker_code;

fn through_esker<'a>(keyspace: *mut native::esker_keyspace) -> Variant<'a> {
    let (put, get) =
        (black_box(native::esker_put as *const ()), black_box(native::esker_get as *const ()));
    // SAFETY: these are the functions whose addresses were taken.
    let (put, get) = unsafe {
        (
            std::mem::transmute::<*const (), EskerPut>(put),
            std::mem::transmute::<*const (), EskerGet>(get),
        )
    };
    Variant {
        name: "esker.h",
        put: Box::new(move |key| {
            // SAFETY: an open handle, and bytes with their lengths.
            let code =
                unsafe { put(keyspace, key.as_ptr().cast(), 16, VALUE.as_ptr().cast(), 100) };
            assert!(code == native::esker_code::ESKER_OK);
        }),
        get: Box::new(move |key| {
            let mut value = native::esker_slice { data: null_mut(), len: 0 };
            // SAFETY: as above; what is returned is freed once.
            unsafe {
                let code = get(keyspace, null(), key.as_ptr().cast(), 16, &raw mut value);
                assert!(code == native::esker_code::ESKER_OK);
                let bytes =
                    std::slice::from_raw_parts(black_box(value.data).cast::<u8>(), value.len);
                assert!(bytes == VALUE);
                native::esker_free(value.data.cast());
            }
        }),
    }
}

#[expect(clippy::disallowed_methods, reason = "this measures")]
fn time_ns(calls: impl Fn()) -> f64 {
    let start = Instant::now();
    calls();
    start.elapsed().as_nanos() as f64 / CALLS as f64
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Times a call, for each variant, with rounds that take turns.
fn compare(what: &str, variants: &[Variant<'_>], call: impl Fn(&Variant<'_>, &[u8; 16])) {
    let mut times = vec![Vec::with_capacity(ROUNDS); variants.len()];
    let mut state = 1u64;
    for round in 0..ROUNDS {
        for turn in 0..variants.len() {
            let nth = (round + turn) % variants.len();
            let keys: Vec<[u8; 16]> = (0..CALLS)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    key(state >> 33)
                })
                .collect();
            times[nth].push(time_ns(|| keys.iter().for_each(|key| call(&variants[nth], key))));
        }
    }
    for (variant, of_variant) in variants.iter().zip(&times) {
        // Of each round by itself: what else the machine does then, it does to both.
        let mut more: Vec<f64> =
            of_variant.iter().zip(&times[0]).map(|(c, rust)| c - rust).collect();
        let (ns, more) = (median(&mut of_variant.clone()), median(&mut more));
        println!("{what:<24} {:<12} {ns:7.1} ns {more:+7.1} ns", variant.name);
    }
}

/// All calls on one store, whose handle and Rust side are the two.
fn measure(db: &Db, through_c: impl Fn() -> Variant<'static>) {
    let variants = [rust(db), through_c()];
    for number in 0..KEYS {
        db.put(&key(number), &VALUE).expect("put");
    }
    compare("get, from a memtable", &variants, |variant, key| (variant.get)(key));
    compare("put", &variants, |variant, key| (variant.put)(key));
    db.default_keyspace().compact_range(None, None).expect("compact");
    db.wait_idle().expect("idle");
    compare("get, from a table", &variants, |variant, key| (variant.get)(key));
}

fn main() {
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let dir = given.unwrap_or_else(|| {
        let memory = PathBuf::from("/dev/shm");
        let place = if memory.is_dir() { memory } else { std::env::temp_dir() };
        place.join(format!("esker-overhead-{}", std::process::id()))
    });
    assert!(!dir.exists(), "{} is there already", dir.display());
    let name = CString::new(dir.display().to_string()).expect("a path without zeros");
    // Memtables so large that what is put stays there.
    let settings = c"memory_budget_bytes=2GiB,memtables_bytes_max=1GiB,memtable_bytes=256MiB,block_cache_bytes=512MiB";
    // SAFETY: handles are opened here and closed in their order; the text ends in a zero.
    unsafe {
        let mut error = null_mut();
        let options = leveldb::leveldb_options_create();
        leveldb::leveldb_options_set_create_if_missing(options, 1);
        leveldb::leveldb_options_set_string(options, settings.as_ptr(), &raw mut error);
        let db = leveldb::leveldb_open(options, name.as_ptr(), &raw mut error);
        assert!(error.is_null());
        let engine = leveldb::engine_of(db).expect("open");
        measure(&engine, || through_leveldb(db));
        drop(engine);
        leveldb::leveldb_close(db);
        leveldb::leveldb_destroy_db(options, name.as_ptr(), &raw mut error);
        leveldb::leveldb_options_destroy(options);

        let (mut db, mut keyspace) = (null_mut(), null_mut());
        native::esker_open(name.as_ptr(), settings.as_ptr(), &raw mut db);
        native::esker_default_keyspace(db, &raw mut keyspace);
        let engine = native::engine_of(db).expect("open");
        measure(&engine, || through_esker(keyspace));
        drop(engine);
        native::esker_keyspace_close(keyspace);
        native::esker_close(db);
        native::esker_destroy(name.as_ptr());
    }
}

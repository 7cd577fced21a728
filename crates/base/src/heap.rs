//! Memory for what caches hold: parts of a few KiB, many of them, in huge pages.
//!
//! The allocator of a process puts cached blocks into pages of 4 KiB. A processor remembers where
//! some two thousand of those are; in a cache of gigabytes nearly every access then waits for a
//! walk through page tables before it waits for memory. A [`Heap`] takes one range of addresses,
//! for which it asks the kernel for pages of 2 MiB, and places what it is asked for in there.
//!
//! Placing is TLSF's (crate `rlsf`; Masmano and others, 2004): a good fit in constant time, free
//! neighbours joined. It keeps what is free in lists of sizes, and for a part looks in those whose
//! every hole is large enough: a hole of just the right size is in the list below and not seen. So
//! parts are made a little larger, as large as the least hole of their list: whoever leaves makes
//! room for the next of about this size.
//!
//! The first touch of a huge page has the kernel zero it, and in a virtual machine the host find
//! it: 0.2 to 13 milliseconds. So whoever takes a chunk of the range says so, and a thread that may
//! wait touches the next one ([`Heap::make_ready`]). Parts that can be had again need not wait for
//! that thread either: those of an [impatient](Heap::impatient) heap come from the global allocator
//! meanwhile, and say that they are in passing, so that nobody keeps them.
//!
//! Invariants: (1) what does not fit into the range comes from the global allocator, and everything
//! goes back where it came from; (2) the range stays mapped while any of it is in use, whoever
//! holds it; (3) parts are in passing only while a thread has promised to make the next chunk
//! ready.
//! Threads: any. A range has a few stripes with a lock each; a thread takes from its own stripe,
//! and what it frees goes back to the stripe it came from. What others have free and do not hold is
//! used before the range is asked for more, since threads come and go. No other lock is taken under
//! one of these. Sanitizers and model checkers shall see each part by itself: under them there is
//! no range.

mod boxed;
mod shared;

pub use boxed::HeapBox;
pub use shared::SharedBytes;

use crate::pages::{prefer_huge, touch};
use crate::sync::{CHECKED, Mutex, OnceLock};
use rlsf::{GRANULARITY, Tlsf};
use rustix::mm::{MapFlags, ProtFlags};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What a stripe takes of the range at a time, and the size of a huge page.
const CHUNK_BYTES: usize = 2 << 20;
/// The range's first chunks stay in small pages, so that a small store stays small.
const SMALL_PAGES_BYTES: usize = 8 << 20;
/// Larger parts would leave holes; there are few of them.
const PART_BYTES_MAX: usize = 256 << 10;
/// A range has a stripe for each of these, and between one and [`STRIPES_MAX`].
const STRIPE_BYTES: u64 = 64 << 20;
const STRIPES_MAX: u64 = 16;
/// Lists of free holes between a power of two and the next.
const LISTS: usize = 32;
/// What precedes a part in its stripe.
const STRIPE_HEAD_BYTES: usize = GRANULARITY / 2;
/// More than any cache; addresses are no memory, but there is an end to them.
const RANGE_BYTES_MAX: u64 = 1 << 40;

const HAS_RANGE: bool = !(CHECKED || cfg!(any(esker_asan, esker_tsan)));

/// A source of memory. Cheap to clone; parts may outlive it.
#[derive(Clone)]
pub struct Heap {
    range: Option<Arc<Range>>,
    is_impatient: bool,
}

/// One range of addresses.
struct Range {
    /// First chunk, aligned to its size.
    start: NonNull<u8>,
    chunks: usize,
    /// Chunks taken so far.
    taken: AtomicUsize,
    /// One more than the number of a chunk that was taken and touched, and is in no stripe yet; 0
    /// if there is none.
    ready: AtomicUsize,
    /// A thread has promised to make the next chunk ready.
    is_promised: AtomicBool,
    listener: OnceLock<Box<Listener>>,
    stripes: Box<[Stripe]>,
    mapped: NonNull<u8>,
    mapped_bytes: usize,
}

// SAFETY: the addresses name memory that belongs to the range; what is in it is handed out once.
unsafe impl Send for Range {}
// SAFETY: as above, and all that changes is behind locks or atomic.
unsafe impl Sync for Range {}

/// A part of the range with a lock of its own.
#[repr(align(128))]
struct Stripe {
    pool: Mutex<Pool>,
    /// Of an [`Arc`]; the stripe owns one count of it while it has parts in use.
    range: *const Range,
}

struct Pool {
    free: Tlsf<'static, u32, u32, 18, LISTS>,
    in_use: usize,
}

/// Told when a stripe has taken a chunk; true is a promise to call [`Heap::make_ready`].
type Listener = dyn Fn() -> bool + Send + Sync;

/// Where a part came from: a stripe, or one of the two below.
#[derive(Clone, Copy, PartialEq)]
struct Home(*const Stripe);

/// The global allocator.
const GLOBAL: Home = Home(std::ptr::null());
/// The global allocator, since the next chunk is not ready.
const IN_PASSING: Home = Home(std::ptr::without_provenance(1));

impl Heap {
    /// Memory for a cache of `bytes`: a range of addresses half as long again, of which pages are
    /// taken as they are needed and kept until all that was taken is given back.
    ///
    /// Where the system gives no such range everything comes from the global allocator.
    pub fn new(bytes: u64) -> Heap {
        Heap { range: if HAS_RANGE { Range::map(bytes) } else { None }, is_impatient: false }
    }

    /// The global allocator.
    pub const fn global() -> Heap {
        Heap { range: None, is_impatient: false }
    }

    /// The same heap for parts that are better made anew than waited for: while a chunk is wanted
    /// that a thread has promised to make ready, they come from the global allocator and are
    /// [in passing](SharedBytes::is_in_passing).
    pub fn impatient(&self) -> Heap {
        Heap { range: self.range.clone(), is_impatient: true }
    }

    /// Bytes taken from the range so far, used or free.
    pub fn taken_bytes(&self) -> u64 {
        self.range.as_ref().map_or(0, |range| range.taken_chunks() as u64 * CHUNK_BYTES as u64)
    }

    /// Has `listener` called whenever a chunk was taken into use, by the thread that wanted memory.
    /// If it returns true, it promises that somebody will call [`Heap::make_ready`], or
    /// [`Heap::forget_promise`]. Only the first listener counts.
    pub fn listen(&self, listener: impl Fn() -> bool + Send + Sync + 'static) {
        if let Some(range) = &self.range {
            // Of two the first.
            let _ = range.listener.set(Box::new(listener));
        }
    }

    /// Touches the chunk that will be taken next, unless one is ready, or so few are taken that
    /// small pages do.
    ///
    /// # Cost
    /// Up to some ten milliseconds where the system must find the memory first.
    pub fn make_ready(&self) {
        if let Some(range) = &self.range {
            range.make_ready();
        }
        self.forget_promise();
    }

    /// Says that what was promised will not be done.
    pub fn forget_promise(&self) {
        if let Some(range) = &self.range {
            range.is_promised.store(false, Ordering::Release);
        }
    }

    /// Memory of `layout`, not initialized. Ends the process, like any allocation, if there is
    /// none.
    fn allocate(&self, layout: Layout) -> (NonNull<u8>, Home) {
        assert!(layout.size() > 0, "an empty part needs no memory");
        let mut home = GLOBAL;
        if let Some(range) = &self.range
            && layout.size() <= PART_BYTES_MAX
        {
            match range.allocate(layout, self.is_impatient) {
                Ok((part, stripe)) => return (part, Home(stripe)),
                Err(Refusal::NotYet) => home = IN_PASSING,
                Err(Refusal::Full) => {}
            }
        }
        // SAFETY: the size is not zero.
        let part = NonNull::new(unsafe { alloc(layout) });
        (part.unwrap_or_else(|| handle_alloc_error(layout)), home)
    }
}

impl Home {
    /// Gives a part back.
    ///
    /// # Safety
    /// It was allocated with this layout and came from here, and nobody uses it any more.
    unsafe fn free(self, part: NonNull<u8>, layout: Layout) {
        if self == GLOBAL || self == IN_PASSING {
            // SAFETY: from the global allocator, with this layout.
            unsafe { dealloc(part.as_ptr(), layout) };
        } else {
            // SAFETY: the part is in use, so that its range and with it the stripe exist.
            unsafe { Stripe::free(self.0, part, layout) };
        }
    }
}

/// Why a range gives no part.
enum Refusal {
    /// The next chunk is being made ready.
    NotYet,
    Full,
}

impl Range {
    fn map(bytes: u64) -> Option<Arc<Range>> {
        let bytes = (bytes / 2).saturating_mul(3).min(RANGE_BYTES_MAX) as usize;
        let chunks = bytes.div_ceil(CHUNK_BYTES);
        let mapped_bytes = (chunks + 1) * CHUNK_BYTES;
        // SAFETY: a fresh private mapping at an address the kernel chooses.
        let mapped = unsafe {
            let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            let flags = flags | MapFlags::NORESERVE;
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), mapped_bytes, prot, flags)
        };
        let mapped = NonNull::new(mapped.ok()?.cast::<u8>())?;
        let padding = mapped.as_ptr().align_offset(CHUNK_BYTES);
        // SAFETY: the mapping is a chunk longer than needed.
        let start = unsafe { mapped.add(padding) };
        let huge_bytes = (chunks * CHUNK_BYTES).saturating_sub(SMALL_PAGES_BYTES);
        if huge_bytes > 0 {
            // SAFETY: inside the mapping.
            unsafe { prefer_huge(start.as_ptr().add(SMALL_PAGES_BYTES), huge_bytes) };
        }
        let stripes = (bytes as u64 / STRIPE_BYTES).clamp(1, STRIPES_MAX);
        Some(Arc::new_cyclic(|range| Range {
            start,
            chunks,
            taken: AtomicUsize::new(0),
            ready: AtomicUsize::new(0),
            is_promised: AtomicBool::new(false),
            listener: OnceLock::new(),
            stripes: (0..stripes).map(|_| Stripe::new(range.as_ptr())).collect(),
            mapped,
            mapped_bytes,
        }))
    }

    /// From this thread's stripe, from one that nobody holds right now, from a new chunk for the
    /// first, and once the range is used up from any: threads that fill a cache do not wait for
    /// each other.
    fn allocate(
        self: &Arc<Range>,
        layout: Layout,
        is_impatient: bool,
    ) -> Result<(NonNull<u8>, &Stripe), Refusal> {
        let number = thread_number() % self.stripes.len();
        let own = &self.stripes[number];
        let others = || self.stripes[number + 1..].iter().chain(&self.stripes[..number]);
        if let Some(part) = own.pool.lock().allocate(self, layout) {
            return Ok((part, own));
        }
        let found = others().find_map(|it| Some((it.pool.try_lock()?.allocate(self, layout)?, it)));
        if let Some(found) = found {
            return Ok(found);
        }
        if is_impatient && self.will_be_ready() {
            return Err(Refusal::NotYet);
        }
        if let Some(part) = self.grow(own, layout) {
            return Ok((part, own));
        }
        let found = others().find_map(|it| Some((it.pool.lock().allocate(self, layout)?, it)));
        found.ok_or(Refusal::Full)
    }

    /// True if a chunk that is not ready will be.
    fn will_be_ready(&self) -> bool {
        self.is_promised.load(Ordering::Acquire) && self.ready.load(Ordering::Relaxed) == 0
    }

    fn make_ready(&self) {
        if self.ready.load(Ordering::Relaxed) > 0
            || self.taken_chunks() * CHUNK_BYTES < SMALL_PAGES_BYTES
        {
            return;
        }
        let Some(number) = self.take_number() else { return };
        // SAFETY: nobody else has the chunk.
        unsafe { touch(self.chunk(number).cast::<u8>().as_ptr(), CHUNK_BYTES) };
        // Of two that were made ready at once the first is put to use.
        if let Some(other) = number_of(self.ready.swap(number + 1, Ordering::AcqRel)) {
            let mut pool = self.stripes[0].pool.lock();
            // SAFETY: nobody else has the chunk, and it stays mapped as long as the stripe is
            // there.
            let _ = unsafe { pool.free.insert_free_block_ptr(self.chunk(other)) };
        }
    }

    fn taken_chunks(&self) -> usize {
        self.taken.load(Ordering::Relaxed).min(self.chunks)
    }

    fn grow(self: &Arc<Range>, stripe: &Stripe, layout: Layout) -> Option<NonNull<u8>> {
        let (part, has_grown) = stripe.grow(self, layout)?;
        if has_grown && let Some(listener) = self.listener.get() {
            // Before the listener is asked: who keeps the promise may be faster than this thread.
            self.is_promised.store(true, Ordering::Release);
            if !listener() {
                self.is_promised.store(false, Ordering::Release);
            }
        }
        Some(part)
    }

    /// The next chunk that nobody has: the one that is ready, if there is one.
    fn take_chunk(&self) -> Option<NonNull<[u8]>> {
        let ready = number_of(self.ready.swap(0, Ordering::AcqRel));
        Some(self.chunk(ready.or_else(|| self.take_number())?))
    }

    /// The number of the next chunk that was never taken.
    fn take_number(&self) -> Option<usize> {
        if self.taken_chunks() == self.chunks {
            return None;
        }
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        (number < self.chunks).then_some(number)
    }

    fn chunk(&self, number: usize) -> NonNull<[u8]> {
        assert!(number < self.chunks, "a chunk of the range");
        // SAFETY: inside the range.
        let chunk = unsafe { self.start.add(number * CHUNK_BYTES) };
        NonNull::slice_from_raw_parts(chunk, CHUNK_BYTES)
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        // SAFETY: mapped with this length by `map`; a part in use would hold the range.
        let unmapped =
            unsafe { rustix::mm::munmap(self.mapped.as_ptr().cast(), self.mapped_bytes) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping: {unmapped:?}");
    }
}

impl Stripe {
    fn new(range: *const Range) -> Stripe {
        Stripe { pool: Mutex::new(Pool { free: Tlsf::new(), in_use: 0 }), range }
    }

    /// A part after the stripe has taken more of the range; and false if that was not needed.
    fn grow(&self, range: &Arc<Range>, layout: Layout) -> Option<(NonNull<u8>, bool)> {
        let mut pool = self.pool.lock();
        // Another thread may have taken some meanwhile, or given a part back.
        if let Some(part) = pool.allocate(range, layout) {
            return Some((part, false));
        }
        let chunk = range.take_chunk()?;
        // SAFETY: nobody else has the chunk, and it stays mapped while the pool has parts in use.
        unsafe { pool.free.insert_free_block_ptr(chunk) }?;
        Some((pool.allocate(range, layout)?, true))
    }

    /// Takes a part back. The stripe may be gone afterwards, hence no reference to it.
    ///
    /// # Safety
    /// It came from this stripe with this layout, and nobody uses it any more.
    unsafe fn free(stripe: *const Stripe, part: NonNull<u8>, layout: Layout) {
        // SAFETY: while a part is in use its range exists.
        let (range, last) = unsafe {
            let Stripe { pool, range } = &*stripe;
            let mut pool = pool.lock();
            pool.free.deallocate(part, layout.align());
            pool.in_use -= 1;
            (*range, pool.in_use == 0)
        };
        if last {
            // SAFETY: the count that `allocate` left to the stripe.
            drop(unsafe { Arc::from_raw(range) });
        }
    }
}

impl Pool {
    fn allocate(&mut self, range: &Arc<Range>, layout: Layout) -> Option<NonNull<u8>> {
        let part = self.free.allocate(placed(layout))?;
        if self.in_use == 0 {
            // Owned by the stripe from now on.
            let _ = Arc::into_raw(range.clone());
        }
        self.in_use += 1;
        Some(part)
    }
}

/// What [`Range::ready`] says.
fn number_of(ready: usize) -> Option<usize> {
    ready.checked_sub(1)
}

/// The same, as much larger as makes it with its head the least of a list of holes: at most by a
/// part in [`LISTS`].
fn placed(layout: Layout) -> Layout {
    let whole = layout.size() + STRIPE_HEAD_BYTES;
    let step = ((1 << whole.ilog2()) / LISTS).max(GRANULARITY);
    let size = whole.next_multiple_of(step) - STRIPE_HEAD_BYTES;
    Layout::from_size_align(size, layout.align()).unwrap_or(layout)
}

/// Numbers threads as they come.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    std::thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.range {
            Some(range) => write!(f, "Heap({} of {} chunks)", range.taken_chunks(), range.chunks),
            None => write!(f, "Heap(global)"),
        }
    }
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests;

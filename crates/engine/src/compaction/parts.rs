//! Large compactions in parts: cut by key range, so that several threads merge at once.
//!
//! Each part is merged for itself into tables of its own. Together these are the tables of one run,
//! which one edit makes current: outside of a job nobody sees the parts.
//! Invariants: (1) parts stand in the order of keys, do not overlap and leave out no key; (2) a cut
//! stands between two user keys, so that all records of a key are in one part.
//! Threads: the one that has the job, and whichever [`Helpers`] bring. Without help it does all
//! parts itself, one after the other.
//! Source: RocksDB's subcompactions; differs: who helps is a compaction thread with nothing else to
//! do.

use crate::options::KeyspaceOptions;
use crate::version::{CompactionSpec, Table};
use esker_base::sync::{CHECKED, Mutex};
use esker_base::{Error, KeyOrder, Result};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// A part reads so many tables' worth of bytes: its last table is as a rule not full.
const PART_TABLES_MIN: u64 = 2;

/// A range of user keys, `end` not included. `None` is open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) start: Option<Arc<[u8]>>,
    pub(crate) end: Option<Arc<[u8]>>,
}

/// A piece of a table: the range of its keys, both ends included, and its bytes.
#[derive(Clone, Debug)]
struct Piece {
    first: Arc<[u8]>,
    last: Arc<[u8]>,
    bytes: u64,
}

/// Cuts a compaction into at most `parts_max` parts that read about the same. Never empty.
///
/// Cuts stand where tables and partitions of tables begin or end.
///
/// # Errors
/// Of the disk, and `Corruption`: a table could not be opened.
pub(crate) fn cut(
    spec: &CompactionSpec,
    options: &KeyspaceOptions,
    parts_max: usize,
) -> Result<Vec<Part>> {
    let part_bytes = part_bytes_min(options);
    let parts_max = parts_max.min((spec.input_bytes() / part_bytes) as usize);
    if parts_max < 2 {
        return Ok(vec![Part::default()]);
    }
    let mut pieces = Vec::new();
    for (_, table) in spec.tables() {
        add_pieces(table, &mut pieces)?;
    }
    Ok(between(cuts(&options.order, &pieces, parts_max, part_bytes / 2)))
}

/// Bytes that are worth a part.
fn part_bytes_min(options: &KeyspaceOptions) -> u64 {
    // The smallest tables that options allow are more than a model writes.
    if CHECKED { options.table_bytes_max / 8 } else { options.table_bytes_max * PART_TABLES_MIN }
}

/// Adds a table, piece by piece as its top index knows it.
fn add_pieces(table: &Arc<Table>, pieces: &mut Vec<Piece>) -> Result<()> {
    let reader = table.shared_reader()?;
    let mut first: Arc<[u8]> = table.meta.smallest[..].into();
    let mut at = 0;
    let mut partitions = reader.partitions().peekable();
    while let Some(partition) = partitions.next()
        && partitions.peek().is_some()
    {
        let (last, end): (Arc<[u8]>, u64) =
            (partition.separator.into(), partition.index.offset_bytes);
        pieces.push(Piece { first, last: last.clone(), bytes: end.saturating_sub(at) });
        (first, at) = (last, end);
    }
    let last = table.meta.largest[..].into();
    pieces.push(Piece { first, last, bytes: table.meta.file_bytes.saturating_sub(at) });
    Ok(())
}

/// The keys to cut at, ascending: at most `parts_max - 1`, with at least `bytes_min` from one to
/// the next.
fn cuts(order: &KeyOrder, pieces: &[Piece], parts_max: usize, bytes_min: u64) -> Vec<Arc<[u8]>> {
    let places = places(order, pieces);
    let total: u64 = pieces.iter().map(|piece| piece.bytes).sum();
    let mut cuts = Vec::new();
    let mut cut_at = 0;
    for part in 1..parts_max as u64 {
        let wanted = total / parts_max as u64 * part;
        let after = places.partition_point(|(_, before)| *before < wanted);
        let near = places[after.saturating_sub(1)..].iter().take(2);
        let Some((key, before)) = near.min_by_key(|(_, before)| before.abs_diff(wanted)) else {
            continue;
        };
        if *before >= cut_at + bytes_min && before + bytes_min <= total {
            cuts.push((*key).clone());
            cut_at = *before;
        }
    }
    cuts
}

/// Every key that begins or ends a piece, in order, and about how many bytes stand before it: of
/// pieces that it falls into, a half.
fn places<'a>(order: &KeyOrder, pieces: &'a [Piece]) -> Vec<(&'a Arc<[u8]>, u64)> {
    let mut ends: Vec<(&Arc<[u8]>, bool, u64)> = pieces
        .iter()
        .flat_map(|piece| {
            let half = piece.bytes / 2;
            [(&piece.first, false, half), (&piece.last, true, piece.bytes - half)]
        })
        .collect();
    ends.sort_by(|a, b| order.compare(a.0, b.0));
    let mut before = 0;
    let mut places = Vec::new();
    for same in ends.chunk_by(|a, b| order.same(a.0, b.0)) {
        let bytes = |is_last| same.iter().filter(move |end| end.1 == is_last).map(|end| end.2);
        before += bytes(true).sum::<u64>();
        places.push((same[0].0, before));
        before += bytes(false).sum::<u64>();
    }
    places
}

/// The parts that these cuts leave.
fn between(cuts: Vec<Arc<[u8]>>) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut start = None;
    for cut in cuts {
        parts.push(Part { start: start.replace(cut.clone()), end: Some(cut) });
    }
    parts.push(Part { start, end: None });
    parts
}

/// Work that several threads may do at once: each call takes what is left, and returns when nothing
/// is.
pub(crate) type Shared = Arc<dyn Fn() + Send + Sync>;

/// Whoever may help.
pub(crate) trait Helpers {
    /// Calls `work` on the calling thread, and on up to `helpers_max` others while it does not
    /// return.
    ///
    /// `work` does not panic. When this returns all calls have, and nobody else has `work` any
    /// more.
    fn call(&self, work: &Shared, helpers_max: usize);
}

/// What those who work know of each other.
struct Progress<T> {
    /// The first part that nobody has begun.
    next: usize,
    done: Vec<Option<T>>,
    /// The first failure. Nobody begins another part after it.
    failure: Option<Failure>,
}

enum Failure {
    Error(Error),
    Panic(Box<dyn Any + Send>),
}

/// Does all parts, on this thread and those of `helpers`. Returns the results in the order of
/// parts.
///
/// `work` asks the function it is given now and then, and gives up with any error if that says
/// true.
///
/// # Errors
/// The first error of any part. All others have ended by then, and their results are dropped.
/// # Panics
/// If a part did, on whichever thread.
pub(crate) fn work_on<T: Send + 'static>(
    parts: Vec<Part>,
    helpers: &dyn Helpers,
    work: impl Fn(&Part, &dyn Fn() -> bool) -> Result<T> + Send + Sync + 'static,
) -> Result<Vec<T>> {
    let count = parts.len();
    let done = parts.iter().map(|_| None).collect();
    let progress = Arc::new(Mutex::new(Progress { next: 0, done, failure: None }));
    let shared: Shared = {
        let progress = progress.clone();
        Arc::new(move || {
            while let Some(at) = begin(&progress, parts.len()) {
                let stop = || progress.lock().failure.is_some();
                let result = catch_unwind(AssertUnwindSafe(|| work(&parts[at], &stop)));
                end(&progress, at, result);
            }
        })
    };
    helpers.call(&shared, count - 1);
    let (done, failure) = {
        let mut progress = progress.lock();
        (std::mem::take(&mut progress.done), progress.failure.take())
    };
    match failure {
        None => Ok(done.into_iter().map(|result| result.expect("all parts are done")).collect()),
        Some(Failure::Error(error)) => Err(error),
        Some(Failure::Panic(panic)) => resume_unwind(panic),
    }
}

/// Takes the next part, if there is one and none has failed.
fn begin<T>(progress: &Mutex<Progress<T>>, count: usize) -> Option<usize> {
    let mut progress = progress.lock();
    if progress.failure.is_some() || progress.next == count {
        return None;
    }
    progress.next += 1;
    Some(progress.next - 1)
}

/// Notes how a part ended.
fn end<T>(progress: &Mutex<Progress<T>>, at: usize, result: std::thread::Result<Result<T>>) {
    let mut progress = progress.lock();
    let failure = match result {
        Ok(Ok(result)) => {
            progress.done[at] = Some(result);
            return;
        }
        Ok(Err(error)) => Failure::Error(error),
        Err(panic) => Failure::Panic(panic),
    };
    // Those that end because of the first one are no news.
    progress.failure.get_or_insert(failure);
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::checksum::mix64;
    use std::panic;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    fn key(number: u64) -> Arc<[u8]> {
        number.to_be_bytes().as_slice().into()
    }

    fn piece(first: u64, last: u64, bytes: u64) -> Piece {
        Piece { first: key(first), last: key(last), bytes }
    }

    fn numbers(cuts: &[Arc<[u8]>]) -> Vec<u64> {
        let number = |cut: &Arc<[u8]>| u64::from_be_bytes(cut[..].try_into().expect("eight bytes"));
        cuts.iter().map(number).collect()
    }

    #[test]
    fn cuts_ascend_and_leave_parts_of_about_the_same_size() {
        let order = KeyOrder::Bytewise;
        let mut state = 7;
        let mut random = |n: u64| {
            state = mix64(state + 1);
            state % n
        };
        for _ in 0..200 {
            // Three tables over everything and a run of small ones, in pieces of 100 bytes.
            let mut pieces = Vec::new();
            let mut at = 0;
            while at < 10_000 {
                let next = at + 1 + random(200);
                pieces.push(piece(at, next - random(2), 100));
                at = next;
            }
            for _ in 0..3 {
                pieces.extend((0..100).map(|i| piece(i * 100, (i + 1) * 100, 100)));
            }
            let parts_max = 2 + random(8) as usize;
            let total: u64 = pieces.iter().map(|piece| piece.bytes).sum();
            let found = numbers(&cuts(&order, &pieces, parts_max, 1_000));
            assert_eq!(found.len(), parts_max - 1);
            assert!(found.is_sorted_by(|a, b| a < b), "{found:?}");
            let ends = found.iter().copied().chain([u64::MAX]);
            let mut start = 0;
            for end in ends {
                let begins = |piece: &&Piece| piece.first >= key(start) && piece.first < key(end);
                let bytes: u64 = pieces.iter().filter(begins).map(|piece| piece.bytes).sum();
                let even = total / parts_max as u64;
                assert!(bytes.abs_diff(even) <= 1_000, "{bytes} of {total} in {parts_max} parts");
                start = end;
            }
        }
    }

    #[test]
    fn nothing_is_cut_where_a_part_would_be_small() {
        let order = KeyOrder::Bytewise;
        // Known by their ends only: one of the parts would be a single key.
        let same = [piece(1, 9, 500), piece(1, 9, 500)];
        assert_eq!(numbers(&cuts(&order, &same, 2, 100)), [0u64; 0]);
        let uneven = [piece(1, 2, 900), piece(3, 9, 100)];
        assert_eq!(numbers(&cuts(&order, &uneven, 2, 101)), [0u64; 0]);
        assert_eq!(numbers(&cuts(&order, &uneven, 2, 100)), [2]);
        // The nearer of two places, which is not the one behind.
        let far = [piece(1, 2, 450), piece(3, 4, 500), piece(5, 6, 50)];
        assert_eq!(numbers(&cuts(&order, &far, 2, 50)), [3]);
        // Two cuts in the same place are one.
        assert_eq!(numbers(&cuts(&order, &uneven, 5, 50)), [2]);
    }

    #[test]
    fn parts_leave_nothing_out() {
        assert_eq!(between(Vec::new()), [Part::default()]);
        let parts = between(vec![key(1), key(2)]);
        let (one, two) = (Some(key(1)), Some(key(2)));
        assert_eq!(parts[0], Part { start: None, end: one.clone() });
        assert_eq!(parts[1], Part { start: one, end: two.clone() });
        assert_eq!(parts[2], Part { start: two, end: None });
    }

    fn ten_parts() -> Vec<Part> {
        between((1..10).map(key).collect())
    }

    /// The part's place among ten.
    fn place(part: &Part) -> u64 {
        part.start.as_ref().map_or(0, |start| numbers(std::slice::from_ref(start))[0])
    }

    /// As many threads as are wanted.
    struct Threads;

    impl Helpers for Threads {
        fn call(&self, work: &Shared, helpers_max: usize) {
            thread::scope(|scope| {
                (0..helpers_max).for_each(|_| drop(scope.spawn(|| work())));
                work();
            });
        }
    }

    /// None, whoever is asked for.
    struct Nobody;

    impl Helpers for Nobody {
        fn call(&self, work: &Shared, helpers_max: usize) {
            assert_eq!(helpers_max, 9, "the caller does a part too");
            work();
        }
    }

    /// A result that is counted for as long as it is there.
    struct Counted(Arc<AtomicUsize>);

    impl Counted {
        fn new(alive: &Arc<AtomicUsize>) -> Counted {
            alive.fetch_add(1, Ordering::SeqCst);
            Counted(alive.clone())
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Gives way to others until `ready`, but not for ever.
    fn wait(ready: impl Fn() -> bool) {
        for _ in 0..10_000_000 {
            if ready() {
                return;
            }
            thread::yield_now();
        }
        panic!("what is waited for does not come");
    }

    #[test]
    fn results_stand_in_the_order_of_parts() {
        let begun = AtomicUsize::new(0);
        let together = move |part: &Part, _: &dyn Fn() -> bool| {
            begun.fetch_add(1, Ordering::SeqCst);
            wait(|| begun.load(Ordering::SeqCst) == 10);
            Ok(place(part))
        };
        let expected: Vec<u64> = (0..10).collect();
        assert_eq!(work_on(ten_parts(), &Threads, together).expect("no error"), expected);
        let caller = thread::current().id();
        let alone = move |part: &Part, _: &dyn Fn() -> bool| {
            assert_eq!(thread::current().id(), caller);
            Ok(place(part))
        };
        assert_eq!(work_on(ten_parts(), &Nobody, alone).expect("no error"), expected);
    }

    #[test]
    fn an_error_ends_all_and_nothing_stays() {
        let (alive, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for (helpers, begun_max) in [(&Nobody as &dyn Helpers, 4), (&Threads, 10)] {
            begun.store(0, Ordering::SeqCst);
            let (counted, counts) = (alive.clone(), begun.clone());
            let work = move |part: &Part, stop: &dyn Fn() -> bool| {
                counts.fetch_add(1, Ordering::SeqCst);
                let result = Counted::new(&counted);
                match place(part) {
                    3 => Err(Error::ReadOnly),
                    // With threads, all of these are under way when the third fails.
                    4.. => {
                        wait(stop);
                        Err(Error::Cancelled)
                    }
                    _ => Ok(result),
                }
            };
            let error = work_on(ten_parts(), helpers, work).err();
            assert!(matches!(error, Some(Error::ReadOnly)), "{error:?}");
            assert_eq!(alive.load(Ordering::SeqCst), 0);
            assert!(begun.load(Ordering::SeqCst) <= begun_max);
        }
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let alive = Arc::new(AtomicUsize::new(0));
        let counted = alive.clone();
        let work = move |part: &Part, _: &dyn Fn() -> bool| {
            let result = Counted::new(&counted);
            assert!(place(part) != 5, "the fifth part");
            Ok(result)
        };
        let ended = panic::catch_unwind(AssertUnwindSafe(|| work_on(ten_parts(), &Threads, work)));
        let text =
            ended.err().and_then(|panic| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        assert_eq!(text.as_deref(), Some("the fifth part"));
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    }
}

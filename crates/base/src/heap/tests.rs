//! Heaps: parts apart from each other, given back, outliving their heap, from many threads.

use super::{CHUNK_BYTES, HAS_RANGE, Heap, HeapBox, PART_BYTES_MAX, SharedBytes};
use crate::checksum::mix64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;

/// Bytes that only `seed` and `len` decide.
fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| mix64(seed ^ ((i / 8) << 20)) as u8).collect()
}

#[test]
fn parts_of_all_sizes_keep_their_bytes_to_themselves() {
    for heap in [Heap::new(64 << 20), Heap::global()] {
        let sizes = [0, 1, 15, 16, 17, 4_096, 4_113, 65_536, PART_BYTES_MAX, PART_BYTES_MAX + 1];
        let parts: Vec<SharedBytes> = (0..200)
            .map(|i| SharedBytes::copied(&heap, &pattern(i, sizes[i as usize % sizes.len()])))
            .collect();
        for (i, part) in parts.iter().enumerate() {
            assert_eq!(**part, pattern(i as u64, sizes[i % sizes.len()])[..], "part {i}");
            assert_eq!(part.as_ptr().align_offset(16), 0);
        }
    }
}

#[test]
fn a_range_is_used_again_and_not_beyond_its_end() {
    let heap = Heap::new(4 << 20);
    let limit = heap.range.as_ref().map_or(0, |range| range.chunks * CHUNK_BYTES) as u64;
    for round in 0..20 {
        // Twice what the range has: the rest comes from elsewhere.
        let count = 12 << 8;
        let parts: Vec<SharedBytes> =
            (0..count).map(|i| SharedBytes::copied(&heap, &pattern(round + i, 4_096))).collect();
        assert!(parts.iter().zip(round..).all(|(part, seed)| **part == pattern(seed, 4_096)[..]));
        assert_eq!(heap.taken_bytes(), limit, "all of it is in use");
    }
    assert_eq!(limit > 0, HAS_RANGE);
}

#[test]
fn who_leaves_makes_room_for_the_next_of_about_this_size() {
    // As in a full cache of blocks of 4 KiB and a little more: one leaves, and another one comes.
    for (len_min, spread) in [(4_100, 1), (4_100, 100), (4_100, 900), (2_000, 8_000)] {
        let heap = Heap::new(64 << 20);
        let part =
            |i: u64| SharedBytes::copied(&heap, &vec![1; len_min + (mix64(i) % spread) as usize]);
        let mut parts = (0..8_192).map(&part).collect::<Vec<_>>();
        for i in 0..100_000 {
            let leaves = mix64(!i) as usize % parts.len();
            drop(parts.swap_remove(leaves));
            parts.push(part(1_000_000 + i));
        }
        let in_use: usize = parts.iter().map(SharedBytes::heap_bytes).sum();
        let taken = heap.taken_bytes() as usize;
        assert!(taken <= in_use + in_use / 8 + CHUNK_BYTES, "{len_min}: {taken} for {in_use}");
        assert_eq!(taken > 0, HAS_RANGE);
    }
}

#[test]
fn threads_that_come_later_use_what_earlier_ones_have_freed() {
    let heap = Heap::new(512 << 20);
    let fill =
        || (0..2_048).map(|_| SharedBytes::copied(&heap, &[1; 16 << 10])).collect::<Vec<_>>();
    let mut most = 0;
    // As in a cache: what one thread has put in, the next one replaces.
    let mut held = Vec::new();
    for _ in 0..20 {
        held = std::thread::scope(|scope| {
            let next = scope.spawn(|| {
                drop(held);
                fill()
            });
            next.join().expect("no panic")
        });
        most = most.max(heap.taken_bytes());
    }
    // 32 MiB are in use at a time.
    assert!(most <= 40 << 20, "{} MiB", most >> 20);
    assert_eq!(most > 0, HAS_RANGE);
    drop(held);
}

#[test]
fn parts_outlive_the_heap() {
    let heap = Heap::new(16 << 20);
    let shared = SharedBytes::copied(&heap, &pattern(7, 5_000));
    let boxed = HeapBox::new(&heap, (0..10_000u64).collect());
    drop(heap);
    let other = shared.clone();
    drop(shared);
    assert_eq!(*other, pattern(7, 5_000)[..]);
    assert!(boxed.iter().enumerate().all(|(i, &n)| n == i as u64));
}

#[test]
fn what_is_in_a_box_is_dropped_once() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let elements = (0..100).map(|_| Counted(dropped.clone())).collect();
    let boxed = HeapBox::new(&Heap::new(1 << 20), elements);
    assert_eq!((boxed.len(), dropped.load(Ordering::Relaxed)), (100, 0));
    drop(boxed);
    assert_eq!(dropped.load(Ordering::Relaxed), 100);
    assert!(HeapBox::<u64>::default().is_empty());
}

#[test]
fn memory_is_reused_only_by_its_only_holder() {
    let heap = Heap::new(1 << 20);
    let (first, ()) = SharedBytes::filled(&heap, 1_000, |bytes| bytes.fill(1));
    let address = first.as_ptr();
    let (second, ()) = SharedBytes::refilled(Some(first), 1_000, |bytes| bytes.fill(2));
    assert_eq!(second.as_ptr(), address, "nobody else held it");
    let reader = second.clone();
    let (third, ()) = SharedBytes::refilled(Some(second), 1_000, |bytes| bytes.fill(3));
    assert!(reader.iter().all(|&b| b == 2) && third.iter().all(|&b| b == 3));
    let (fourth, seen) = SharedBytes::refilled(Some(third), 999, |bytes| (bytes.len(), bytes[0]));
    assert_eq!((fourth.len(), seen), (1_000, (999, 3)), "the front of a longer one");
    let (fifth, seen) = SharedBytes::refilled(Some(fourth), 1_001, |bytes| bytes[0]);
    assert_eq!((fifth.len(), seen), (1_001, 0), "a shorter one is not used");
}

#[test]
fn threads_share_and_free_what_others_took() {
    const THREADS: u64 = 8;
    let heap = Heap::new(1 << 30);
    let (to, from) = channel::<(u64, SharedBytes)>();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (to, heap) = (to.clone(), heap.clone());
            scope.spawn(move || {
                let mut kept = Vec::new();
                for i in 0..3_000u64 {
                    let seed = thread << 32 | i;
                    let len = mix64(seed) as usize % 9_000;
                    let part = SharedBytes::copied(&heap, &pattern(seed, len));
                    kept.push((seed, part.clone()));
                    to.send((seed, part)).expect("somebody listens");
                    if kept.len() > 100 {
                        let (seed, part) = kept.swap_remove(mix64(i) as usize % 100);
                        assert_eq!(*part, pattern(seed, part.len())[..]);
                    }
                }
            });
        }
        drop(to);
        let mut count = 0;
        for (seed, part) in from {
            assert_eq!(*part, pattern(seed, part.len())[..]);
            count += 1;
        }
        assert_eq!(count, THREADS * 3_000);
    });
    let range = heap.range.as_ref().map(Arc::downgrade);
    drop(heap);
    assert!(range.is_none_or(|range| range.upgrade().is_none()), "all is given back");
}

/// Elements of three alignments, of which the largest two are more than the heap aligns to by
/// itself.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(32))]
struct Half([u64; 4]);
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
struct Line([u64; 8]);

enum Part {
    Bytes(SharedBytes),
    Words(HeapBox<u32>),
    Halves(HeapBox<Half>),
    Lines(HeapBox<Line>),
}

impl Part {
    fn new(heap: &Heap, seed: u64) -> Part {
        let len = mix64(seed) as usize % 300;
        match seed % 4 {
            0 => Part::Bytes(SharedBytes::copied(heap, &pattern(seed, len * 16))),
            1 => Part::Words(HeapBox::new(heap, vec![seed as u32; len])),
            2 => Part::Halves(HeapBox::new(heap, vec![Half([seed; 4]); len])),
            _ => Part::Lines(HeapBox::new(heap, vec![Line([seed; 8]); len])),
        }
    }

    fn is_whole(&self, seed: u64) -> bool {
        let len = mix64(seed) as usize % 300;
        match self {
            Part::Bytes(bytes) => **bytes == pattern(seed, len * 16)[..],
            Part::Words(words) => **words == vec![seed as u32; len],
            Part::Halves(halves) => **halves == vec![Half([seed; 4]); len],
            Part::Lines(lines) => **lines == vec![Line([seed; 8]); len],
        }
    }
}

#[test]
fn parts_of_all_alignments_come_and_go_in_any_order() {
    let heap = Heap::new(4 << 20);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let heap = heap.clone();
            scope.spawn(move || {
                let mut kept: Vec<(u64, Part)> = Vec::new();
                for i in 0..20_000u64 {
                    let seed = thread << 32 | i;
                    kept.push((seed, Part::new(&heap, seed)));
                    if kept.len() > 200 {
                        let (seed, part) = kept.swap_remove(mix64(seed) as usize % 200);
                        assert!(part.is_whole(seed), "part {seed}");
                    }
                }
                assert!(kept.iter().all(|(seed, part)| part.is_whole(*seed)));
            });
        }
    });
}

#[test]
fn the_next_chunk_is_made_ready_once_and_then_taken() {
    let heap = Heap::new(48 << 20);
    let told = Arc::new(AtomicUsize::new(0));
    let count = told.clone();
    heap.listen(move || {
        count.fetch_add(1, Ordering::Relaxed);
        true
    });
    heap.listen(|| panic!("only the first counts"));
    heap.make_ready();
    assert_eq!(heap.taken_bytes(), 0, "a small heap keeps nothing ready");
    let chunk = CHUNK_BYTES as u64;
    let mut parts = Vec::new();
    let mut fill_to = |bytes: u64| {
        while heap.taken_bytes() < bytes {
            parts.push(SharedBytes::copied(&heap, &[7; 100 << 10]));
        }
    };
    if !HAS_RANGE {
        return;
    }
    fill_to(5 * chunk);
    assert_eq!(told.load(Ordering::Relaxed), 5);
    heap.make_ready();
    heap.make_ready();
    assert_eq!(heap.taken_bytes(), 6 * chunk, "once");
    fill_to(7 * chunk);
    assert_eq!(told.load(Ordering::Relaxed), 7, "the one that was ready, and the next");
    // Two at once leave nothing behind unused.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| heap.make_ready());
        }
    });
    let (ready, limit) = (heap.taken_bytes(), 36 * chunk);
    assert!((8 * chunk..=15 * chunk).contains(&ready), "{ready}");
    fill_to(limit);
    let in_use = parts.iter().map(|part| part.len() as u64).sum::<u64>();
    assert!(in_use > limit / 10 * 9 - chunk, "{in_use} of {limit}");
    heap.make_ready();
    assert_eq!(heap.taken_bytes(), limit, "there are no more");
}

#[test]
fn impatient_parts_pass_by_while_a_chunk_is_promised() {
    let heap = Heap::new(48 << 20);
    let keeps_word = Arc::new(AtomicBool::new(false));
    let word = keeps_word.clone();
    heap.listen(move || word.load(Ordering::Relaxed));
    let impatient = heap.impatient();
    let chunk = CHUNK_BYTES as u64;
    let mut parts = Vec::new();
    let mut kept = |heap: &Heap, count: usize| {
        let before = parts.len();
        parts.extend((0..count).map(|_| SharedBytes::copied(heap, &[7; 100 << 10])));
        parts[before..].iter().filter(|part| !part.is_in_passing()).count()
    };
    // Nineteen of them fill a chunk, about.
    assert_eq!(kept(&impatient, 100), 100, "nobody has promised anything");
    if !HAS_RANGE {
        return;
    }
    let taken = heap.taken_bytes();
    assert!(taken >= 5 * chunk, "{taken}");
    keeps_word.store(true, Ordering::Relaxed);
    let count = kept(&impatient, 100);
    assert!((1..40).contains(&count), "{count}: to the end of this chunk, and the next");
    assert_eq!(kept(&impatient, 10), 0);
    assert_eq!(heap.taken_bytes(), taken + chunk);
    assert_eq!(kept(&heap, 1), 1, "who is patient waits");
    assert_eq!(heap.taken_bytes(), taken + 2 * chunk);
    heap.make_ready();
    let count = kept(&impatient, 100);
    assert!((19..40).contains(&count), "{count}: of the chunk that was ready");
    heap.forget_promise();
    assert_eq!(kept(&impatient, 10), 10, "what is not ready is waited for again");
    // Larger ones are never in the range, and are there to stay.
    assert!(!SharedBytes::copied(&impatient, &[7; PART_BYTES_MAX + 1]).is_in_passing());
}

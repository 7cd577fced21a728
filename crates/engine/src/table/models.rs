//! Loom models of slots and the block cache: a real table in memory, read through a cache that has
//! room for one of its blocks. The cache's own map is the stand-in that loom sees into.
//!
//! Run by `cargo xtask loom`. Each model says which planted faults it was seen to find.

use super::TableReader;
use super::tests::{Entry, build, context, open_in};
use crate::models::{explore, spawn};
use crate::options::{Compression, KeyspaceOptions};
use esker_base::checksum::hash64;
use esker_base::key::SEQ_MAX;
use esker_base::{Kind, Trailer};
use std::sync::Arc;

/// Two records that do not fit one block.
fn entries() -> Vec<Entry> {
    (0..2u8).map(|k| (vec![k], Trailer::new(u64::from(k) + 1, Kind::Put), vec![k; 600])).collect()
}

/// A table of them, with the options it was made with and its length.
fn two_blocks() -> (KeyspaceOptions, Vec<u8>, u64) {
    let options = KeyspaceOptions {
        block_bytes: 512,
        compression: vec![Compression::None],
        ..KeyspaceOptions::default()
    };
    let (bytes, summary) = build(&options, &entries(), &[]);
    (options, bytes, summary.file_bytes)
}

fn get(table: &TableReader, k: u8) {
    let found = table.get(&[k], hash64(&[k]), SEQ_MAX, None).expect("get");
    let (trailer, value) = found.expect("it is there");
    assert_eq!(trailer.seq(), u64::from(k) + 1);
    assert!(value.len() == 600 && value.iter().all(|&b| b == k), "the block is the right one");
}

/// Two threads read two blocks in turn, each of which pushes the other out of the cache.
///
/// At most three preemptions. At the end slots have the blocks that the queues have, and no others.
/// Seen to find: `insert_block` that fills the queues before the slot; a slot that is asked, and
/// says that its block leaves without letting go of it.
#[test]
fn a_slot_has_only_what_the_cache_has() {
    let (options, bytes, file_bytes) = two_blocks();
    explore("blocks that push each other out", 3, move || {
        let (bytes, options) = (bytes.clone(), options.clone());
        let body = move || {
            // An index, since nothing is pinned, and one block of 600 bytes, but not two.
            let context = context(1_600, 0);
            let table = open_in(bytes, file_bytes, &options, &context).expect("open");
            let index = table.index(0).expect("index");
            let other = {
                let table: Arc<TableReader> = table.clone();
                spawn(move || get(&table, 1))
            };
            get(&table, 0);
            other.join().expect("the other ends");
            let full = (0..index.len()).filter(|&i| index.slot(i).is_full()).count();
            assert_eq!(index.len(), 2);
            assert_eq!(full, context.cache.blocks(), "full slots, and entries");
            assert!(full < 2 && context.cache.usage_bytes() <= context.cache.capacity_bytes());
            (0..2).for_each(|k| get(&table, k));
        };
        spawn(body).join().expect("the model ends");
    });
}

/// One thread reads a block while another takes the cache's capacity away.
///
/// At most three preemptions. At the end there is nothing in the cache, nor in a slot.
/// Seen to find: an insertion that looks at the capacity before it has the lock.
#[test]
fn a_capacity_that_is_taken_away_holds_at_once() {
    let (options, bytes, file_bytes) = two_blocks();
    explore("a capacity that is taken away", 3, move || {
        let (bytes, options) = (bytes.clone(), options.clone());
        let body = move || {
            let context = context(4_000, 0);
            let table = open_in(bytes, file_bytes, &options, &context).expect("open");
            let index = table.index(0).expect("index");
            let other = {
                let cache = context.cache.clone();
                spawn(move || cache.set_capacity_bytes(0))
            };
            get(&table, 0);
            other.join().expect("the other ends");
            assert_eq!(context.cache.usage_bytes(), 0);
            assert!((0..index.len()).all(|i| !index.slot(i).is_full()));
            get(&table, 0);
        };
        spawn(body).join().expect("the model ends");
    });
}

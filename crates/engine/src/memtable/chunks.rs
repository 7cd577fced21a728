//! Chunks of memory that arenas are made of, and spare ones from arenas that are gone.
//!
//! A chunk from the system must be mapped and zeroed, which costs about as much as copying records into
//! it. One that a memtable leaves behind is kept for the next, up to a limit. The kernel is told
//! that it may take spare chunks away: a store that rests costs others no memory.
//! Invariant: a spare chunk belongs to nobody; what it holds is garbage that is never read, since arenas
//! read only what was appended.

use esker_base::pages::Pages;
use esker_base::sync::Mutex;

/// Spare chunks of one size.
#[derive(Debug)]
pub(crate) struct Chunks {
    spare: Mutex<Vec<Pages<u8>>>,
    /// Most that are kept.
    max: usize,
    chunk_bytes: usize,
}

impl Chunks {
    /// Keeps at most `bytes_max` of chunks of `chunk_bytes`.
    pub(super) fn new(chunk_bytes: usize, bytes_max: u64) -> Chunks {
        let max = usize::try_from(bytes_max).unwrap_or(usize::MAX) / chunk_bytes;
        Chunks { spare: Mutex::new(Vec::new()), max, chunk_bytes }
    }

    /// A spare chunk, if there is one.
    pub(super) fn take(&self) -> Option<Pages<u8>> {
        self.spare.lock().pop()
    }

    /// Takes over memory that an arena leaves behind; what is of another size, or too much, is freed.
    pub(super) fn give(&self, mut memory: Vec<Pages<u8>>) {
        memory.retain(|pages| pages.len() == self.chunk_bytes);
        let mut spare = self.spare.lock();
        memory.truncate(self.max.saturating_sub(spare.len()));
        memory.iter_mut().for_each(Pages::may_be_taken);
        spare.append(&mut memory);
    }

    /// Bytes of spare chunks, as far as the kernel has not taken them.
    pub(crate) fn spare_bytes(&self) -> u64 {
        (self.spare.lock().len() * self.chunk_bytes) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_chunks_are_used_again_and_bounded() {
        const CHUNK: usize = 256 << 10;
        let chunks = Chunks::new(CHUNK, 2 * CHUNK as u64 + 5);
        assert!(chunks.take().is_none());
        let full = |byte| {
            let mut pages = Pages::<u8>::zeroed(CHUNK);
            pages.fill(byte);
            pages
        };
        chunks.give(vec![Pages::zeroed(CHUNK + 1), full(1)]);
        assert_eq!(chunks.spare_bytes(), CHUNK as u64, "another size is not kept");
        chunks.give(vec![full(2), full(3), full(4)]);
        assert_eq!(chunks.spare_bytes(), 2 * CHUNK as u64);
        for _ in 0..2 {
            let mut pages = chunks.take().expect("kept");
            assert!(pages.iter().all(|&b| b <= 2), "as it was left, or taken by the kernel");
            pages.fill(9);
            assert!(pages.iter().all(|&b| b == 9), "and can be written again");
        }
        assert!(chunks.take().is_none());
    }
}

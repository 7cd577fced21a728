//! Plain memory that threads share without a lock, as a model checker sees it.

use std::ops::Range;

/// Tells loom who writes and reads plain memory, which it cannot see: an access that is not ordered
/// after the write it needs fails the model. Takes no room and does nothing in other builds.
///
/// The memory is counted in cells, of a size that the owner chooses; those beyond the last are not
/// watched.
#[derive(Debug)]
pub struct Witness {
    #[cfg(esker_loom)]
    cells: Box<[loom::cell::UnsafeCell<()>]>,
}

// SAFETY: the cells hold nothing; loom checks that accesses are ordered.
#[cfg(esker_loom)]
unsafe impl Sync for Witness {}

#[cfg(not(esker_loom))]
impl Witness {
    /// Memory of so many cells that nobody has touched.
    #[inline]
    pub fn new(_: usize) -> Witness {
        Witness {}
    }

    /// The caller writes these cells.
    #[inline]
    pub fn wrote(&self, _: Range<usize>) {}

    /// The caller reads these cells.
    #[inline]
    pub fn read(&self, _: Range<usize>) {}
}

#[cfg(esker_loom)]
impl Witness {
    /// Memory of so many cells that nobody has touched.
    pub fn new(cells: usize) -> Witness {
        Witness { cells: (0..cells).map(|_| loom::cell::UnsafeCell::new(())).collect() }
    }

    /// The caller writes these cells.
    #[track_caller]
    pub fn wrote(&self, cells: Range<usize>) {
        self.each(cells, |cell| cell.with_mut(|_| ()));
    }

    /// The caller reads these cells.
    #[track_caller]
    pub fn read(&self, cells: Range<usize>) {
        self.each(cells, |cell| cell.with(|_| ()));
    }

    fn each(&self, cells: Range<usize>, visit: impl Fn(&loom::cell::UnsafeCell<()>)) {
        let end = cells.end.min(self.cells.len());
        self.cells[cells.start.min(end)..end].iter().for_each(visit);
    }
}

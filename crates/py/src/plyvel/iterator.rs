//! `Iterator` and `RawIterator`.

use super::common::no_membership;
use crate::bytes::joined;
use crate::errors::stands_on_nothing;
use crate::handle::{Handle, Moment, Slot};
use crate::walk::{Begins, Bounded, Steps, Walk, Way};
use esker::base::key::prefix_end;
use esker::{KeyOrder, ScanOptions};
use pyo3::exceptions::{PyStopIteration, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::sync::Arc;

/// What a closed iterator is called.
const ITERATOR: &str = "iterator";

/// What an iterator covers and gives.
#[derive(Clone, Debug)]
pub(super) struct Range {
    start: Option<Vec<u8>>,
    stop: Option<Vec<u8>>,
    prefix: Option<Vec<u8>>,
    reverse: bool,
    include_start: bool,
    include_stop: bool,
    include_key: bool,
    include_value: bool,
    fill_cache: bool,
    /// What its keys begin with.
    begins: Vec<u8>,
    /// An end of it is that of all keys that begin so.
    is_open: bool,
}

impl Default for Range {
    fn default() -> Range {
        Range {
            start: None,
            stop: None,
            prefix: None,
            reverse: false,
            include_start: true,
            include_stop: false,
            include_key: true,
            include_value: true,
            fill_cache: true,
            begins: Vec::new(),
            is_open: false,
        }
    }
}

/// A key as an argument.
type Key<'py> = Option<Bound<'py, PyBytes>>;

impl Range {
    /// From arguments: start, stop and prefix; and in the order of the array reverse, include
    /// start, stop, key and value, and fill the cache, where `None` is false.
    pub(super) fn given(
        (start, stop, prefix): (Key<'_>, Key<'_>, Key<'_>),
        flags: [Option<bool>; 6],
    ) -> Range {
        let owned = |key: Key<'_>| key.map(|key| key.as_bytes().to_vec());
        let [reverse, include_start, include_stop, include_key, include_value, fill_cache] =
            flags.map(|flag| flag.unwrap_or(false));
        Range {
            start: owned(start),
            stop: owned(stop),
            prefix: owned(prefix),
            reverse,
            include_start,
            include_stop,
            include_key,
            include_value,
            fill_cache,
            ..Range::default()
        }
    }

    /// The same range of keys that begin with `base`, whose own prefix is taken in.
    fn below(mut self, base: &[u8]) -> PyResult<Range> {
        if let Some(prefix) = self.prefix.take() {
            if self.start.is_some() || self.stop.is_some() {
                let what = "a prefix is a range by itself: leave out start and stop, or the prefix";
                return Err(PyTypeError::new_err(what));
            }
            let prefix = joined(base, &prefix);
            self.stop = prefix_end(&prefix);
            // Every key begins with nothing, which need not be the first of them.
            self.start = Some(prefix.clone()).filter(|prefix| !prefix.is_empty());
            (self.include_start, self.include_stop) = (true, false);
            (self.begins, self.is_open) = (prefix, true);
            return Ok(self);
        }
        if !base.is_empty() {
            (self.begins, self.is_open) =
                (base.to_vec(), self.start.is_none() || self.stop.is_none());
            self.include_start |= self.start.is_none();
            self.include_stop &= self.stop.is_some();
            self.start = Some(joined(base, self.start.as_deref().unwrap_or_default()));
            self.stop = match &self.stop {
                Some(stop) => Some(joined(base, stop)),
                None => prefix_end(base),
            };
        }
        Ok(self)
    }

    /// A cursor over it.
    fn walk(self, py: Python<'_>, handle: &Handle, moment: Option<&Moment>) -> PyResult<Walk> {
        let snapshot = moment.map(|moment| moment.open(py)).transpose()?;
        let open = handle.open(py)?;
        let keyspace = &open.keyspace;
        let order = &open.options.default_keyspace.order;
        let walk = || {
            let begins = Begins::with(order, self.begins);
            if self.is_open {
                begins.check_range()?;
            }
            let mut scan = ScanOptions {
                start: self.start,
                end: self.stop,
                snapshot: snapshot.as_deref(),
                fill_cache: self.fill_cache,
                keys_only: !self.include_value,
                ..ScanOptions::default()
            };
            let (mut after, mut through) = (None, None);
            if order.is_bytewise() {
                // The least key behind another is the one with a zero behind it.
                let push = |key: &mut Vec<u8>| key.push(0);
                if !self.include_start {
                    scan.start.as_mut().map(push);
                }
                if self.include_stop {
                    scan.end.as_mut().map(push);
                }
            } else {
                after = scan.start.clone().filter(|_| !self.include_start);
                if self.include_stop {
                    through = scan.end.take();
                }
            }
            // A range that ends before it starts is empty here, and a mistake to the engine.
            if let (Some(start), Some(end)) = (&scan.start, &scan.end)
                && order.less(end, start)
            {
                scan.end = scan.start.clone();
            }
            let cursor = keyspace.scan(&scan)?;
            Ok(Walk::new(match order {
                KeyOrder::Bytewise => Bounded::new(cursor),
                order => Bounded::within(cursor, order.clone(), after, through).beginning(begins),
            }))
        };
        handle.store.run(py, walk)
    }
}

/// Key and value of an entry, as far as they are given.
type Parts<'py> = (Option<Bound<'py, PyBytes>>, Option<Bound<'py, PyBytes>>);

/// Iterates over keys and values, in either direction.
#[pyclass(name = "Iterator", module = "esker.plyvel", frozen, weakref)]
pub(crate) struct PlyvelIterator {
    slot: Arc<Slot<Steps>>,
    /// The way of `next`.
    way: Way,
    base: Vec<u8>,
    include_key: bool,
    include_value: bool,
}

impl PlyvelIterator {
    pub(super) fn new(
        py: Python<'_>,
        handle: &Arc<Handle>,
        base: &[u8],
        range: Range,
        moment: Option<&Moment>,
    ) -> PyResult<PlyvelIterator> {
        let way = if range.reverse { Way::Backward } else { Way::Forward };
        let (include_key, include_value) = (range.include_key, range.include_value);
        let walk = range.below(base)?.walk(py, handle, moment)?;
        let slot = Slot::new(py, handle, Steps::new(walk, way))?;
        Ok(PlyvelIterator { slot, way, base: base.to_vec(), include_key, include_value })
    }

    /// Passes an entry and gives it; `None` if there is none.
    #[inline]
    fn pass<'py>(&self, py: Python<'py>, way: Way) -> PyResult<Option<Bound<'py, PyAny>>> {
        let quick = self.slot.lock(py)?.as_mut().map(|steps| {
            let passed = steps.pass_inside(way)?;
            Some(if passed { self.parts(py, steps) } else { None })
        });
        match quick {
            None => return Err(self.closed(py)),
            Some(Some(parts)) => return self.joined(py, parts),
            Some(None) => {}
        }
        // Who consumes it in C, as `list` does, looks at no signals.
        py.check_signals()?;
        if !self.slot.run(py, ITERATOR, |steps| steps.pass(way))? {
            return Ok(None);
        }
        let parts = self.slot.lock(py)?.as_ref().map(|steps| self.parts(py, steps));
        match parts {
            None => Err(self.closed(py)),
            Some(parts) => self.joined(py, parts),
        }
    }

    /// What is given of the entry that was passed last; `None` if another thread has gone on to the
    /// end meanwhile.
    #[inline]
    fn parts<'py>(&self, py: Python<'py>, steps: &Steps) -> Option<Parts<'py>> {
        let (key, value) = steps.entry()?;
        let key = self.include_key.then(|| PyBytes::new(py, &key[self.base.len()..]));
        Some((key, self.include_value.then(|| PyBytes::new(py, value))))
    }

    #[inline]
    fn joined<'py>(
        &self,
        py: Python<'py>,
        parts: Option<Parts<'py>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(match parts {
            None => None,
            Some((Some(key), Some(value))) => Some(PyTuple::new(py, [key, value])?.into_any()),
            Some((Some(one), None) | (None, Some(one))) => Some(one.into_any()),
            Some((None, None)) => Some(py.None().into_bound(py)),
        })
    }

    #[cold]
    fn closed(&self, py: Python<'_>) -> PyErr {
        self.slot.handle.store.face.closed(py, ITERATOR)
    }

    fn rewind(&self, py: Python<'_>, way: Way) -> PyResult<()> {
        let rewound = self.slot.lock(py)?.as_mut().map(|steps| steps.rewind(way));
        rewound.ok_or_else(|| self.closed(py))
    }
}

#[pymethods]
impl PlyvelIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.pass(py, self.way)
    }

    /// Moves one step back and gives the entry that was passed by it: after `next`, the same again.
    fn prev<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.pass(py, self.way.back())?.ok_or_else(|| PyStopIteration::new_err(()))
    }

    /// Moves before the first key of the range.
    fn seek_to_start(&self, py: Python<'_>) -> PyResult<()> {
        self.rewind(py, Way::Forward)
    }

    /// Moves behind the last key of the range.
    fn seek_to_stop(&self, py: Python<'_>) -> PyResult<()> {
        self.rewind(py, Way::Backward)
    }

    /// Moves before the first key of the range that is at or behind `target`.
    fn seek(&self, py: Python<'_>, target: &Bound<'_, PyBytes>) -> PyResult<()> {
        let target = joined(&self.base, target.as_bytes());
        self.slot.run(py, ITERATOR, |steps| steps.seek(&target))
    }

    /// Closes the iterator. The second time it does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.close(py)
    }

    fn __contains__(&self, _key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Err(no_membership())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<bool> {
        self.slot.close(py)?;
        Ok(false)
    }
}

/// An iterator that is moved by hand, as LevelDB's are.
#[pyclass(name = "RawIterator", module = "esker.plyvel", frozen, weakref)]
pub(crate) struct RawIterator {
    slot: Arc<Slot<Walk>>,
    base: Vec<u8>,
}

impl RawIterator {
    pub(super) fn new(
        py: Python<'_>,
        handle: &Arc<Handle>,
        base: &[u8],
        fill_cache: bool,
        moment: Option<&Moment>,
    ) -> PyResult<RawIterator> {
        let range = Range { fill_cache, ..Range::default() };
        let walk = range.below(base)?.walk(py, handle, moment)?;
        Ok(RawIterator { slot: Slot::new(py, handle, walk)?, base: base.to_vec() })
    }

    /// What is made of the entry that it stands on.
    fn present<'py, T>(
        &self,
        py: Python<'py>,
        make: impl FnOnce(&[u8], &[u8]) -> T,
    ) -> PyResult<T> {
        let made = self.slot.lock(py)?.as_ref().map(|walk| {
            let (key, value) = walk.entry()?;
            Some(make(&key[self.base.len()..], value))
        });
        made.ok_or_else(|| self.closed(py))?.ok_or_else(|| stands_on_nothing(py))
    }

    fn step(&self, py: Python<'_>, way: Way) -> PyResult<()> {
        let stepped = self.slot.lock(py)?.as_mut().map(|walk| {
            walk.entry()?;
            Some(walk.step_inside(way))
        });
        let stepped = stepped.ok_or_else(|| self.closed(py))?;
        if stepped.ok_or_else(|| stands_on_nothing(py))? {
            return Ok(());
        }
        self.slot.run(py, ITERATOR, |walk| match walk.step_inside(way) {
            true => Ok(()),
            false => walk.step(way),
        })
    }

    #[cold]
    fn closed(&self, py: Python<'_>) -> PyErr {
        self.slot.handle.store.face.closed(py, ITERATOR)
    }
}

#[pymethods]
impl RawIterator {
    /// True if it stands on a key.
    fn valid(&self, py: Python<'_>) -> PyResult<bool> {
        let valid = self.slot.lock(py)?.as_ref().map(|walk| walk.entry().is_some());
        valid.ok_or_else(|| self.closed(py))
    }

    /// Moves to the first key.
    fn seek_to_first(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.run(py, ITERATOR, |walk| walk.seek_to_end(Way::Forward))
    }

    /// Moves to the last key.
    fn seek_to_last(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.run(py, ITERATOR, |walk| walk.seek_to_end(Way::Backward))
    }

    /// Moves to the first key at or behind `target`.
    fn seek(&self, py: Python<'_>, target: &Bound<'_, PyBytes>) -> PyResult<()> {
        let target = joined(&self.base, target.as_bytes());
        self.slot.run(py, ITERATOR, |walk| walk.seek(&target))
    }

    /// Moves to the following key.
    fn next(&self, py: Python<'_>) -> PyResult<()> {
        self.step(py, Way::Forward)
    }

    /// Moves to the preceding key.
    fn prev(&self, py: Python<'_>) -> PyResult<()> {
        self.step(py, Way::Backward)
    }

    /// The key that it stands on.
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.present(py, |key, _| PyBytes::new(py, key))
    }

    /// The value of the key that it stands on.
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.present(py, |_, value| PyBytes::new(py, value))
    }

    /// Both.
    fn item<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        self.present(py, |key, value| (PyBytes::new(py, key), PyBytes::new(py, value)))
    }

    /// Closes the iterator. The second time it does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.close(py)
    }

    fn __contains__(&self, _key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Err(no_membership())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<bool> {
        self.slot.close(py)?;
        Ok(false)
    }
}

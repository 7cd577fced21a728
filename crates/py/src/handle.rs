//! What holds a store open, what is closed with it, and how calls into the engine are made.
//!
//! ```text
//! call -> Handle::open: is it open? -> Store::run: let go of the interpreter -> engine -> take it back -> exception?
//! close -> nothing new is made -> children: iterators, snapshots, other keyspaces -> the store itself
//! ```
//!
//! Invariants: (1) who waits for a lock of ours does so without the interpreter, or tries only; (2)
//! who holds one does not wait for the interpreter, but that the engine may ask a Python comparator
//! on its behalf; (3) a store is closed by whoever lets go of it last, without the interpreter,
//! since work in the background may want it to end; (4) in a process that was forked from the one
//! that has opened a store, no lock of it is taken and nothing of it is dropped.

use crate::comparator::{check_not_asked, guarded, is_asked};
use crate::errors::{Face, STORE};
use crate::fork::forks;
use arc_swap::{ArcSwapOption, Guard};
use esker::base::sync::{Mutex, MutexGuard};
use esker::{Db, Keyspace, Options, Snapshot};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Weak};
use std::thread;

/// An open keyspace.
pub(crate) struct Opened {
    pub(crate) db: Db,
    pub(crate) keyspace: Keyspace,
    /// As the store was opened. A comparator is among them, which may refer to the store: it goes
    /// when that is closed.
    pub(crate) options: Arc<Options>,
}

/// What all handles of a store share.
pub(crate) struct Store {
    pub(crate) face: Face,
    /// The engine may call into Python to compare keys.
    asks_python: bool,
    children: Mutex<Children>,
    /// Those before the process that has opened it.
    forks: usize,
}

/// What is to be closed before the store.
#[derive(Default)]
struct Children {
    closed: bool,
    next: u64,
    open: BTreeMap<u64, Weak<dyn Child>>,
}

/// Something that is closed with its store.
trait Child: Send + Sync {
    fn shut(&self);
}

/// A keyspace that is open until it is closed. The one that was opened first is the store's.
pub(crate) struct Handle {
    open: ArcSwapOption<Opened>,
    pub(crate) store: Arc<Store>,
    /// Held by whoever closes it; then it holds what came of that.
    closing: Mutex<esker::Result<()>>,
    id: Option<u64>,
}

/// Stores that are open, for the end of the process.
static STORES: Mutex<Vec<Weak<Handle>>> = Mutex::new(Vec::new());

impl Store {
    /// Makes a call into the engine without the interpreter.
    ///
    /// # Errors
    /// That of the engine, as an exception of this face; what a comparator raised.
    #[inline]
    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce() -> esker::Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| self.call(call))?.map_err(|error| self.face.error(py, &error))
    }

    /// Makes a call into the engine; this thread does not have the interpreter.
    ///
    /// # Errors
    /// What a comparator raised, or that this is one; inside of that, that of the engine.
    #[inline]
    pub(crate) fn call<T>(
        &self,
        call: impl FnOnce() -> esker::Result<T>,
    ) -> Result<esker::Result<T>, PyErr> {
        if !self.asks_python {
            return Ok(call());
        }
        check_not_asked()?;
        guarded(call)
    }

    /// True in a child of the process that has opened it.
    #[inline]
    fn is_inherited(&self) -> bool {
        self.forks != forks()
    }

    /// Fails in a child of the process that has opened it.
    ///
    /// # Errors
    /// Says to open it there.
    #[inline]
    pub(crate) fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_inherited() { Err(self.face.inherited(py)) } else { Ok(()) }
    }

    /// Fails inside of a comparator, if this store has one.
    ///
    /// # Errors
    /// Says so.
    pub(crate) fn check_not_asked(&self) -> PyResult<()> {
        if self.asks_python { check_not_asked() } else { Ok(()) }
    }

    fn add(&self, make: impl FnOnce(u64) -> Arc<dyn Child>) -> bool {
        let mut children = self.children.lock();
        if children.closed {
            return false;
        }
        children.next += 1;
        let id = children.next;
        children.open.insert(id, Arc::downgrade(&make(id)));
        true
    }

    fn forget(&self, id: u64) {
        self.children.lock().open.remove(&id);
    }

    /// Closes all that was made from it. Nothing new is made from then on.
    fn shut_children(&self) {
        let open = {
            let mut children = self.children.lock();
            children.closed = true;
            std::mem::take(&mut children.open)
        };
        for child in open.values().filter_map(Weak::upgrade) {
            child.shut();
        }
    }
}

impl Handle {
    /// The handle of a store that was just opened.
    pub(crate) fn first(face: Face, options: Options, db: Db) -> Arc<Handle> {
        let keyspace = db.default_keyspace().clone();
        let orders = options.keyspaces.values().chain([&options.default_keyspace]);
        let asks_python = orders.into_iter().any(|keyspace| !keyspace.order.is_bytewise());
        let children = Mutex::new(Children::default());
        let store = Arc::new(Store { face, asks_python, children, forks: forks() });
        let options = Arc::new(options);
        let open = ArcSwapOption::from_pointee(Opened { db, keyspace, options });
        let handle = Arc::new(Handle { open, store, closing: Mutex::new(Ok(())), id: None });
        note_open(&handle);
        handle
    }

    /// The handle of another keyspace of the same store.
    pub(crate) fn of(&self, py: Python<'_>, db: Db, keyspace: Keyspace) -> PyResult<Arc<Handle>> {
        let options = self.open(py)?.options.clone();
        let mut made = None;
        self.store.add(|id| {
            let open = ArcSwapOption::from_pointee(Opened { db, keyspace, options });
            let handle = Arc::new(Handle {
                open,
                store: self.store.clone(),
                closing: Mutex::new(Ok(())),
                id: Some(id),
            });
            made = Some(handle.clone());
            handle
        });
        // It may be all that is left of the store when the process ends.
        made.iter().for_each(note_open);
        made.ok_or_else(|| self.closed(py))
    }

    /// What it holds, which stays open as long as the guard lives.
    ///
    /// # Errors
    /// If it was closed, or opened by another process.
    #[inline]
    pub(crate) fn open(&self, py: Python<'_>) -> PyResult<Open> {
        self.store.check_process(py)?;
        let guard = self.open.load();
        if guard.is_some() { Ok(Open(guard)) } else { Err(self.closed(py)) }
    }

    /// True once it was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.open.load().is_none()
    }

    #[cold]
    fn closed(&self, py: Python<'_>) -> PyErr {
        self.store.face.closed(py, STORE)
    }

    /// Closes what was made from the store, and the store. If it is being closed already, this
    /// waits for that and returns the same; once it is closed it does nothing.
    ///
    /// # Errors
    /// Of the engine; that it was opened by another process, in which case nothing is touched.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.store.check_process(py)?;
        self.store.check_not_asked()?;
        py.detach(|| self.store.shut_children());
        self.store.run(py, || {
            if self.is_closed() && self.closing.try_lock().is_some() {
                return Ok(());
            }
            let mut closing = self.closing.lock();
            if let Some(open) = self.open.swap(None) {
                *closing = open.db.clone().close();
            }
            closing.clone()
        })
    }
}

impl Child for Handle {
    fn shut(&self) {
        self.open.store(None);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.store.is_inherited() {
            return std::mem::forget(self.open.swap(None));
        }
        if let Some(id) = self.id {
            self.store.forget(id);
        }
        let open = self.open.swap(None);
        if is_asked() && self.store.asks_python {
            // This thread may be one that closing the store waits for.
            let closing = thread::Builder::new().name("esker-python".to_owned());
            let kept = ManuallyDrop::new(open);
            // Without a thread it stays open until the process ends.
            let _ = closing.spawn(move || drop(ManuallyDrop::into_inner(kept)));
        } else {
            without_interpreter(|| drop(open));
        }
    }
}

/// Runs this without the interpreter, whether this thread has it or not.
fn without_interpreter(run: impl FnOnce() + Send) {
    let mut run = Some(run);
    // Nothing else may run where the interpreter has ended.
    let ran = Python::try_attach(|py| py.detach(|| run.take().map(|run| run())));
    if ran.is_none()
        && let Some(run) = run
    {
        run();
    }
}

/// An open keyspace while it is in use.
pub(crate) struct Open(Guard<Option<Arc<Opened>>>);

impl std::ops::Deref for Open {
    type Target = Opened;

    #[inline]
    fn deref(&self) -> &Opened {
        // An `Open` is only made of a guard that holds something, and a guard does not change.
        self.0.as_deref().expect("it was open when it was asked for")
    }
}

/// Something that calls change, and that is closed with its store: a cursor of some kind.
pub(crate) struct Slot<T: Send> {
    held: Mutex<Option<T>>,
    // Keeps the store open.
    pub(crate) handle: Arc<Handle>,
    id: u64,
}

impl<T: Send + 'static> Slot<T> {
    /// Makes it.
    ///
    /// # Errors
    /// If the store is closed.
    pub(crate) fn new(py: Python<'_>, handle: &Arc<Handle>, value: T) -> PyResult<Arc<Slot<T>>> {
        let mut made = None;
        handle.store.add(|id| {
            let held = Mutex::new(Some(value));
            let slot = Arc::new(Slot { held, handle: handle.clone(), id });
            made = Some(slot.clone());
            slot
        });
        made.ok_or_else(|| handle.closed(py))
    }

    /// What it holds, for a moment in which the interpreter is not let go. `None` once it was
    /// closed.
    ///
    /// Meanwhile nothing is made that Python's collector of garbage tracks, such as a tuple or an
    /// exception: that may run what objects do at their end, which may be to close this.
    ///
    /// # Errors
    /// If the store was opened by another process; inside of its comparator, which may have been
    /// asked for this very cursor.
    #[inline]
    pub(crate) fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Option<T>>> {
        self.handle.store.check_process(py)?;
        self.handle.store.check_not_asked()?;
        loop {
            if let Some(guard) = self.held.try_lock() {
                return Ok(guard);
            }
            py.detach(|| drop(self.held.lock()));
        }
    }

    /// Changes what it holds by a call into the engine.
    ///
    /// # Errors
    /// Of the engine; `closed` if it was closed; that the store was opened by another process.
    pub(crate) fn run<R: Send>(
        &self,
        py: Python<'_>,
        closed: &str,
        call: impl FnOnce(&mut T) -> esker::Result<R> + Send,
    ) -> PyResult<R> {
        self.handle.store.check_process(py)?;
        let result =
            self.handle.store.run(py, || self.held.lock().as_mut().map(call).transpose())?;
        result.ok_or_else(|| self.handle.store.face.closed(py, closed))
    }

    /// Closes it. The second time it does nothing, nor in another process than that which has
    /// opened the store.
    ///
    /// # Errors
    /// Inside of the comparator of the store.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.handle.store.is_inherited() {
            self.handle.store.check_not_asked()?;
            py.detach(|| self.shut());
        }
        Ok(())
    }
}

impl<T: Send + 'static> Child for Slot<T> {
    fn shut(&self) {
        let held = self.held.lock().take();
        drop(held);
    }
}

impl<T: Send> Drop for Slot<T> {
    fn drop(&mut self) {
        let held = self.held.get_mut().take();
        if self.handle.store.is_inherited() {
            return std::mem::forget(held);
        }
        self.handle.store.forget(self.id);
        if held.is_some() {
            without_interpreter(|| drop(held));
        }
    }
}

/// A snapshot that is open until it is closed.
pub(crate) struct Moment {
    held: ArcSwapOption<Snapshot>,
    pub(crate) handle: Arc<Handle>,
    id: u64,
}

impl Moment {
    /// The store as it is now.
    pub(crate) fn new(py: Python<'_>, handle: &Arc<Handle>) -> PyResult<Arc<Moment>> {
        Moment::of(py, handle, |db| Ok(db.snapshot()))
    }

    /// The store as a crash would leave it now.
    pub(crate) fn persisted(py: Python<'_>, handle: &Arc<Handle>) -> PyResult<Arc<Moment>> {
        Moment::of(py, handle, Db::persisted_snapshot)
    }

    fn of(
        py: Python<'_>,
        handle: &Arc<Handle>,
        take: impl FnOnce(&Db) -> esker::Result<Snapshot> + Send,
    ) -> PyResult<Arc<Moment>> {
        let snapshot = {
            let open = handle.open(py)?;
            let db = &open.db;
            handle.store.run(py, || take(db))?
        };
        let mut made = None;
        handle.store.add(|id| {
            let held = ArcSwapOption::from_pointee(snapshot);
            let moment = Arc::new(Moment { held, handle: handle.clone(), id });
            made = Some(moment.clone());
            moment
        });
        made.ok_or_else(|| handle.closed(py))
    }

    /// The engine's snapshot.
    ///
    /// # Errors
    /// If it, or its store, was closed, or the store opened by another process.
    pub(crate) fn open(&self, py: Python<'_>) -> PyResult<Arc<Snapshot>> {
        self.handle.store.check_process(py)?;
        let held = self.held.load_full();
        held.ok_or_else(|| self.handle.store.face.closed(py, "snapshot"))
    }

    /// Closes it. The second time it does nothing, nor in another process than that which has
    /// opened the store.
    pub(crate) fn close(&self) {
        if !self.handle.store.is_inherited() {
            self.shut();
        }
    }
}

impl Child for Moment {
    fn shut(&self) {
        self.held.store(None);
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        if self.handle.store.is_inherited() {
            return std::mem::forget(self.held.swap(None));
        }
        self.handle.store.forget(self.id);
        let held = self.held.swap(None);
        if held.is_some() {
            without_interpreter(|| drop(held));
        }
    }
}

/// What the process is to close when it ends.
fn note_open(handle: &Arc<Handle>) {
    let mut stores = STORES.lock();
    stores.retain(|store| store.strong_count() > 0);
    stores.push(Arc::downgrade(handle));
}

/// Closes all stores that this process has opened and not closed: called when it ends, while
/// comparators can still be asked.
pub(crate) fn close_all(py: Python<'_>) {
    let stores = std::mem::take(&mut *STORES.lock());
    for handle in stores.iter().filter_map(Weak::upgrade) {
        // There is nobody left to tell; nor is a store closed that was inherited.
        let _ = handle.close(py);
    }
}

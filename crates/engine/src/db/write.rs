//! The way of a write: check, be slowed if need be, wait for the turn, commit.

use super::core::Core;
use super::queue::{Leader, Request, Turn};
use crate::options::WriteOptions;
use esker_base::{Batch, Error, Result};

/// Writes a batch: all of it or, on an error, nothing.
///
/// The batch's memory is given back for reuse, its contents are unspecified.
pub(super) fn write(core: &Core, batch: &mut Batch, options: WriteOptions) -> Result<()> {
    core.check_writable()?;
    batch.check()?;
    if batch.is_empty() && !options.sync {
        return Ok(());
    }
    core.admit(batch.size_bytes() as u64);
    let request = Request { batch: std::mem::take(batch), sync: options.sync };
    let result = match core.queue.enter(request) {
        Turn::Done(result, returned) => {
            *batch = returned;
            result
        }
        Turn::Lead(leader, request) => lead(core, leader, request, batch),
    };
    core.run_inline();
    result
}

/// Writes the group that this thread leads.
fn lead(core: &Core, mut leader: Leader<'_>, request: Request, batch: &mut Batch) -> Result<()> {
    let mut guard = core.commit.lock();
    // The list of followers is taken late: whoever came while the lock was waited for is in.
    let mut group = vec![request];
    leader.gather(group[0].batch.size_bytes(), &mut group);
    let watch = PanicWatch { core };
    let mut results = match guard.as_mut() {
        Some(commit) => commit.write(core, &mut group),
        None => group.iter().map(|_| Err(Error::Cancelled)).collect(),
    };
    drop(watch);
    drop(guard);
    for (at, (request, result)) in group.drain(1..).zip(results.drain(1..)).enumerate() {
        leader.answer(at, result, request.batch);
    }
    drop(leader);
    if let Some(own) = group.pop() {
        *batch = own.batch;
    }
    results.pop().unwrap_or(Err(Error::Cancelled))
}

/// Poisons the database if a commit panics half-way.
struct PanicWatch<'a> {
    core: &'a Core,
}

impl Drop for PanicWatch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.core.poison("a writing thread panicked".to_owned());
        }
    }
}

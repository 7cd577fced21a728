//! Which compactions are under way in a keyspace.

use crate::trace::Running;
use esker_base::sync::Mutex;

/// The compactions of one keyspace that are under way, the oldest first, each with a number of its
/// own.
#[derive(Debug, Default)]
pub(super) struct Underway {
    jobs: Mutex<(u64, Vec<(u64, Running)>)>,
}

/// A compaction counts as under way for as long as this lives.
pub(super) struct Mark<'a> {
    underway: &'a Underway,
    job: u64,
}

impl Underway {
    pub(super) fn begin(&self, running: Running) -> Mark<'_> {
        let mut jobs = self.jobs.lock();
        jobs.0 += 1;
        let job = jobs.0;
        jobs.1.push((job, running));
        Mark { underway: self, job }
    }

    pub(super) fn running(&self) -> Vec<Running> {
        self.jobs.lock().1.iter().map(|(_, running)| *running).collect()
    }
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        self.underway.jobs.lock().1.retain(|(job, _)| *job != self.job);
    }
}

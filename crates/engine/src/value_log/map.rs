//! Which file holds the values of which log.

use super::file::ValueFile;
use esker_base::sync::ArcSwap;
use std::sync::Arc;

/// The files with values at one moment, by the logs whose values they hold. Immutable.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueMap {
    /// Ascending by log.
    by_log: Vec<(u64, Arc<ValueFile>)>,
}

impl ValueMap {
    /// The file that holds the values of a log.
    #[inline]
    pub(crate) fn find(&self, log: u64) -> Option<&Arc<ValueFile>> {
        let at = self.by_log.binary_search_by_key(&log, |(number, _)| *number).ok()?;
        Some(&self.by_log[at].1)
    }

    /// This map without some files, by their numbers, and then with others.
    ///
    /// # Errors
    /// A file that is to leave is not there, or two files hold the values of one log.
    pub(crate) fn changed(
        &self,
        removed: &[u64],
        added: Vec<Arc<ValueFile>>,
    ) -> Result<ValueMap, &'static str> {
        let known = |number: &u64| self.by_log.iter().any(|(_, file)| file.meta.number == *number);
        if !removed.iter().all(known) {
            return Err("a removed file with values is not there");
        }
        let mut by_log = self.by_log.clone();
        by_log.retain(|(_, file)| !removed.contains(&file.meta.number));
        for file in added {
            by_log.extend(file.meta.logs.iter().map(|&log| (log, file.clone())));
        }
        by_log.sort_by_key(|(log, _)| *log);
        if by_log.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err("two files hold the values of one log");
        }
        Ok(ValueMap { by_log })
    }

    /// The files, each once.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<ValueFile>> {
        self.by_log
            .iter()
            .filter(|(log, file)| file.meta.logs.first() == Some(log))
            .map(|(_, file)| file)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_log.is_empty()
    }
}

/// The logs that the pointers of a memtable lead into. Grows while the memtable does.
pub(crate) struct LogList(ArcSwap<Vec<Arc<ValueFile>>>);

impl Default for LogList {
    fn default() -> LogList {
        LogList(ArcSwap::from_pointee(Vec::new()))
    }
}

impl std::fmt::Debug for LogList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.load().iter()).finish()
    }
}

impl LogList {
    /// Adds a log, unless it is the newest already. Under the right to write.
    pub(crate) fn add(&self, file: &Arc<ValueFile>) {
        let present = self.0.load();
        if present.last().is_some_and(|last| Arc::ptr_eq(last, file)) {
            return;
        }
        let mut longer = Vec::clone(&present);
        longer.push(file.clone());
        drop(present);
        self.0.store(Arc::new(longer));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.load().is_empty()
    }

    /// The log with this number.
    pub(crate) fn find(&self, log: u64) -> Option<Arc<ValueFile>> {
        self.0.load().iter().rfind(|file| file.meta.number == log).cloned()
    }
}

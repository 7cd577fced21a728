//! What the events of a store say of how far groups are persistent: as far as that an owner may cut
//! off its log, so nothing of it may be lost by whatever happens afterwards.

use esker::event::{Event, EventListener};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The newest index of each group that was told and not asked for.
#[derive(Clone, Default)]
pub(super) struct Told(Arc<Mutex<BTreeMap<Vec<u8>, u64>>>);

impl Told {
    /// Listens to one store after another.
    pub(super) fn listener(&self) -> Arc<dyn EventListener> {
        let told = self.clone();
        Arc::new(move |event: &Event| {
            if let Event::Persisted { groups, .. } = event {
                let newest = groups.iter().map(|told| (told.group.clone(), told.index));
                told.map(|indexes| indexes.extend(newest));
            }
        })
    }

    /// The newest index that was told of a group since it was asked for last.
    pub(super) fn take(&self, group: &[u8]) -> Option<u64> {
        self.map(|indexes| indexes.remove(group))
    }

    fn map<T>(&self, f: impl FnOnce(&mut BTreeMap<Vec<u8>, u64>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

//! Steps of traces: what listeners are told of a keyspace's tree.

use super::core::{Core, KeyspaceCore};
use super::underway::Mark;
use crate::compaction::policy;
use crate::event::Event;
use crate::trace::{Amount, Running, Step, What};
use crate::version::CompactionSpec;
use esker_base::sync::atomic::Ordering;

impl Core {
    /// Counts a compaction as under way, and tells listeners that it began.
    pub(super) fn begin_compaction<'a>(
        &self,
        keyspace: &'a KeyspaceCore,
        spec: &CompactionSpec,
    ) -> Mark<'a> {
        let mark = keyspace.underway.begin(Running {
            level: spec.level,
            output_level: spec.output_level,
            input: Amount::of(spec.tables().map(|(_, table)| table.meta.file_bytes)),
            since_us: self.env.clock.now_ns() / 1_000,
        });
        self.tell_step(keyspace, What::Started);
        mark
    }

    /// Tells listeners what happened to a tree.
    pub(super) fn tell_step(&self, keyspace: &KeyspaceCore, what: What) {
        if self.events.is_on() {
            let view = keyspace.view.load();
            let held = self.memtable_bytes.load(Ordering::Relaxed);
            let step = Step {
                at_us: self.env.clock.now_ns() / 1_000,
                what,
                user_bytes: keyspace.user_bytes.load(Ordering::Relaxed),
                memtable_bytes: view.memtables().map(|memtable| memtable.memory_bytes()).sum(),
                slowed_to: self.stall.slowed_to(held, self.memtables_limit_bytes),
                turn: keyspace.schedule.lock().turn(),
                levels: policy::shape(&view.version, &keyspace.compacted_by.load()),
                running: keyspace.underway.running(),
            };
            self.events.emit(&Event::Step { keyspace: keyspace.id, step });
        }
    }
}

//! Tests of the library from outside: each file is about one promise or one kind of failure.

mod carried_groups;
mod compact_for_scans;
mod compaction_parts;
mod deleted_groups;
mod destroy;
mod dropped_keyspace;
mod dropped_tail;
mod durable_close;
mod errors;
mod external;
mod failed_manifest;
mod filters;
mod indexes;
mod interrupted_creation;
mod log_space;
mod open_files;
mod open_refused;
mod repair_current;
mod run_index;
mod shapes;
mod steps;
mod support;
mod values;
mod values_ahead;
mod verify_read_only;
mod waiting;

//! Options of the engine as text: set by name, and listed.
//!
//! `name=value`, several with commas between:
//! `compaction=tiered,memtable_bytes=4MiB,compression=none,zstd:7`. A part without `=` goes on with
//! the value before it, and a comma inside of brackets or quotes is part of the value. Sizes may be
//! written `64MiB`, compressions `zstd:3`, filters `bloom:10`, groups `fixed:4` (so many bytes) and
//! `delimiter:/` (one byte of ASCII), and everything as JSON; `null` is nothing. A name is one of
//! [`Options`], or of [`KeyspaceOptions`], which then sets it for the default keyspace and those
//! without options of their own; `preset=edge` begins anew with a preset, which leaves key orders,
//! filter policies of one's own, and what may be created as they are.

mod list;
mod text;
mod value;

pub use list::{PRESETS, table, typed};
pub use text::{apply, apply_each, apply_to_keyspace, split};
pub use value::parse_size;

#[cfg(doc)]
use esker::{KeyspaceOptions, Options};

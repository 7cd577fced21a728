//! Tests of the real `esker` binary: every command, every kind of failure, and what is left on the
//! disk.

mod against_find;
mod commands;
mod errors;
mod faults;
mod fields;
mod find;
mod index;
mod interrupt;
mod keyspace;
mod leveldb;
mod load_files;
mod load_text;
mod real_data;
mod shell;
mod support;
mod tour;
mod traces;

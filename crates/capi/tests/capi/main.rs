//! Programs in C on our library, and on LevelDB's where that is installed.

mod forks;
mod leveldb;
mod native;
mod support;

//! The `esker` command.

fn main() {}

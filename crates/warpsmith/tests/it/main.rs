//! End-to-end tests: the real binary, a real compiler, a real database file.

mod campaigns;
mod evolve;
mod faults;
mod files;
mod help;
mod import;
mod keeping;
mod kills;
mod labs;
mod mcp;
mod remarks;
mod support;
mod tuning;

//! `warpsmith schema`: JSON Schema for editors.

use anyhow::Result;
use clap::{Args, ValueEnum};
use warpsmith_model::lab;

use super::Context;
use crate::output::json;

/// Print the JSON Schema of a lab's files, for editors
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Which file
    #[arg(value_enum, default_value = "lab")]
    file: File,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum File {
    /// lab.toml
    Lab,
    /// kernels/*.toml
    Contract,
    /// baselines/*.toml
    Baseline,
    /// front.toml
    Front,
}

pub fn run(_context: &Context, arguments: SchemaArgs) -> Result<()> {
    let kind = match arguments.file {
        File::Lab => lab::SchemaKind::Lab,
        File::Contract => lab::SchemaKind::Contract,
        File::Baseline => lab::SchemaKind::Baseline,
        File::Front => lab::SchemaKind::Front,
    };
    json(&lab::schema(kind))
}

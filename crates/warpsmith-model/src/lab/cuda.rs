//! What contracts say of CUDA kernels: grids, tensor maps, claims on the compiled code.

use super::contract::{Names, check_count};
use super::document::{Document, did_you_mean};
use super::files::{BuildFile, ContractFile, LaunchFile, Located, TensorMapFile};
use super::shapes::Shape;
use super::{Grid, Launch, Tensor, TensorMap};
use crate::{Expr, Params};

/// Swizzles that the copy engine knows, in bytes; 0 is none.
const SWIZZLES: [u32; 4] = [0, 32, 64, 128];

/// The extents that a tensor map may have.
const MOST_EXTENTS: usize = 5;

/// Checks a launch over a grid.
pub(super) fn check_launch(
    document: &mut Document<'_>,
    file: &LaunchFile,
    names: &Names<'_>,
    default: &Params,
    served: &[Shape],
) -> Option<Launch> {
    if let Some(blocks) = file.blocks.as_ref().or(file.chunk.as_ref()) {
        let help = "a CUDA launch has `grid`, `block` and, where needed, `cluster` and `smem`";
        let message = "`blocks` and `chunk` are for kernels of the CPU";
        document.report_with_help(blocks.span(), message, Some(help.to_string()));
    }
    let mut three = |what: &str, given: &Option<Located<Vec<Located<String>>>>| {
        let texts: &[Located<String>] = given.as_ref().map_or(&[], |texts| texts.as_slice());
        if texts.len() > 3 {
            let span = given.as_ref().map_or(0..0, Located::span);
            document.report(span, format!("`{what}` has {} extents; 3 is the limit", texts.len()));
            return None;
        }
        let mut extents = Vec::new();
        for text in texts {
            extents.push(check_count(document, text, names, default, served)?);
        }
        extents.resize_with(3, one);
        <[Expr; 3]>::try_from(extents).ok()
    };
    let grid = three("grid", &file.grid);
    let block = three("block", &file.block);
    let cluster = three("cluster", &file.cluster);
    for (what, given) in [("grid", &file.grid), ("block", &file.block)] {
        if given.is_none() {
            let help = format!("add `{what} = [\"..\"]`: one to three expressions");
            let message = format!("the launch of a CUDA kernel has no `{what}`");
            document.report_with_help(file.entry.span(), message, Some(help));
        }
    }
    let smem = match &file.smem {
        Some(text) => check_count(document, text, names, default, served)?,
        None => zero(),
    };
    let grid = grid?;
    let [x, y, z] = &grid;
    let blocks = Expr::parse(&format!("({}) * ({}) * ({})", x.text(), y.text(), z.text()));
    Some(Launch {
        entry: file.entry.to_string(),
        blocks: blocks.expect("a product of expressions is one"),
        chunk: one(),
        grid: Some(Grid { grid, block: block?, cluster: cluster?, smem }),
    })
}

/// Checks the tensor maps.
pub(super) fn check_tensor_maps(
    document: &mut Document<'_>,
    file: &ContractFile,
    tensors: &[&str],
    names: &Names<'_>,
    default: &Params,
    served: &[Shape],
) -> Vec<TensorMap> {
    document.check_unique(file.tma.iter().map(|map| &map.name), "tensor maps");
    let maps = file.tma.iter();
    maps.filter_map(|map| check_tensor_map(document, map, tensors, names, default, served))
        .collect()
}

fn check_tensor_map(
    document: &mut Document<'_>,
    file: &TensorMapFile,
    tensors: &[&str],
    names: &Names<'_>,
    default: &Params,
    served: &[Shape],
) -> Option<TensorMap> {
    document.check_identifier(&file.name, "tensor map");
    let tensor = tensors.iter().position(|name| *name == file.tensor.as_str());
    if tensor.is_none() {
        let message = format!("unknown tensor `{}`", *file.tensor);
        let help = did_you_mean(&file.tensor, tensors.iter().copied());
        document.report_with_help(file.tensor.span(), message, help);
    }
    if !SWIZZLES.contains(&file.swizzle) {
        let message = format!("a swizzle of {} bytes; it is 0, 32, 64 or 128", *file.swizzle);
        document.report(file.swizzle.span(), message);
    }
    if file.shape.is_empty() || file.shape.len() > MOST_EXTENTS {
        let message = format!("a tensor map has 1 to {MOST_EXTENTS} extents");
        document.report(file.shape.span(), message);
    }
    if file.box_.len() != file.shape.len() {
        let message =
            format!("the box has {} extents, the shape {}", file.box_.len(), file.shape.len());
        document.report(file.box_.span(), message);
    }
    let mut all = |texts: &[Located<String>]| -> Option<Vec<Expr>> {
        texts.iter().map(|text| check_count(document, text, names, default, served)).collect()
    };
    Some(TensorMap {
        name: file.name.to_string(),
        shape: all(&file.shape)?,
        box_extents: all(&file.box_)?,
        tensor: tensor?,
        swizzle: *file.swizzle,
    })
}

/// Refuses what has no meaning on the CPU.
pub(super) fn refuse_on_cpu(document: &mut Document<'_>, file: &ContractFile) {
    let mut refuse = |span: std::ops::Range<usize>, what: &str| {
        document.report(span, format!("`{what}` is for CUDA kernels"));
    };
    if let Some(arch) = &file.arch {
        refuse(arch.span(), "arch");
    }
    if let Some(compiler) = &file.compiler {
        refuse(compiler.span(), "compiler");
    }
    if let Some(map) = file.tma.first() {
        refuse(map.name.span(), "tma");
    }
    if let Some(build) = &file.build {
        refuse(build.span(), "build");
    }
    for launch in &file.launch {
        for (given, what) in
            [(&launch.grid, "grid"), (&launch.block, "block"), (&launch.cluster, "cluster")]
        {
            if let Some(given) = given {
                refuse(given.span(), what);
            }
        }
        if let Some(smem) = &launch.smem {
            refuse(smem.span(), "smem");
        }
    }
}

/// Checks the architecture: `sm_80`, `sm_90a`.
pub(super) fn check_arch(document: &mut Document<'_>, file: &ContractFile) -> Option<String> {
    let arch = file.arch.as_ref()?;
    let digits = arch.strip_prefix("sm_").map(|rest| rest.trim_end_matches(['a', 'f']));
    let is_arch = digits.is_some_and(|digits| {
        (2..=3).contains(&digits.len()) && digits.chars().all(|letter| letter.is_ascii_digit())
    });
    if !is_arch {
        let help = "an architecture is written like `sm_80` or `sm_90a`".to_string();
        let message = format!("unknown architecture `{}`", **arch);
        document.report_with_help(arch.span(), message, Some(help));
    }
    Some(arch.to_string())
}

impl From<&BuildFile> for super::BuildClaims {
    fn from(file: &BuildFile) -> Self {
        Self {
            instructions: file.instructions.clone(),
            max_registers: file.max_registers,
            max_spill_bytes: file.max_spill_bytes,
            max_smem_bytes: file.max_smem_bytes,
            allow_losses: file.allow_losses.clone(),
        }
    }
}

/// Returns the names of tensors.
pub(super) fn tensor_names(tensors: &[Tensor]) -> Vec<&str> {
    tensors.iter().map(|tensor| tensor.name.as_str()).collect()
}

fn one() -> Expr {
    Expr::parse("1").expect("a number is an expression")
}

fn zero() -> Expr {
    Expr::parse("0").expect("a number is an expression")
}

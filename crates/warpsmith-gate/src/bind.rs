//! Binds a lab's names to values: a kernel, its parameters and a workload become a [`Unit`] to
//! compile and a [`Program`] to launch. Pure functions; nothing is compiled here.

use std::time::Duration;

use warpsmith_device::cuda::limits;
use warpsmith_device::target::{
    Argument, Artifact, GemmPlan, GridLaunch, GridProgram, LaunchPlan, Program, TensorMapPlan,
    TensorPlan, Unit,
};
use warpsmith_model::lab::{
    Baseline, BaselineProgram, Kernel, ReferenceProgram, Role, Scalar, ScalarDraw, ScalarType,
    TargetKind, allowed_flags, is_compiler_name, lookup_all, refused_flag,
};
use warpsmith_model::rng::Rng;
use warpsmith_model::roofline::WorkSize;
use warpsmith_model::{DType, DeviceInfo, Expr, Lab, Params, Value, lab::Workload};

use crate::error::GateError;

/// The tunable that chooses the compiler.
const COMPILER_TUNABLE: &str = "CC";
/// The tunable that adds flags.
const FLAGS_TUNABLE: &str = "CFLAGS";
/// The compiler of kernels that do not choose one.
const DEFAULT_COMPILER: &str = "cc";
/// The most blocks of a launch on the CPU: as many as a tensor may have bytes, and few enough that sums of
/// their numbers do not overflow.
const MOST_BLOCKS: i64 = 1 << 40;
/// The most scratch: as many bytes as a tensor may have.
const MOST_SCRATCH_BYTES: u64 = 1 << 40;
/// The reference is compiled without contraction, so that it computes what its text says.
const REFERENCE_FLAGS: [&str; 3] = ["-O2", "-ffp-contract=off", "-lm"];

/// Returns what to compile for a kernel on a workload. Workloads with equal specialised axes give
/// equal units.
pub fn kernel_unit(
    lab: &Lab,
    kernel: &Kernel,
    params: &Params,
    workload: &Workload,
    device: &DeviceInfo,
    deadline: Duration,
) -> Result<Unit, GateError> {
    let (kernel, params) = chosen(kernel, params, workload)?;
    check_params(kernel, params)?;
    let mut defines: Vec<(String, String)> = params
        .0
        .iter()
        .filter(|(name, _)| *name != COMPILER_TUNABLE && *name != FLAGS_TUNABLE)
        .map(|(name, value)| (name.clone(), value.as_macro()))
        .collect();
    for axis in &kernel.specialize {
        let value = workload.axis(axis).ok_or_else(|| GateError::BadContract {
            kernel: kernel.name.clone(),
            reason: format!("`specialize` names `{axis}`, which is no axis of the lab"),
        })?;
        defines.push((axis.clone(), value.to_string()));
    }
    let (compiler, ending) = match lab.target {
        TargetKind::Cpu => (compiler_name(params), "c"),
        TargetKind::Cuda => (kernel.compiler.name().to_string(), "cu"),
    };
    let mut flags = Vec::new();
    if lab.target == TargetKind::Cuda {
        flags.push(format!("--gpu-architecture={}", architecture(kernel, device)?));
    }
    flags.extend(own_flags(lab.target, kernel, params)?);
    check_text(kernel, &compiler, lab.target, &defines)?;
    Ok(Unit {
        file_name: format!("{}.{ending}", kernel.name),
        source: kernel.source.clone(),
        headers: lab.headers.clone(),
        entries: entries(kernel),
        signature: signature(lab, workload, None, kernel.scratch.len()),
        defines,
        compiler,
        flags,
        deadline,
    })
}

/// Returns the flags of a contract and those that its parameters add.
fn own_flags(
    target: TargetKind,
    kernel: &Kernel,
    params: &Params,
) -> Result<Vec<String>, GateError> {
    let mut flags = kernel.flags.clone();
    if let Some(further) = params.get(FLAGS_TUNABLE) {
        flags.extend(further.to_string().split_whitespace().map(str::to_string));
    }
    let Some(refused) = refused_flag(target, flags.iter().map(String::as_str)) else {
        return Ok(flags);
    };
    let whose = if refused < kernel.flags.len() { "`flags`" } else { "`CFLAGS`" };
    Err(GateError::Uncompilable {
        kernel: kernel.name.clone(),
        reason: format!(
            "the flag `{}` in the {whose} of {}.toml may not reach a compiler: {}",
            flags[refused],
            kernel.name,
            allowed_flags(target)
        ),
    })
}

/// Refuses a compiler that could be any program, and macros that could be more than macros.
fn check_text(
    kernel: &Kernel,
    compiler: &str,
    target: TargetKind,
    defines: &[(String, String)],
) -> Result<(), GateError> {
    let bad = |reason| Err(GateError::Uncompilable { kernel: kernel.name.clone(), reason });
    if target == TargetKind::Cpu && !is_compiler_name(compiler) {
        return bad(format!(
            "`CC` is `{compiler}`; it may be cc, gcc or clang, with a version (`gcc-13`) or without: a \
             compiler that is elsewhere is found when its folder is on PATH"
        ));
    }
    for (name, value) in defines {
        let define = format!("-D{name}={value}");
        if refused_flag(target, [define.as_str()]).is_some() {
            return bad(format!(
                "the value {value:?} of `{name}` cannot be a macro: it must be one line, and for a CUDA \
                 kernel without `$` and backquotes"
            ));
        }
    }
    Ok(())
}

/// Returns the distinct units of a kernel on several workloads, in their order.
pub fn kernel_units(
    lab: &Lab,
    kernel: &Kernel,
    params: &Params,
    workloads: &[&Workload],
    device: &DeviceInfo,
    deadline: Duration,
) -> Result<Vec<Unit>, GateError> {
    let mut units: Vec<Unit> = Vec::new();
    for workload in workloads {
        let unit = kernel_unit(lab, kernel, params, workload, device, deadline)?;
        if !units.contains(&unit) {
            units.push(unit);
        }
    }
    Ok(units)
}

/// Returns the name of the compiler that parameters choose.
pub fn compiler_name(params: &Params) -> String {
    params.get(COMPILER_TUNABLE).map_or_else(|| DEFAULT_COMPILER.to_string(), Value::to_string)
}

/// Returns all it takes to launch a compiled kernel on a workload.
pub fn kernel_program(
    lab: &Lab,
    kernel: &Kernel,
    params: &Params,
    workload: &Workload,
    device: &DeviceInfo,
    artifact: Artifact,
) -> Result<Program, GateError> {
    let (kernel, params) = chosen(kernel, params, workload)?;
    let lookup = lookup_all(workload, params, device);
    let bad = |reason: String| unlaunchable(kernel, workload, reason);
    let integer = |what: &str, expr: &Expr| {
        expr.eval_int(&lookup).map_err(|source| {
            let (name, text) = (&workload.name, expr.text());
            bad(format!("{what} on `{name}`: `{text}`: {source}"))
        })
    };
    let entries = entries(kernel);
    let mut launches = Vec::new();
    for launch in &kernel.launches {
        let blocks = integer("blocks", &launch.blocks)?;
        let chunk = integer("chunk", &launch.chunk)?;
        if blocks < 1 || chunk < 1 {
            return Err(bad(format!(
                "launch `{}` on `{}` has {blocks} blocks in chunks of {chunk}; both must be at \
                 least 1",
                launch.entry, workload.name
            )));
        }
        if lab.target == TargetKind::Cpu && blocks > MOST_BLOCKS {
            return Err(bad(format!(
                "launch `{}` on `{}` has {blocks} blocks; {MOST_BLOCKS} are the most",
                launch.entry, workload.name
            )));
        }
        let entry = entries.iter().position(|entry| *entry == launch.entry);
        launches.push(LaunchPlan {
            entry: entry.expect("entries lists every launch"),
            blocks,
            chunk,
        });
    }
    let mut scratch = Vec::new();
    for buffer in &kernel.scratch {
        let bytes = integer("scratch", &buffer.bytes)?;
        let bytes = u64::try_from(bytes).map_err(|_| {
            bad(format!("scratch `{}` on `{}` has {bytes} bytes", buffer.name, workload.name))
        })?;
        scratch.push(bytes);
    }
    let wanted = scratch.iter().copied().fold(0, u64::saturating_add);
    let memory_bytes = device.cuda.as_ref().map_or(u64::MAX, |cuda| cuda.memory_bytes);
    let most = MOST_SCRATCH_BYTES.min(memory_bytes);
    if wanted > most {
        let workload = &workload.name;
        return Err(bad(format!(
            "its scratch on `{workload}` has {wanted} bytes; {most} are the most"
        )));
    }
    let tensors = tensor_plans(lab, workload)?;
    Ok(Program {
        artifact,
        axes: axis_values(lab, workload),
        scalars: scalar_values(lab, workload)?,
        scratch,
        launches,
        grid: grid_program(lab, kernel, workload, &tensors, &integer)?,
        gemm: None,
        tensors,
    })
}

fn unlaunchable(kernel: &Kernel, workload: &Workload, reason: String) -> GateError {
    let workload = workload.name.clone();
    GateError::Unlaunchable { kernel: kernel.name.clone(), workload, reason }
}

/// Returns the architecture to compile a kernel for: the device's, if the kernel runs on it.
pub fn architecture(kernel: &Kernel, device: &DeviceInfo) -> Result<String, GateError> {
    let bad = |reason: String| GateError::BadContract { kernel: kernel.name.clone(), reason };
    let Some(cuda) = &device.cuda else {
        return Err(bad(format!("it is a CUDA kernel, and {} is no CUDA device", device.name)));
    };
    let number = |arch: &str| -> u32 {
        arch.trim_start_matches("sm_").trim_end_matches(['a', 'f']).parse().unwrap_or(0)
    };
    let Some(wanted) = &kernel.arch else { return Ok(cuda.arch.clone()) };
    // What is in an `a` variant is on no other architecture.
    let runs = match wanted.ends_with('a') {
        true => number(wanted) == number(&cuda.arch),
        false => number(wanted) <= number(&cuda.arch),
    };
    if !runs {
        return Err(bad(format!("it needs {wanted}, and {} has {}", device.name, cuda.arch)));
    }
    Ok(cuda.arch.clone())
}

/// Evaluates what a CUDA kernel's contract says of its launches; none for other kernels.
fn grid_program(
    lab: &Lab,
    kernel: &Kernel,
    workload: &Workload,
    tensors: &[TensorPlan],
    integer: &dyn Fn(&str, &Expr) -> Result<i64, GateError>,
) -> Result<Option<GridProgram>, GateError> {
    if lab.target != TargetKind::Cuda {
        return Ok(None);
    }
    let bad = |reason: String| unlaunchable(kernel, workload, reason);
    let within = |what: &str, expr: &Expr, least: i64, most: i64| -> Result<u32, GateError> {
        let value = integer(what, expr)?;
        if !(least..=most).contains(&value) {
            let text = expr.text();
            return Err(bad(format!("{what} `{text}` is {value}; it is {least} to {most}")));
        }
        Ok(value as u32)
    };
    let three = |what: &str, exprs: &[Expr; 3], most: [i64; 3]| {
        let mut values = [1; 3];
        for (value, (expr, most)) in values.iter_mut().zip(exprs.iter().zip(most)) {
            *value = within(what, expr, 1, most)?;
        }
        Ok::<[u32; 3], GateError>(values)
    };
    let mut launches = Vec::new();
    for launch in &kernel.launches {
        let Some(grid) = &launch.grid else {
            return Err(bad(format!("launch `{}` has no grid", launch.entry)));
        };
        let planned = GridLaunch {
            entry: launch.entry.clone(),
            grid: three("grid", &grid.grid, [i64::from(i32::MAX), 65535, 65535])?,
            block: three("block", &grid.block, [1024, 1024, 64])?,
            cluster: three("cluster", &grid.cluster, [16, 16, 16])?,
            smem_bytes: within("smem", &grid.smem, 0, i64::from(i32::MAX))?,
        };
        let at = |reason| bad(format!("launch `{}`: {reason}", launch.entry));
        limits::check_launch(&planned).map_err(at)?;
        launches.push(planned);
    }
    let mut maps = Vec::new();
    for map in &kernel.tensor_maps {
        let mut extents = Vec::new();
        for extent in &map.shape {
            extents.push(u64::from(within(
                "shape of a tensor map",
                extent,
                1,
                i64::from(u32::MAX),
            )?));
        }
        let mut box_extents = Vec::new();
        for extent in &map.box_extents {
            box_extents.push(within("box of a tensor map", extent, 1, 256)?);
        }
        let planned =
            TensorMapPlan { tensor: map.tensor, extents, box_extents, swizzle: map.swizzle };
        limits::check_map(&planned, &tensors[map.tensor])
            .map_err(|reason| bad(format!("tensor map `{}`: {reason}", map.name)))?;
        maps.push(planned);
    }
    let scalar_types = lab.scalars.iter().map(|scalar| scalar.dtype).collect();
    Ok(Some(GridProgram { launches, maps, scalar_types }))
}

/// Returns what to compile for the lab's reference; none where it is a script.
pub fn reference_unit(lab: &Lab, deadline: Duration) -> Option<Unit> {
    let ReferenceProgram::Function { entry, .. } = &lab.reference.program else { return None };
    Some(Unit {
        // A lab for another target may share the reference of the lab around it.
        file_name: lab.reference.path.trim_start_matches("../").to_string(),
        source: lab.reference.source.clone(),
        headers: lab.headers.clone(),
        entries: vec![entry.clone()],
        signature: reference_signature(lab, DType::F64),
        defines: Vec::new(),
        compiler: DEFAULT_COMPILER.to_string(),
        flags: REFERENCE_FLAGS.map(str::to_string).to_vec(),
        deadline,
    })
}

/// Returns the arguments of the reference where every tensor has this type.
pub(crate) fn reference_signature(lab: &Lab, dtype: DType) -> Vec<Argument> {
    signature(lab, &lab.workloads[0], Some(dtype), 0)
}

/// Returns all it takes to launch the compiled reference on a shape: every tensor is f64.
pub fn reference_program(
    lab: &Lab,
    workload: &Workload,
    artifact: Artifact,
) -> Result<Program, GateError> {
    let ReferenceProgram::Function { blocks, .. } = &lab.reference.program else {
        let reason = "its reference is a script, which has no blocks";
        return Err(GateError::refused(&lab.name, reason));
    };
    let blocks =
        blocks.eval_int(&|name| workload.lookup(name)).map_err(|source| GateError::Expression {
            what: format!("blocks of the reference on `{}`", workload.name),
            source,
        })?;
    if blocks < 1 {
        return Err(GateError::refused(
            &lab.name,
            format!("the reference has {blocks} blocks on `{}`", workload.name),
        ));
    }
    Ok(Program {
        artifact,
        tensors: widened(&tensor_plans(lab, workload)?),
        axes: axis_values(lab, workload),
        scalars: scalar_values(lab, workload)?,
        scratch: Vec::new(),
        // A block of a reference can be a single element: handing them out one by one would cost
        // more than computing them.
        launches: vec![LaunchPlan { entry: 0, blocks, chunk: (blocks / 64).max(1) }],
        grid: None,
        gemm: None,
    })
}

/// Returns the matrix product that a baseline leaves to a library; none where it is a script.
pub fn baseline_gemm(
    lab: &Lab,
    baseline: &Baseline,
    workload: &Workload,
) -> Result<Option<GemmPlan>, GateError> {
    let BaselineProgram::CublasLt(product) = &baseline.program else { return Ok(None) };
    let bad = |reason: String| GateError::BadContract { kernel: baseline.name.clone(), reason };
    let tensors = tensor_plans(lab, workload)?;
    let matrix = |name: &str, role: Role| {
        let idx = tensors.iter().position(|tensor| tensor.name == name && tensor.role == role);
        let idx = idx.ok_or_else(|| bad(format!("`{name}` is no {role:?} tensor of the lab")))?;
        match tensors[idx].shape[..] {
            [rows, columns] => Ok((idx, rows, columns)),
            _ => Err(bad(format!("`{name}` is no matrix: its shape is {:?}", tensors[idx].shape))),
        }
    };
    let (a, m, k) = matrix(&product.a, Role::Input)?;
    let (b, b_rows, b_columns) = matrix(&product.b, Role::Input)?;
    let (c, c_rows, n) = matrix(&product.c, Role::Output)?;
    let expected = if product.b_transposed { (n, k) } else { (k, n) };
    if (b_rows, b_columns) != expected || c_rows != m {
        return Err(bad(format!(
            "on `{}` the extents of `{}`, `{}` and `{}` are not those of a product: {m},{k} and \
             {b_rows},{b_columns} (transposed: {}) and {c_rows},{n}",
            workload.name, product.a, product.b, product.c, product.b_transposed
        )));
    }
    let (a_dtype, b_dtype) = (tensors[a].dtype, tensors[b].dtype);
    if a_dtype != b_dtype || [a_dtype, tensors[c].dtype].contains(&DType::F64) {
        return Err(bad(format!(
            "`{}` and `{}` must have one type, and sums are in single precision: no f64",
            product.a, product.b
        )));
    }
    Ok(Some(GemmPlan { a, b, c, m, n, k, b_transposed: product.b_transposed }))
}

/// Returns the tensors of a shape with their extents, in argument order.
pub fn tensor_plans(lab: &Lab, workload: &Workload) -> Result<Vec<TensorPlan>, GateError> {
    lab.tensors
        .iter()
        .map(|tensor| {
            let shape = tensor.extents(workload).map_err(|source| GateError::Expression {
                what: format!("shape of tensor `{}` on `{}`", tensor.name, workload.name),
                source,
            })?;
            Ok(TensorPlan {
                name: tensor.name.clone(),
                shape,
                dtype: tensor.dtype_on(workload),
                role: tensor.role,
            })
        })
        .collect()
}

/// Returns the same tensors in f64, as the reference sees them.
pub fn widened(plans: &[TensorPlan]) -> Vec<TensorPlan> {
    plans.iter().map(|plan| TensorPlan { dtype: DType::F64, ..plan.clone() }).collect()
}

/// Returns the work that a workload is.
pub fn work_size(lab: &Lab, workload: &Workload) -> Result<WorkSize, GateError> {
    lab.work(workload).map_err(|source| GateError::Expression {
        what: format!("work of `{}`", workload.name),
        source,
    })
}

/// Returns the values of the axes, in argument order.
pub fn axis_values(lab: &Lab, workload: &Workload) -> Vec<i64> {
    lab.axes
        .iter()
        .map(|axis| workload.axis(axis).expect("a validated workload fixes every axis"))
        .collect()
}

/// Returns the values of the scalars, in argument order: the lab's, or those that were drawn for this shape.
pub fn scalar_values(lab: &Lab, workload: &Workload) -> Result<Vec<f64>, GateError> {
    lab.scalars
        .iter()
        .map(|scalar| {
            if let Some((_, drawn)) = workload.scalars.iter().find(|it| it.0 == scalar.name) {
                return Ok(*drawn);
            }
            let what = format!("scalar `{}` on `{}`", scalar.name, workload.name);
            match scalar.value.eval(&|name| workload.lookup(name)) {
                Ok(Value::Str(_)) => Err(GateError::refused(&lab.name, format!("{what} is text"))),
                Ok(value) => Ok(value.as_f64().expect("all but text are numbers")),
                Err(source) => Err(GateError::Expression { what, source }),
            }
        })
        .collect()
}

/// Draws the scalars of a shape that vary; the same seed gives the same. A kernel that has the lab's values in
/// its source, or derives them from the shape, is wrong with these.
pub fn with_drawn_scalars(lab: &Lab, shape: &Workload, seed: u64) -> Result<Workload, GateError> {
    let values = scalar_values(lab, &Workload { scalars: Vec::new(), ..shape.clone() })?;
    let mut rng = Rng::derive(seed, &format!("scalars of {}", describe_shape(shape)));
    let draw = |(scalar, value): (&Scalar, f64)| {
        let drawn = match &scalar.draw {
            ScalarDraw::Fixed => return None,
            ScalarDraw::Drawn { factors, values, .. } => match factors {
                // Either in turn, where there are both.
                Some((low, high)) if values.is_empty() || rng.below(2) == 0 => {
                    let factor = draw_factor(*low, *high, rng.unit());
                    if value == 0.0 { factor } else { value * factor }
                }
                _ => values[rng.below(values.len())],
            },
        };
        // What every callee sees alike.
        let drawn = match scalar.dtype {
            ScalarType::F32 => f64::from(drawn as f32),
            ScalarType::F64 => drawn,
            ScalarType::I64 => drawn.round(),
        };
        Some((scalar.name.clone(), drawn))
    };
    let scalars = lab.scalars.iter().zip(values).filter_map(draw).collect();
    Ok(Workload { scalars, ..shape.clone() })
}

/// Returns a factor between two, the further along the larger `unit` is: along the logarithm where both have one
/// sign. Evenly drawn, one between a hundredth and ten is hardly ever a small one.
fn draw_factor(low: f64, high: f64, unit: f64) -> f64 {
    if low * high > 0.0 {
        let factor = low.signum() * (low.abs().ln() + unit * (high / low).ln()).exp();
        return factor.clamp(low, high);
    }
    low + unit * (high - low)
}

/// Says whether extents make a shape of the lab: every expression over them has a value, and the oracle,
/// which may have to answer, serves it.
pub(crate) fn is_shape(lab: &Lab, shape: &Workload) -> bool {
    let lookup = |name: &str| shape.lookup(name);
    let is_positive = |expr: &Expr| expr.eval_int(&lookup).is_ok_and(|value| value > 0);
    let has_blocks = match &lab.reference.program {
        ReferenceProgram::Function { blocks, .. } => is_positive(blocks),
        ReferenceProgram::Script(_) => true,
    };
    let oracle = lab.oracle.as_deref().and_then(|name| lab.kernel(name));
    has_blocks
        && oracle.is_none_or(|oracle| oracle.serves(shape) == Ok(true))
        && lab.tensors.iter().all(|tensor| tensor.shape.iter().all(is_positive))
        && lab.work(shape).is_ok_and(|work| work.flops > 0.0 && work.bytes > 0.0)
        && scalar_values(lab, shape).is_ok_and(|values| values.iter().all(|it| it.is_finite()))
}

/// Returns the bytes of all tensors of a shape together.
pub(crate) fn total_bytes(lab: &Lab, shape: &Workload) -> Result<f64, GateError> {
    let bytes = |plan: &TensorPlan| {
        plan.shape.iter().fold(plan.dtype.size() as f64, |bytes, extent| bytes * *extent as f64)
    };
    Ok(tensor_plans(lab, shape)?.iter().map(bytes).sum())
}

/// Says a shape in words (`odd (N=1023)`), with the scalars that were drawn for it.
pub fn describe_shape(workload: &Workload) -> String {
    let axes = workload.axes.iter().map(|(name, value)| format!("{name}={value}"));
    let number = |value: f64| match f64::from(value as f32) == value {
        true => format!("{:?}", value as f32),
        false => format!("{value:?}"),
    };
    let scalars = workload.scalars.iter().map(|(name, value)| format!("{name}={}", number(*value)));
    let all: Vec<String> = axes.chain(scalars).collect();
    format!("{} ({})", workload.name, all.join(" "))
}

/// Returns what runs on a workload: the kernel, or the one that a front chooses.
pub(crate) fn chosen<'a>(
    kernel: &'a Kernel,
    params: &'a Params,
    workload: &Workload,
) -> Result<(&'a Kernel, &'a Params), GateError> {
    let (kernel, params) = kernel.on(workload, params).map_err(|source| {
        let what = format!("`requires` of a kernel of `{}`", kernel.name);
        GateError::Expression { what, source }
    })?;
    if kernel.launches.is_empty() {
        let reason = format!("it serves no shape like {}", describe_shape(workload));
        return Err(GateError::BadContract { kernel: kernel.name.clone(), reason });
    }
    Ok((kernel, params))
}

fn check_params(kernel: &Kernel, params: &Params) -> Result<(), GateError> {
    let bad = |reason: String| Err(GateError::BadParams { kernel: kernel.name.clone(), reason });
    for tunable in &kernel.tunables {
        if params.get(&tunable.name).is_none() {
            return bad(format!("`{}` has no value", tunable.name));
        }
    }
    for name in params.0.keys() {
        if !kernel.tunables.iter().any(|tunable| tunable.name == *name) {
            return bad(format!("`{name}` is no tunable"));
        }
    }
    Ok(())
}

fn entries(kernel: &Kernel) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for launch in &kernel.launches {
        if !entries.contains(&launch.entry) {
            entries.push(launch.entry.clone());
        }
    }
    entries
}

fn signature(
    lab: &Lab,
    workload: &Workload,
    dtype: Option<DType>,
    n_scratch: usize,
) -> Vec<Argument> {
    let tensors = lab
        .tensors
        .iter()
        .map(|tensor| Argument::Tensor(dtype.unwrap_or(tensor.dtype_on(workload)), tensor.role));
    let axes = lab.axes.iter().map(|_| Argument::Axis);
    let scalars = lab.scalars.iter().map(|scalar| Argument::Scalar(scalar.dtype));
    let scratch = (0..n_scratch).map(|_| Argument::Scratch);
    tensors.chain(axes).chain(scalars).chain(scratch).collect()
}

/// Returns the indices of the tensors of a role.
pub(crate) fn indices_of(plans: &[TensorPlan], role: Role) -> Vec<usize> {
    (0..plans.len()).filter(|idx| plans[*idx].role == role).collect()
}

#[cfg(test)]
mod factor_tests {
    use super::draw_factor;

    /// Between a hundredth and ten, factors below a tenth used to be one in a hundred.
    #[test]
    fn small_factors_are_drawn_as_often_as_large_ones() {
        assert!((draw_factor(0.01, 10.0, 1.0 / 3.0) - 0.1).abs() < 1e-12);
        assert!((draw_factor(-10.0, -0.01, 1.0 / 3.0) + 1.0).abs() < 1e-12);
        for unit in [0.0, 0.5, 1.0] {
            assert!((0.01..=10.0).contains(&draw_factor(0.01, 10.0, unit)));
        }
        assert_eq!(draw_factor(-2.0, 4.0, 0.5), 1.0, "there is no logarithm across zero");
        assert_eq!(draw_factor(0.0, 4.0, 0.5), 2.0);
    }
}

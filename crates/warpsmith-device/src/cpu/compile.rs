//! Turns a [`Unit`] into an [`Artifact`].
//!
//! The kernel's source is included into a small translation unit that first declares the entries with
//! the types that the lab demands, so that a mismatch is an error at the kernel's own line, and then
//! defines one exported shim per entry, which unpacks the arguments. Builds are reproducible: relative
//! paths, no debug information, no time stamps; equal inputs give equal bytes in every folder.
//!
//! Only successes are cached. A failure may be the machine's (memory, disk, a kill), telling so from
//! the compiler's words is guesswork, and nobody asks twice for a candidate that failed.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Component, Path};
use std::time::Instant;

use warpsmith_model::lab::{Role, ScalarType};
use warpsmith_model::{BlobId, CrashCause, DType, Hasher};

use super::prelude::{CachedPrelude, Prelude};
use super::{artifacts, info, toolchain};
use crate::target::{Argument, Artifact, Fault, Unit};

/// The translation unit around the kernel.
const UNIT_FILE: &str = "warpsmith_unit.c";

/// What the compiler makes.
const BINARY_FILE: &str = "kernel.so";

/// The folder of the headers.
const INCLUDE_DIR: &str = "include";

/// Flags before the unit's own, which may override them.
const BASE_FLAGS: [&str; 8] = [
    "-shared",
    "-fPIC",
    "-std=gnu11",
    "-fvisibility=hidden",
    "-fno-ident",
    "-frandom-seed=warpsmith",
    "-Werror=implicit-function-declaration",
    "-Iinclude",
];

/// Flags after the unit's own, which it may not override: nothing of the folder's name and no
/// missing function ends up in a binary.
const FINAL_FLAGS: [&str; 7] =
    ["-g0", "-Wl,--build-id=none", "-Wl,-z,defs", "-o", BINARY_FILE, UNIT_FILE, "-lm"];

/// Returns the name of the shim around an entry.
pub(crate) fn entry_symbol(entry: usize) -> String {
    format!("warpsmith_entry_{entry}")
}

/// Compiles a unit, or finds it in the cache by the hash of everything that goes in. Needs no
/// target and may be called by several threads and processes at once.
pub fn compile_unit(cache_dir: &Path, unit: &Unit) -> Result<Artifact, Fault> {
    let tool = toolchain::find(&unit.compiler)?;
    let wrapper = wrapper(unit);
    let arguments = arguments(unit);
    let key = key(unit, &tool, &wrapper, &arguments);
    artifacts::find_or_build(cache_dir, &key, unit.deadline, || {
        let place = CachedPrelude::of(cache_dir, unit, &tool);
        let prelude = place.as_ref().and_then(|place| place.prelude(unit));
        let build = |prelude: Option<&Prelude>| build(cache_dir, unit, &tool, &wrapper, prelude);
        let plainly = || -> Result<Built, Fault> {
            let started = Instant::now();
            match build(prelude.as_deref()) {
                // Only what a unit says by itself counts; one that takes too long would again.
                Err(Fault::Compile { .. })
                    if prelude.is_some() && started.elapsed() < unit.deadline =>
                {
                    build(None)
                }
                built => built,
            }
        };
        let is_maker = prelude.is_none() && place.as_ref().is_some_and(CachedPrelude::is_time);
        let built = match place.filter(|_| is_maker) {
            None => plainly(),
            Some(place) => std::thread::scope(|scope| {
                let (sender, plain) = std::sync::mpsc::channel();
                // Beside the build, which a search waits for: precompiling takes longer.
                scope.spawn(|| {
                    let is_the_same = move |prelude: &Prelude| {
                        let again = build(Some(prelude)).map(|built| BlobId::of(&built.bytes));
                        // Nothing is received where the unit does not compile by itself.
                        again
                            .ok()
                            .zip(plain.recv().ok())
                            .is_some_and(|(again, plain)| again == plain)
                    };
                    // Without a prelude everything is as it was, only slower.
                    let _ = place.make(unit, &tool, &BASE_FLAGS, is_the_same);
                });
                let built = plainly();
                match &built {
                    // Nobody listens where precompiling has failed.
                    Ok(built) => drop(sender.send(BlobId::of(&built.bytes))),
                    Err(_) => place.leave_to_next(),
                }
                built
            }),
        }?;
        let command = std::iter::once(unit.compiler.clone()).chain(arguments).collect();
        artifacts::store(cache_dir, &key, &built.bytes, command, built.log, built.compile_s)
            .map_err(artifacts::building_in(cache_dir))
    })
}

/// Says that many units like this one will be compiled, with other macros: what they share is then
/// prepared with the first of them.
pub fn expect_many(cache_dir: &Path, unit: &Unit) -> Result<(), Fault> {
    let tool = toolchain::find(&unit.compiler)?;
    if let Some(place) = CachedPrelude::of(cache_dir, unit, &tool) {
        place.expect_many();
    }
    Ok(())
}

/// What a compiler made of a unit.
struct Built {
    bytes: Vec<u8>,
    log: String,
    compile_s: f64,
}

/// Runs the compiler in a folder of its own.
fn build(
    cache_dir: &Path,
    unit: &Unit,
    tool: &toolchain::Tool,
    wrapper: &str,
    prelude: Option<&Prelude>,
) -> Result<Built, Fault> {
    let broken = |source| Fault::Broken { what: in_words("building in", cache_dir), source };
    let folder = artifacts::WorkFolder::create(&artifacts::build_dir(cache_dir)).map_err(broken)?;
    write_sources(folder.path(), unit, wrapper).map_err(broken)?;
    let mut command = arguments(unit);
    command.extend(prelude.into_iter().flat_map(Prelude::arguments));
    let readable = prelude.map(Prelude::folder);
    let started = Instant::now();
    let output = toolchain::run(&tool.path, &command, folder.path(), readable, unit.deadline)
        .map_err(|source| toolchain::start_fault(&tool.path, &command, source))?;
    let compile_s = started.elapsed().as_secs_f64();
    match output.end {
        toolchain::End::Exited(0) => match artifacts::take(&folder.path().join(BINARY_FILE)) {
            Ok(bytes) => Ok(Built { bytes, log: output.log, compile_s }),
            Err(message) => Err(Fault::Compile { message, log: output.log }),
        },
        // Twice, and by nobody here.
        end if end.is_foreign() => Err(Fault::Crashed(CrashCause::from_outside())),
        // Whatever it said before, this is why it did not finish.
        end @ (toolchain::End::TimedOut(_) | toolchain::End::TookMemory(_)) => {
            Err(Fault::Compile { message: end.in_words(), log: output.log })
        }
        end => {
            if output.log.contains("No space left on device") && is_full(folder.path()) {
                let source = io::Error::new(io::ErrorKind::StorageFull, output.log);
                return Err(broken(source));
            }
            let message = first_error(&output.log).unwrap_or_else(|| end.in_words());
            Err(Fault::Compile { message, log: output.log })
        }
    }
}

/// Says whether a folder's disk has no room for what a compiler writes. The log alone does not tell: it
/// quotes the candidate, which may complain of a full disk to end a campaign.
fn is_full(folder: &Path) -> bool {
    const ROOM_BYTES: usize = 16 << 20;
    // Not where the compiler may have left something under this name, a link for one.
    let written = File::create_new(folder.join("room"))
        .and_then(|mut file| file.write_all(&vec![1; ROOM_BYTES]));
    written.is_err_and(|error| error.kind() == io::ErrorKind::StorageFull)
}

fn in_words(doing: &str, path: &Path) -> String {
    format!("{doing} {}", path.display())
}

fn arguments(unit: &Unit) -> Vec<String> {
    let defines = unit.defines.iter().map(|(name, value)| format!("-D{name}={value}"));
    let owned = |flag: &&str| (*flag).to_string();
    BASE_FLAGS
        .iter()
        .map(owned)
        .chain(unit.flags.iter().cloned())
        .chain(defines)
        .chain(FINAL_FLAGS.iter().map(owned))
        .collect()
}

fn key(unit: &Unit, tool: &toolchain::Tool, wrapper: &str, arguments: &[String]) -> BlobId {
    let mut hasher = Hasher::new("unit");
    hasher.part(tool.path.as_os_str().as_encoded_bytes());
    hasher.part(tool.version.as_bytes());
    hasher.part(unit.file_name.as_bytes()).part(unit.source.as_bytes());
    hasher.part(wrapper.as_bytes());
    hasher.part(&(arguments.len() as u64).to_le_bytes());
    for argument in arguments {
        hasher.part(argument.as_bytes());
    }
    for (name, text) in &unit.headers {
        hasher.part(name.as_bytes()).part(text.as_bytes());
    }
    // `-march=native` means another thing on another machine, and folders are shared.
    if arguments.iter().any(|argument| argument.contains("native")) {
        hasher.part(info::processor_identity().as_bytes());
    }
    hasher.into()
}

/// Writes the text around the kernel. It includes no header, because a kernel that asks for more of
/// one (`_GNU_SOURCE`) must be the first to include it; and no name here can be one of the kernel's macros, which may be
/// as short as `D`: prototypes have no parameter names and the shims' names are long.
fn wrapper(unit: &Unit) -> String {
    let mut text = String::new();
    let types: Vec<String> = unit.signature.iter().map(|argument| c_type(*argument)).collect();
    let types: String = types.iter().map(|name| format!("{name}, ")).collect();
    for entry in &unit.entries {
        let _ = writeln!(text, "void {entry}({types}__INT64_TYPE__, __INT64_TYPE__);");
    }
    let _ = writeln!(text, "#include \"{}\"", unit.file_name);
    for (idx, entry) in unit.entries.iter().enumerate() {
        // Called through a pointer that the compiler cannot see through, so that the kernel is
        // compiled as the function that its author wrote: not inlined, not specialised, and not left
        // out because of what it does.
        let _ = writeln!(
            text,
            "__attribute__((visibility(\"default\"))) void {symbol}(\n    \
             void *const *warpsmith_tensors, const __INT64_TYPE__ *warpsmith_axes,\n    \
             const double *warpsmith_scalars, void *const *warpsmith_scratch,\n    \
             __INT64_TYPE__ warpsmith_begin, __INT64_TYPE__ warpsmith_end) {{\n    \
             (void)warpsmith_tensors; (void)warpsmith_axes;\n    \
             (void)warpsmith_scalars; (void)warpsmith_scratch;\n    \
             void (*volatile warpsmith_kernel)({types}__INT64_TYPE__, __INT64_TYPE__) = {entry};\n    \
             warpsmith_kernel({arguments}warpsmith_begin, warpsmith_end);\n}}",
            symbol = entry_symbol(idx),
            arguments = shim_arguments(&unit.signature),
        );
    }
    text
}

/// Returns the C type of an argument. Half-width floats travel as their bits, because compilers
/// disagree about names for them.
fn c_type(argument: Argument) -> String {
    match argument {
        Argument::Tensor(dtype, role) => {
            let element = match dtype {
                DType::F16 | DType::Bf16 => "__UINT16_TYPE__",
                DType::F32 => "float",
                DType::F64 => "double",
            };
            let qualifier = match role {
                Role::Input => "const ",
                Role::Output => "",
            };
            format!("{qualifier}{element} *")
        }
        Argument::Axis => "__INT64_TYPE__".to_string(),
        Argument::Scalar(ScalarType::F32) => "float".to_string(),
        Argument::Scalar(ScalarType::F64) => "double".to_string(),
        Argument::Scalar(ScalarType::I64) => "__INT64_TYPE__".to_string(),
        Argument::Scratch => "void *".to_string(),
    }
}

fn shim_arguments(signature: &[Argument]) -> String {
    let (mut n_tensors, mut n_axes, mut n_scalars, mut n_scratch) = (0, 0, 0, 0);
    let mut text = String::new();
    for argument in signature {
        let (list, count) = match argument {
            Argument::Tensor(..) => ("warpsmith_tensors", &mut n_tensors),
            Argument::Axis => ("warpsmith_axes", &mut n_axes),
            Argument::Scalar(_) => ("warpsmith_scalars", &mut n_scalars),
            Argument::Scratch => ("warpsmith_scratch", &mut n_scratch),
        };
        let _ = write!(text, "({}){list}[{count}], ", c_type(*argument));
        *count += 1;
    }
    text
}

fn write_sources(folder: &Path, unit: &Unit, wrapper: &str) -> io::Result<()> {
    fs::write(folder.join(UNIT_FILE), wrapper)?;
    write_below(folder, &unit.file_name, &unit.source)?;
    let include = folder.join(INCLUDE_DIR);
    fs::create_dir(&include)?;
    unit.headers.iter().try_for_each(|(name, text)| write_below(&include, name, text))
}

/// Writes a file below a folder, whatever its name says.
pub(crate) fn write_below(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let stays_below = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if !stays_below || name.is_empty() || name == UNIT_FILE {
        let message = format!("`{name}` is no name for a source file");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let path = folder.join(name);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text)
}

/// Returns the first line of a log that states an error, without what surrounds a linker's.
fn first_error(log: &str) -> Option<String> {
    log.lines().find_map(|line| {
        if let Some(at) = line.find("undefined reference to") {
            return Some(line[at..].to_string());
        }
        // Assemblers write it with a capital; clang puts its folder before the file.
        let is_error = line.contains("error:") || line.contains("Error:");
        is_error.then(|| line.trim().trim_start_matches("./").to_string())
    })
}

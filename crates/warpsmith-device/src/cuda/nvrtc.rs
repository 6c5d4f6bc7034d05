//! The compile process: loads the run-time compiler, compiles one unit, and ends.
//!
//! A process of its own because the library compiles one unit at a time, however many threads ask, and
//! because what crashes or hangs in it must not take the worker along.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io::{Read, Write};
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, path_beneath_rules,
};
use libloading::{Library, Symbol};
use serde::{Deserialize, Serialize};

use crate::cpu::compiler_rights::{self, Filters};
use crate::sys::process;

/// The first argument that makes a binary call [`compile_main`].
pub const COMPILE_ARGUMENT: &str = "__nvrtc";

/// What to compile.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CompileJob {
    pub(super) library: PathBuf,
    pub(super) file_name: String,
    pub(super) source: String,
    /// Headers by name.
    pub(super) headers: Vec<(String, String)>,
    pub(super) options: Vec<String>,
    /// The folders of the toolkit; all that it may read beside the system's libraries.
    pub(super) readable: Vec<PathBuf>,
    /// Where the machine code goes.
    pub(super) output: PathBuf,
    /// Seconds of processor time that it may take.
    pub(super) cpu_limit_s: u64,
}

/// How it went.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CompileReport {
    pub(super) succeeded: bool,
    pub(super) log: String,
}

/// Compiles the unit that standard input describes. A binary calls this, before anything else, when
/// its first argument is [`COMPILE_ARGUMENT`].
pub fn compile_main() -> ! {
    let report = compile().unwrap_or_else(|log| CompileReport { succeeded: false, log });
    let text = serde_json::to_vec(&report).unwrap_or_default();
    let written = std::io::stdout().write_all(&text);
    std::process::exit(i32::from(written.is_err()));
}

fn compile() -> Result<CompileReport, String> {
    crate::die_with_parent().map_err(|error| error.to_string())?;
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text).map_err(|error| error.to_string())?;
    let job: CompileJob = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    limit(&job).map_err(|error| format!("cannot limit the compiler: {error}"))?;
    confine(&job).map_err(|error| format!("cannot confine the compiler: {error}"))?;
    let filters = compiler_rights::filters().and_then(|it| it.map_or(Ok(()), Filters::install));
    filters.map_err(|error| format!("cannot confine the compiler: {error}"))?;
    // SAFETY: the library is NVIDIA's compiler, which the user installed; loading it runs its own
    // initialisers and nothing else.
    let library = unsafe { Library::new(&job.library) }
        .map_err(|error| format!("cannot load {}: {error}", job.library.display()))?;
    let compiler = Compiler::new(&library)?;
    compiler.compile(&job)
}

/// Bytes of address space: the library itself takes less than a tenth of it, and templates or constants
/// that grow without end must not take the machine's memory along.
const MEMORY_BYTES: u64 = 4 << 30;

/// Bytes of a file that it writes.
const FILE_BYTES: u64 = 256 << 20;

/// Limits what this process may use; whatever goes beyond ends it, and the worker says so.
fn limit(job: &CompileJob) -> std::io::Result<()> {
    process::limit(libc::RLIMIT_CORE, 0)?;
    process::limit_cpu_time(job.cpu_limit_s)?;
    process::limit(libc::RLIMIT_AS, MEMORY_BYTES)?;
    process::limit(libc::RLIMIT_FSIZE, FILE_BYTES)
}

/// Leaves this process the files that compiling takes: a source could otherwise include any file of
/// the user's and read it in the compiler's messages. Where the kernel cannot enforce it, it is not.
fn confine(job: &CompileJob) -> Result<(), landlock::RulesetError> {
    const KNOWN: ABI = ABI::V5;
    const SYSTEM: [&str; 6] =
        ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/proc/self"];
    let system = SYSTEM.iter().map(PathBuf::from);
    let readable: Vec<PathBuf> =
        system.chain(job.readable.iter().cloned()).filter(|path| path.exists()).collect();
    let folder = job.output.parent().map(std::path::Path::to_path_buf);
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(readable, AccessFs::from_read(KNOWN)))?
        .add_rules(path_beneath_rules(folder, AccessFs::from_all(KNOWN)))?
        .restrict_self()?;
    Ok(())
}

type Program = *mut std::ffi::c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type ErrorText = unsafe extern "C" fn(c_int) -> *const c_char;

struct Compiler<'l> {
    create: Symbol<'l, Create>,
    compile: Symbol<'l, Compile>,
    cubin_size: Symbol<'l, Size>,
    cubin: Symbol<'l, Get>,
    log_size: Symbol<'l, Size>,
    log: Symbol<'l, Get>,
    error_text: Symbol<'l, ErrorText>,
}

impl<'l> Compiler<'l> {
    fn new(library: &'l Library) -> Result<Self, String> {
        fn symbol<'l, T>(library: &'l Library, name: &str) -> Result<Symbol<'l, T>, String> {
            // SAFETY: the names and types below are those of the library's documented interface.
            unsafe { library.get(name.as_bytes()) }.map_err(|error| format!("{name}: {error}"))
        }
        Ok(Self {
            create: symbol(library, "nvrtcCreateProgram")?,
            compile: symbol(library, "nvrtcCompileProgram")?,
            cubin_size: symbol(library, "nvrtcGetCUBINSize")?,
            cubin: symbol(library, "nvrtcGetCUBIN")?,
            log_size: symbol(library, "nvrtcGetProgramLogSize")?,
            log: symbol(library, "nvrtcGetProgramLog")?,
            error_text: symbol(library, "nvrtcGetErrorString")?,
        })
    }

    fn check(&self, code: c_int) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the library answers with a constant string.
        Err(unsafe { CStr::from_ptr((self.error_text)(code)) }.to_string_lossy().to_string())
    }

    fn compile(&self, job: &CompileJob) -> Result<CompileReport, String> {
        let text = |text: &str| CString::new(text).map_err(|_| "a zero byte in a text".to_string());
        let all = |texts: &mut dyn Iterator<Item = &String>| -> Result<Vec<CString>, String> {
            texts.map(|it| text(it)).collect()
        };
        let pointers = |texts: &[CString]| -> Vec<*const c_char> {
            texts.iter().map(|text| text.as_ptr()).collect()
        };
        let (source, name) = (text(&job.source)?, text(&job.file_name)?);
        let header_names = all(&mut job.headers.iter().map(|(name, _)| name))?;
        let header_texts = all(&mut job.headers.iter().map(|(_, text)| text))?;
        let options = all(&mut job.options.iter())?;
        let mut program: Program = std::ptr::null_mut();
        // SAFETY: every text is a C string that outlives the calls; the arrays have the stated
        // lengths; buffers have the sizes that the library asked for.
        unsafe {
            self.check((self.create)(
                &raw mut program,
                source.as_ptr(),
                name.as_ptr(),
                job.headers.len() as c_int,
                pointers(&header_texts).as_ptr(),
                pointers(&header_names).as_ptr(),
            ))?;
            let compiled =
                (self.compile)(program, options.len() as c_int, pointers(&options).as_ptr());
            let mut size = 0;
            self.check((self.log_size)(program, &raw mut size))?;
            let mut log = vec![0u8; size];
            self.check((self.log)(program, log.as_mut_ptr().cast()))?;
            let mut log = shortened(&log).trim_end_matches('\0').to_string();
            if let Err(error) = self.check(compiled) {
                if log.trim().is_empty() {
                    log = error;
                }
                return Ok(CompileReport { succeeded: false, log });
            }
            self.check((self.cubin_size)(program, &raw mut size))?;
            let mut cubin = vec![0u8; size];
            self.check((self.cubin)(program, cubin.as_mut_ptr().cast()))?;
            std::fs::write(&job.output, &cubin)
                .map_err(|error| format!("cannot write {}: {error}", job.output.display()))?;
            Ok(CompileReport { succeeded: true, log })
        }
    }
}

/// Bytes that are kept of a log's beginning, and of its end: errors come first, the assembler's report last.
const LOG_PART: usize = 128 << 10;

/// Returns a log without its middle, if a source made it very long.
fn shortened(log: &[u8]) -> String {
    if log.len() <= 2 * LOG_PART {
        return String::from_utf8_lossy(log).into_owned();
    }
    let (head, tail) = (&log[..LOG_PART], &log[log.len() - LOG_PART..]);
    let left_out = log.len() - 2 * LOG_PART;
    let text = String::from_utf8_lossy;
    format!("{}\n[{left_out} bytes left out]\n{}", text(head), text(tail))
}

#[cfg(test)]
#[test]
fn of_a_very_long_log_the_ends_stay() {
    assert_eq!(shortened(b"short"), "short");
    let long = format!("first{}last", "x".repeat(4 * LOG_PART));
    let kept = shortened(long.as_bytes());
    assert!(kept.starts_with("firstx") && kept.ends_with("xlast"), "{}", kept.len());
    assert!(kept.len() < 2 * LOG_PART + 64, "{}", kept.len());
    assert!(kept.contains("bytes left out"));
}

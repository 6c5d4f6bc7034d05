//! cuBLASLt, loaded at run time: one matrix product on row-major matrices, by the fastest of the
//! algorithms that the library proposes.
//!
//! [`Library`] is the loaded library with its handle, [`Product`] one problem with its descriptors and
//! the algorithm that was chosen. The library thinks in columns: a row-major matrix is, read by columns,
//! its transpose, and (A B)ᵀ = Bᵀ Aᵀ, so it is handed B first.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use cudarc::driver::sys::{CUresult, CUstream};
use warpsmith_model::DType;

use super::driver::{Buffer, DriverError};
use super::wire::GemmWire;

/// How many algorithms are asked for.
const PROPOSALS: usize = 8;

type Handle = *mut c_void;
type Description = *mut c_void;
type Layout = *mut c_void;
type Preference = *mut c_void;
/// `cublasStatus_t`, as a number: a version to come may know others than this one.
type Status = c_int;

/// `cublasLtMatmulAlgo_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Algorithm([u64; 8]);

/// `cublasLtMatmulHeuristicResult_t`: an algorithm that the library proposes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct LibraryAlgorithm {
    algorithm: Algorithm,
    workspace_bytes: usize,
    state: Status,
    waves: f32,
    reserved: [c_int; 4],
}

/// Values of `cublasLt.h` and of the headers that it includes.
mod header {
    use std::ffi::c_int;

    pub(super) const STATUS_ALLOC_FAILED: c_int = 3;
    pub(super) const STATUS_EXECUTION_FAILED: c_int = 13;
    pub(super) const COMPUTE_32F: c_int = 68;
    pub(super) const R_32F: c_int = 0;
    pub(super) const R_64F: c_int = 1;
    pub(super) const R_16F: c_int = 2;
    pub(super) const R_16BF: c_int = 14;
    pub(super) const OP_T: c_int = 1;
    pub(super) const DESC_TRANSA: c_int = 3;
    pub(super) const PREF_MAX_WORKSPACE_BYTES: c_int = 1;
    pub(super) const PREF_REDUCTION_SCHEME_MASK: c_int = 3;
    pub(super) const REDUCTION_SCHEME_COMPUTE_TYPE: u32 = 2;
    /// What a proposal can be asked about itself, with words for it.
    pub(super) const ALGO_CONFIG: [(c_int, &str); 5] =
        [(0, "algorithm"), (1, "tile"), (6, "stages"), (8, "cluster shape"), (2, "split-K")];
    /// The one of these that is 16 bits wide.
    pub(super) const ALGO_CONFIG_CLUSTER_SHAPE: c_int = 8;
}

/// Declares the functions of the library that are used, and how they are found.
macro_rules! functions {
    ($($field:ident = $name:literal: $type:ty;)*) => {
        #[derive(Debug)]
        struct Functions { $($field: $type,)* }

        impl Functions {
            fn find(library: &libloading::Library) -> Result<Self, libloading::Error> {
                // SAFETY: the names and types are those of the library's documented interface; the
                // pointers are kept beside the library.
                unsafe { Ok(Self { $($field: *library.get::<$type>($name)?,)* }) }
            }
        }
    };
}

functions! {
    version = b"cublasLtGetVersion": unsafe extern "C" fn() -> usize;
    status_text = b"cublasLtGetStatusString": unsafe extern "C" fn(Status) -> *const c_char;
    create = b"cublasLtCreate": unsafe extern "C" fn(*mut Handle) -> Status;
    destroy = b"cublasLtDestroy": unsafe extern "C" fn(Handle) -> Status;
    description_create = b"cublasLtMatmulDescCreate":
        unsafe extern "C" fn(*mut Description, c_int, c_int) -> Status;
    description_set = b"cublasLtMatmulDescSetAttribute":
        unsafe extern "C" fn(Description, c_int, *const c_void, usize) -> Status;
    description_destroy = b"cublasLtMatmulDescDestroy": unsafe extern "C" fn(Description) -> Status;
    layout_create = b"cublasLtMatrixLayoutCreate":
        unsafe extern "C" fn(*mut Layout, c_int, u64, u64, i64) -> Status;
    layout_destroy = b"cublasLtMatrixLayoutDestroy": unsafe extern "C" fn(Layout) -> Status;
    preference_create = b"cublasLtMatmulPreferenceCreate":
        unsafe extern "C" fn(*mut Preference) -> Status;
    preference_set = b"cublasLtMatmulPreferenceSetAttribute":
        unsafe extern "C" fn(Preference, c_int, *const c_void, usize) -> Status;
    preference_destroy = b"cublasLtMatmulPreferenceDestroy":
        unsafe extern "C" fn(Preference) -> Status;
    propose = b"cublasLtMatmulAlgoGetHeuristic": unsafe extern "C" fn(
        Handle, Description, Layout, Layout, Layout, Layout, Preference, c_int, *mut LibraryAlgorithm, *mut c_int,
    ) -> Status;
    config = b"cublasLtMatmulAlgoConfigGetAttribute":
        unsafe extern "C" fn(*const Algorithm, c_int, *mut c_void, usize, *mut usize) -> Status;
    multiply = b"cublasLtMatmul": unsafe extern "C" fn(
        Handle, Description, *const c_void, *const c_void, Layout, *const c_void, Layout,
        *const c_void, *const c_void, Layout, *mut c_void, Layout, *const Algorithm, *mut c_void,
        usize, CUstream,
    ) -> Status;
}

/// The loaded library, with its handle on the current context.
#[derive(Debug)]
pub(super) struct Library {
    functions: Functions,
    handle: Handle,
    path: PathBuf,
    /// Unloaded after everything that refers to it.
    _loaded: libloading::Library,
}

impl Library {
    /// Loads the library; says in words why it cannot.
    pub(super) fn load(path: &Path) -> Result<Self, String> {
        let cannot = |error: &dyn std::fmt::Display| {
            format!("cannot use cuBLASLt from {}: {error}", path.display())
        };
        // SAFETY: the library is NVIDIA's, which the user installed; loading it runs its own
        // initialisers and nothing else.
        let loaded = unsafe { libloading::Library::new(path) }.map_err(|error| cannot(&error))?;
        let functions = Functions::find(&loaded).map_err(|error| cannot(&error))?;
        let mut library = Self {
            functions,
            handle: std::ptr::null_mut(),
            path: path.to_path_buf(),
            _loaded: loaded,
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the handle is live.
        let status = unsafe { (library.functions.create)(&raw mut handle) };
        library.check("starting cuBLASLt", status).map_err(|error| cannot(&error))?;
        library.handle = handle;
        Ok(library)
    }

    /// Returns where it was loaded from.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its version (`13.1.0`).
    fn version(&self) -> String {
        // SAFETY: takes nothing.
        let number = unsafe { (self.functions.version)() };
        format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100)
    }

    fn check(&self, doing: &'static str, status: Status) -> Result<(), DriverError> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the library answers with a constant string.
        let text = unsafe {
            let text = (self.functions.status_text)(status);
            if text.is_null() {
                String::new()
            } else {
                CStr::from_ptr(text).to_string_lossy().to_string()
            }
        };
        // What it means for the session: a product that the library does not offer is no fault of the
        // device.
        let code = match status {
            header::STATUS_ALLOC_FAILED => CUresult::CUDA_ERROR_OUT_OF_MEMORY,
            header::STATUS_EXECUTION_FAILED => CUresult::CUDA_ERROR_LAUNCH_FAILED,
            _ => CUresult::CUDA_ERROR_NOT_FOUND,
        };
        Err(DriverError { doing, name: format!("cuBLAS status {status}"), text, code })
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: ours, and destroyed once.
            unsafe { (self.functions.destroy)(self.handle) };
        }
    }
}

/// Where the matrices of one launch are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrices {
    pub(super) a: u64,
    pub(super) b: u64,
    pub(super) c: u64,
}

/// One matrix product, with the algorithm that computes it.
#[derive(Debug)]
pub(super) struct Product {
    library: Rc<Library>,
    descriptors: Descriptors,
    workspace: Buffer,
    chosen: LibraryAlgorithm,
}

impl Product {
    /// Describes a product to the library and asks for algorithms; returns it with the first of them
    /// chosen, and all of them.
    pub(super) fn new(
        library: Rc<Library>,
        gemm: &GemmWire,
        workspace_bytes: usize,
    ) -> Result<(Self, Vec<LibraryAlgorithm>), DriverError> {
        let descriptors = Descriptors::new(Rc::clone(&library), gemm, workspace_bytes)?;
        let proposals = descriptors.proposals()?;
        let Some(chosen) = proposals.first().copied() else {
            return Err(DriverError {
                doing: "asking cuBLASLt for algorithms",
                name: "no proposal".to_string(),
                text: format!("it has none for this product: {gemm:?}"),
                code: CUresult::CUDA_ERROR_INVALID_VALUE,
            });
        };
        let workspace = Buffer::new(workspace_bytes)?;
        Ok((Self { library, descriptors, workspace, chosen }, proposals))
    }

    /// Takes another algorithm.
    pub(super) fn choose(&mut self, proposal: LibraryAlgorithm) {
        self.chosen = proposal;
    }

    /// Puts the product into the stream.
    pub(super) fn enqueue(&self, stream: CUstream, at: Matrices) -> Result<(), DriverError> {
        let (one, zero) = (1f32, 0f32);
        let it = &self.descriptors;
        // SAFETY: the descriptors and the handle are live, the matrices have the described extents, the
        // workspace has the stated size, and the factors are copied before the call returns.
        let status = unsafe {
            (self.library.functions.multiply)(
                self.library.handle,
                it.description,
                (&raw const one).cast(),
                at.b as *const c_void,
                it.first,
                at.a as *const c_void,
                it.second,
                (&raw const zero).cast(),
                at.c as *const c_void,
                it.result,
                at.c as *mut c_void,
                it.result,
                &raw const self.chosen.algorithm,
                self.workspace.at as *mut c_void,
                self.workspace.bytes,
                stream,
            )
        };
        self.library.check("multiplying with cuBLASLt", status)
    }

    /// Says which algorithm was chosen, among how many.
    pub(super) fn words(&self, place: usize, proposals: usize) -> String {
        let settings: Vec<String> = header::ALGO_CONFIG
            .iter()
            .filter_map(|(attribute, what)| Some(format!("{what} {}", self.setting(*attribute)?)))
            .collect();
        format!(
            "cuBLASLt {}: number {place} of {proposals} proposals was the fastest ({}, {} bytes of \
             workspace; numbers as in cublasLt.h)",
            self.library.version(),
            settings.join(", "),
            self.chosen.workspace_bytes
        )
    }

    /// Asks the chosen algorithm about itself; none where the library does not say.
    fn setting(&self, attribute: c_int) -> Option<u32> {
        let mut value = 0u32;
        let size = if attribute == header::ALGO_CONFIG_CLUSTER_SHAPE { 2 } else { 4 };
        let mut written = 0;
        // SAFETY: the algorithm came from the library and the value has room for the stated size; the
        // narrower one fills its low half, since CUDA's hosts are little-endian.
        let status = unsafe {
            (self.library.functions.config)(
                &raw const self.chosen.algorithm,
                attribute,
                (&raw mut value).cast(),
                size,
                &raw mut written,
            )
        };
        (status == 0).then_some(value)
    }
}

/// What the library knows of a product. Destroyed together.
#[derive(Debug)]
struct Descriptors {
    library: Rc<Library>,
    description: Description,
    first: Layout,
    second: Layout,
    result: Layout,
    preference: Preference,
}

impl Descriptors {
    fn new(
        library: Rc<Library>,
        gemm: &GemmWire,
        workspace_bytes: usize,
    ) -> Result<Self, DriverError> {
        let null = std::ptr::null_mut();
        let (description, first, second) = (null, null, null);
        let mut it = Self { library, description, first, second, result: null, preference: null };
        let library = Rc::clone(&it.library);
        let functions = &library.functions;
        let describing = "describing a product to cuBLASLt";
        let check = |status| library.check(describing, status);
        let (input, output) = (element(gemm.dtype), element(gemm.c_dtype));
        let GemmWire { m, n, k, .. } = *gemm;
        // B read by columns is N by K; a transposed one is K by N and is transposed back.
        let (first_rows, first_columns) = if gemm.b_transposed { (k, n) } else { (n, k) };
        // SAFETY: every call gets pointers to live values of the stated sizes; what was created is
        // destroyed with `it`, also when a later call fails.
        unsafe {
            let description = &raw mut it.description;
            check((functions.description_create)(description, header::COMPUTE_32F, header::R_32F))?;
            if gemm.b_transposed {
                let operation: c_int = header::OP_T;
                let operation = (&raw const operation).cast();
                let set = functions.description_set;
                check(set(it.description, header::DESC_TRANSA, operation, size_of::<c_int>()))?;
            }
            let layout = functions.layout_create;
            let leading = first_rows as i64;
            check(layout(&raw mut it.first, input, first_rows, first_columns, leading))?;
            check(layout(&raw mut it.second, input, k, m, k as i64))?;
            check(layout(&raw mut it.result, output, n, m, n as i64))?;
            check((functions.preference_create)(&raw mut it.preference))?;
            let set = functions.preference_set;
            let limit = (&raw const workspace_bytes).cast();
            let attribute = header::PREF_MAX_WORKSPACE_BYTES;
            check(set(it.preference, attribute, limit, size_of::<usize>()))?;
            // Partial sums are added in single precision or not at all: the lab's tolerance is for that,
            // and so is what the kernels do.
            let scheme = header::REDUCTION_SCHEME_COMPUTE_TYPE;
            let attribute = header::PREF_REDUCTION_SCHEME_MASK;
            check(set(it.preference, attribute, (&raw const scheme).cast(), size_of::<u32>()))?;
        }
        Ok(it)
    }

    fn proposals(&self) -> Result<Vec<LibraryAlgorithm>, DriverError> {
        let empty = LibraryAlgorithm {
            algorithm: Algorithm([0; 8]),
            workspace_bytes: 0,
            state: 0,
            waves: 0.0,
            reserved: [0; 4],
        };
        let mut proposals = vec![empty; PROPOSALS];
        let mut count = 0;
        // SAFETY: the descriptors are live and there is room for the stated number of proposals.
        let status = unsafe {
            (self.library.functions.propose)(
                self.library.handle,
                self.description,
                self.first,
                self.second,
                self.result,
                self.result,
                self.preference,
                PROPOSALS as c_int,
                proposals.as_mut_ptr(),
                &raw mut count,
            )
        };
        self.library.check("asking cuBLASLt for algorithms", status)?;
        proposals.truncate(usize::try_from(count).unwrap_or(0));
        proposals.retain(|proposal| proposal.state == 0);
        Ok(proposals)
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        let functions = &self.library.functions;
        // SAFETY: each is ours or null, and destroyed once.
        unsafe {
            for layout in [self.first, self.second, self.result] {
                if !layout.is_null() {
                    (functions.layout_destroy)(layout);
                }
            }
            if !self.description.is_null() {
                (functions.description_destroy)(self.description);
            }
            if !self.preference.is_null() {
                (functions.preference_destroy)(self.preference);
            }
        }
    }
}

/// The library's number of an element type.
fn element(dtype: DType) -> c_int {
    match dtype {
        DType::F16 => header::R_16F,
        DType::Bf16 => header::R_16BF,
        DType::F32 => header::R_32F,
        DType::F64 => header::R_64F,
    }
}

#[cfg(test)]
#[test]
fn a_file_that_is_no_library_is_refused_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("libcublasLt.so.13");
    std::fs::write(&path, "no library").expect("written");
    let message = Library::load(&path).expect_err("refused");
    assert!(
        message.starts_with(&format!("cannot use cuBLASLt from {}", path.display())),
        "{message}"
    );
}

//! Owned wrappers around the calls of the CUDA driver that the device process makes.
//!
//! The driver is loaded at run time. Nothing here is called before [`Context::open`] found it.

use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::MaybeUninit;

use cudarc::driver::sys;
use warpsmith_model::CudaInfo;

/// A call that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{doing}: {name} ({text})")]
pub(super) struct DriverError {
    pub(super) doing: &'static str,
    /// The driver's name of the error (`CUDA_ERROR_ILLEGAL_ADDRESS`).
    pub(super) name: String,
    /// The driver's words.
    pub(super) text: String,
    pub(super) code: sys::CUresult,
}

/// What is being done while a kernel runs.
pub(super) const RUNNING: &str = "running the kernel";

/// What is being done while a kernel of ours fills or checks memory.
pub(super) const PREPARING: &str = "filling or checking memory";

/// Says whether something was being done to a candidate's code, rather than to the harness's own memory.
pub(super) fn is_about_a_kernel(doing: &str) -> bool {
    const STEPS: [&str; 9] = [
        "loading the module",
        "finding the kernel's entry",
        "asking for shared memory",
        "asking for a large cluster",
        "encoding a tensor map",
        "capturing",
        "instantiating a graph",
        "uploading a graph",
        "launching",
    ];
    STEPS.contains(&doing)
}

/// How often the cache is flushed before a reading: each takes some 40 µs.
const FLUSHES: usize = 5;

pub(super) type Result<T> = std::result::Result<T, DriverError>;

pub(super) fn check(doing: &'static str, code: sys::CUresult) -> Result<()> {
    if code == sys::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let words = |ask: unsafe fn(sys::CUresult, *mut *const std::ffi::c_char) -> sys::CUresult| {
        let mut text = std::ptr::null();
        // SAFETY: the driver answers with a constant string or leaves the pointer null.
        unsafe {
            ask(code, &raw mut text);
            if text.is_null() {
                return String::new();
            }
            CStr::from_ptr(text).to_string_lossy().to_string()
        }
    };
    Err(DriverError {
        doing,
        name: words(sys::cuGetErrorName),
        text: words(sys::cuGetErrorString),
        code,
    })
}

/// Says whether the driver's library is on this machine.
pub(super) fn is_present() -> bool {
    // SAFETY: looks for the library and calls nothing in it.
    unsafe { sys::is_culib_present() }
}

/// The context of one device, current on this thread, with the stream that everything runs on.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) device: sys::CUdevice,
    pub(super) stream: sys::CUstream,
    start: sys::CUevent,
    stop: sys::CUevent,
    /// Written between readings, so that no input is in the cache.
    flush: Option<Buffer>,
}

impl Context {
    /// Opens the first device.
    pub(super) fn open() -> Result<Self> {
        let mut device: sys::CUdevice = 0;
        let mut context = std::ptr::null_mut();
        let mut stream = std::ptr::null_mut();
        let (mut start, mut stop) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: each call gets pointers to live variables, in the order that the driver demands.
        unsafe {
            check("starting the driver", sys::cuInit(0))?;
            check("finding a device", sys::cuDeviceGet(&raw mut device, 0))?;
            check("opening a context", sys::cuDevicePrimaryCtxRetain(&raw mut context, device))?;
            check("using the context", sys::cuCtxSetCurrent(context))?;
            let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            check("making a stream", sys::cuStreamCreate(&raw mut stream, flags))?;
            check("making an event", sys::cuEventCreate(&raw mut start, 0))?;
            check("making an event", sys::cuEventCreate(&raw mut stop, 0))?;
            // No candidate may keep data in the cache beyond its launch.
            let limit = sys::CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE;
            // Older devices have no such limit, and so nothing to forbid.
            let _ = sys::cuCtxSetLimit(limit, 0);
            // What a kernel prints or allocates must not grow without bound.
            let _ = sys::cuCtxSetLimit(sys::CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 16);
            let _ = sys::cuCtxSetLimit(sys::CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE, 1 << 20);
        }
        Ok(Self { device, stream, start, stop, flush: None })
    }

    fn attribute(&self, attribute: sys::CUdevice_attribute) -> Result<u32> {
        let mut value: c_int = 0;
        // SAFETY: `value` is live.
        let code = unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, self.device) };
        check("asking for a device's attribute", code)?;
        Ok(value.max(0) as u32)
    }

    /// Describes the device: its name, its cache, the rest.
    pub(super) fn describe(&self) -> Result<(String, u64, CudaInfo)> {
        use sys::CUdevice_attribute_enum as attribute;
        let mut name = [0 as std::ffi::c_char; 128];
        let mut memory_bytes = 0usize;
        let mut driver: c_int = 0;
        // SAFETY: the buffer has the stated length; the other pointers are live.
        unsafe {
            let code = sys::cuDeviceGetName(name.as_mut_ptr(), name.len() as c_int, self.device);
            check("asking for the device's name", code)?;
            let code = sys::cuDeviceTotalMem_v2(&raw mut memory_bytes, self.device);
            check("asking for the device's memory", code)?;
            check("asking for the driver's version", sys::cuDriverGetVersion(&raw mut driver))?;
        }
        // SAFETY: the driver ended the name with a zero.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().to_string();
        let major = self.attribute(attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = self.attribute(attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        // From Hopper on, what an architecture alone has is in its `a` variant.
        let variant = if major >= 9 { "a" } else { "" };
        let info = CudaInfo {
            arch: format!("sm_{major}{minor}{variant}"),
            driver: format!("{}.{}", driver / 1000, driver % 1000 / 10),
            driver_version: None,
            sms: self.attribute(attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            warp_size: self.attribute(attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?,
            max_threads: self.attribute(attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            smem_per_block: self
                .attribute(attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            memory_bytes: memory_bytes as u64,
            unmonitored: None,
        };
        let l2 = self.attribute(attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
        Ok((name, u64::from(l2), info))
    }

    /// Returns how fast the cycle counters count at the device's highest clock.
    pub(super) fn ticks_per_s(&self) -> Result<f64> {
        let khz = self.attribute(sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?;
        Ok(f64::from(khz) * 1e3)
    }

    /// Returns the device's address on the bus, by which others know it too.
    pub(super) fn bus_id(&self) -> Result<String> {
        let mut address = [0 as std::ffi::c_char; 32];
        let length = address.len() as c_int;
        // SAFETY: the buffer has the stated length, and the driver ends the text with a zero.
        let text = unsafe {
            let code = sys::cuDeviceGetPCIBusId(address.as_mut_ptr(), length, self.device);
            check("asking for the device's address", code)?;
            CStr::from_ptr(address.as_ptr())
        };
        Ok(text.to_string_lossy().to_string())
    }

    /// Fills the cache with something that no kernel reads.
    pub(super) fn flush_cache(&mut self, bytes: usize) -> Result<()> {
        if self.flush.is_none() {
            self.flush = Some(Buffer::new(bytes)?);
        }
        let Some(buffer) = &self.flush else { return Ok(()) };
        let words = buffer.bytes / 4;
        // Lines that a kernel asked to keep would outlive the writes below. Devices without that kind of
        // line refuse, and have none.
        // SAFETY: the context is current.
        let _ = unsafe { sys::cuCtxResetPersistingL2Cache() };
        // Several times: while the device writes, what is to be timed gets into its queue, and no pause of
        // this process counts.
        for _ in 0..FLUSHES {
            // SAFETY: the buffer has this many words.
            let code = unsafe { sys::cuMemsetD32Async(buffer.at, 0x5a5a_5a5a, words, self.stream) };
            check("flushing the cache", code)?;
        }
        Ok(())
    }

    /// Waits until everything is done.
    pub(super) fn synchronize(&self) -> Result<()> {
        self.wait(RUNNING)
    }

    /// Waits until everything is done, which so far is what was being done.
    pub(super) fn wait(&self, doing: &'static str) -> Result<()> {
        // SAFETY: the stream is ours.
        check(doing, unsafe { sys::cuStreamSynchronize(self.stream) })
    }

    /// Records what `enqueue` puts into the stream, instead of running it.
    pub(super) fn capture(&self, enqueue: impl FnOnce() -> Result<()>) -> Result<Graph> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is ours and not capturing.
        check("capturing", unsafe { sys::cuStreamBeginCapture_v2(self.stream, mode) })?;
        let enqueued = enqueue();
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream is capturing.
        let ended = unsafe { sys::cuStreamEndCapture(self.stream, &raw mut graph) };
        enqueued?;
        check("capturing", ended)?;
        let mut exec = std::ptr::null_mut();
        // SAFETY: the graph was just captured; it is destroyed once it is instantiated.
        unsafe {
            let code = sys::cuGraphInstantiateWithFlags(&raw mut exec, graph, 0);
            sys::cuGraphDestroy(graph);
            check("instantiating a graph", code)?;
        }
        let graph = Graph(exec);
        // SAFETY: both are live.
        check("uploading a graph", unsafe { sys::cuGraphUpload(graph.0, self.stream) })?;
        Ok(graph)
    }

    /// Puts a graph into the stream, without waiting for it.
    pub(super) fn enqueue(&self, graph: &Graph) -> Result<()> {
        // SAFETY: stream and graph are live.
        check("launching", unsafe { sys::cuGraphLaunch(graph.0, self.stream) })
    }

    /// Replays a graph once, between two events; returns the seconds between them.
    pub(super) fn replay(&self, graph: &Graph) -> Result<f64> {
        let mut milliseconds = 0f32;
        // SAFETY: events, stream and graph are live.
        unsafe {
            check("recording an event", sys::cuEventRecord(self.start, self.stream))?;
            check("launching", sys::cuGraphLaunch(graph.0, self.stream))?;
            check("recording an event", sys::cuEventRecord(self.stop, self.stream))?;
            check(RUNNING, sys::cuEventSynchronize(self.stop))?;
            let code = sys::cuEventElapsedTime_v2(&raw mut milliseconds, self.start, self.stop);
            check("reading the clock", code)?;
        }
        Ok(f64::from(milliseconds) * 1e-3)
    }
}

/// A graph that is ready to run.
#[derive(Debug)]
pub(super) struct Graph(sys::CUgraphExec);

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: ours, and destroyed once.
        unsafe { sys::cuGraphExecDestroy(self.0) };
    }
}

/// Memory of the device.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) at: sys::CUdeviceptr,
    pub(super) bytes: usize,
}

impl Buffer {
    pub(super) fn new(bytes: usize) -> Result<Self> {
        let mut at = 0;
        // SAFETY: `at` is live.
        check("allocating", unsafe { sys::cuMemAlloc_v2(&raw mut at, bytes.max(1)) })?;
        Ok(Self { at, bytes })
    }

    /// Puts a copy of another buffer, of the same size, into the stream.
    pub(super) fn copy_from(&self, from: &Self, stream: sys::CUstream) -> Result<()> {
        assert_eq!(from.bytes, self.bytes, "copies fill the buffer");
        // SAFETY: both buffers are live and of this size; the caller waits before it frees them.
        let code = unsafe { sys::cuMemcpyDtoDAsync_v2(self.at, from.at, self.bytes, stream) };
        check("copying on the device", code)
    }

    /// Copies bytes to an offset.
    pub(super) fn write(&self, offset: usize, content: &[u8]) -> Result<()> {
        assert!(offset + content.len() <= self.bytes, "copies stay inside of the buffer");
        Self::write_at(self.at + offset as u64, content)
    }

    /// Copies bytes to an address, which must be mapped.
    pub(super) fn write_at(at: u64, content: &[u8]) -> Result<()> {
        // SAFETY: the source is a live slice; a range that is not the device's memory is refused.
        let code = unsafe { sys::cuMemcpyHtoD_v2(at, content.as_ptr().cast(), content.len()) };
        check("copying to the device", code)?;
        // The call returns when the source has been read, which may be before it has arrived.
        // SAFETY: the null stream is always there.
        check("copying to the device", unsafe { sys::cuStreamSynchronize(std::ptr::null_mut()) })
    }

    /// Copies bytes on the device, without a kernel, from one address to another.
    pub(super) fn copy_at(to: u64, from: u64, bytes: usize) -> Result<()> {
        // SAFETY: a range that is not the device's memory is refused; the null stream is always there.
        unsafe {
            check("copying on the device", sys::cuMemcpyDtoD_v2(to, from, bytes))?;
            check("copying on the device", sys::cuStreamSynchronize(std::ptr::null_mut()))
        }
    }

    /// Copies bytes from an offset.
    pub(super) fn read(&self, offset: usize, content: &mut [u8]) -> Result<()> {
        assert!(offset + content.len() <= self.bytes, "copies stay inside of the buffer");
        Self::read_at(self.at + offset as u64, content)
    }

    /// Copies bytes from an address, which must be mapped.
    pub(super) fn read_at(at: u64, content: &mut [u8]) -> Result<()> {
        // SAFETY: the target is a live slice; a range that is not the device's memory is refused.
        let code = unsafe { sys::cuMemcpyDtoH_v2(content.as_mut_ptr().cast(), at, content.len()) };
        check("copying from the device", code)
    }

    /// Fills a range with a repeated element, see [`Buffer::fill_at`].
    pub(super) fn fill(&self, offset: usize, bytes: usize, element: &[u8]) -> Result<()> {
        assert!(offset + bytes <= self.bytes, "fills stay inside of the buffer");
        Self::fill_at(self.at + offset as u64, bytes, element)
    }

    /// Fills what lies at an address, which must be mapped, with a repeated element of 1, 2 or 4 bytes, and
    /// waits until it is filled: kernels run on a stream that does not wait for this one.
    pub(super) fn fill_at(at: u64, bytes: usize, element: &[u8]) -> Result<()> {
        // SAFETY: a range that is not the device's memory is refused.
        let code = unsafe {
            match element {
                [a] => sys::cuMemsetD8_v2(at, *a, bytes),
                [a, b] => sys::cuMemsetD16_v2(at, u16::from_le_bytes([*a, *b]), bytes / 2),
                [a, b, c, d] => {
                    sys::cuMemsetD32_v2(at, u32::from_le_bytes([*a, *b, *c, *d]), bytes / 4)
                }
                other => {
                    let content: Vec<u8> = other.iter().copied().cycle().take(bytes).collect();
                    return Self::write_at(at, &content);
                }
            }
        };
        check("filling memory", code)?;
        // SAFETY: the null stream is always there.
        check("filling memory", unsafe { sys::cuStreamSynchronize(std::ptr::null_mut()) })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: ours, and freed once. After a fault the context is lost, and the memory with it.
        unsafe { sys::cuMemFree_v2(self.at) };
    }
}

/// Code on the device; its global variables begin anew with each loading.
#[derive(Debug)]
pub(super) struct Module(sys::CUmodule);

impl Module {
    pub(super) fn load(image: &[u8]) -> Result<Self> {
        let mut module = std::ptr::null_mut();
        // SAFETY: the image is a live slice that holds a whole cubin, which says its own length.
        let code = unsafe { sys::cuModuleLoadData(&raw mut module, image.as_ptr().cast()) };
        check("loading the module", code)?;
        Ok(Self(module))
    }

    pub(super) fn function(&self, name: &str) -> Result<sys::CUfunction> {
        let name = CString::new(name).unwrap_or_default();
        let mut function = std::ptr::null_mut();
        // SAFETY: the module is live and the name is a C string.
        let code = unsafe { sys::cuModuleGetFunction(&raw mut function, self.0, name.as_ptr()) };
        check("finding the kernel's entry", code)?;
        Ok(function)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: ours, and unloaded once.
        unsafe { sys::cuModuleUnload(self.0) };
    }
}

/// Returns the size of each of a function's parameters, in bytes.
pub(super) fn parameter_sizes(function: sys::CUfunction) -> Vec<usize> {
    let (mut offset, mut size) = (0, 0);
    let mut sizes = Vec::new();
    // SAFETY: the function is live; the driver refuses an index beyond the last parameter.
    while unsafe { sys::cuFuncGetParamInfo(function, sizes.len(), &raw mut offset, &raw mut size) }
        == sys::CUresult::CUDA_SUCCESS
    {
        sizes.push(size);
    }
    sizes
}

/// Allows a function this much dynamic shared memory.
pub(super) fn allow_shared_memory(function: sys::CUfunction, bytes: u32) -> Result<()> {
    use sys::CUfunction_attribute_enum as attribute;
    if bytes <= 48 << 10 {
        return Ok(());
    }
    let what = attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    // SAFETY: the function is live.
    let code = unsafe { sys::cuFuncSetAttribute(function, what, bytes as c_int) };
    check("asking for shared memory", code)
}

/// Blocks of a cluster that every device with clusters can hold.
const PORTABLE_CLUSTER: u32 = 8;

/// Allows a function clusters of this many blocks, which not every device can hold.
pub(super) fn allow_clusters(function: sys::CUfunction, blocks: u32) -> Result<()> {
    use sys::CUfunction_attribute_enum as attribute;
    if blocks <= PORTABLE_CLUSTER {
        return Ok(());
    }
    let what = attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
    // SAFETY: the function is live.
    check("asking for a large cluster", unsafe { sys::cuFuncSetAttribute(function, what, 1) })
}

/// Extents of a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extents {
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) cluster: [u32; 3],
    pub(super) smem: u32,
}

/// Puts a launch into the stream. `arguments` hold the values, in the order of the parameters.
pub(super) fn launch(
    stream: sys::CUstream,
    function: sys::CUfunction,
    extents: Extents,
    arguments: &mut [Argument],
) -> Result<()> {
    let mut pointers: Vec<*mut c_void> = arguments.iter_mut().map(Argument::pointer).collect();
    // SAFETY: all zeros is a valid attribute; the fields that matter are set below.
    let mut attribute: sys::CUlaunchAttribute = unsafe { MaybeUninit::zeroed().assume_init() };
    attribute.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = extents.cluster[0];
    attribute.value.clusterDim.y = extents.cluster[1];
    attribute.value.clusterDim.z = extents.cluster[2];
    let in_clusters = extents.cluster != [1, 1, 1];
    let config = sys::CUlaunchConfig {
        gridDimX: extents.grid[0],
        gridDimY: extents.grid[1],
        gridDimZ: extents.grid[2],
        blockDimX: extents.block[0],
        blockDimY: extents.block[1],
        blockDimZ: extents.block[2],
        sharedMemBytes: extents.smem,
        hStream: stream,
        attrs: &raw mut attribute,
        numAttrs: u32::from(in_clusters),
    };
    // SAFETY: the configuration, the attribute and the arguments live through the call, which
    // copies them; what the kernel does with them is what this process is for.
    let code = unsafe {
        sys::cuLaunchKernelEx(
            &raw const config,
            function,
            pointers.as_mut_ptr(),
            std::ptr::null_mut(),
        )
    };
    check("launching", code)
}

/// The value of a kernel's parameter.
#[derive(Clone, Debug)]
pub(super) enum Argument {
    Pointer(u64),
    Int(i32),
    Long(i64),
    Single(f32),
    Double(f64),
    Map(Box<sys::CUtensorMap>),
}

impl Argument {
    fn pointer(&mut self) -> *mut c_void {
        match self {
            Self::Pointer(value) => (&raw mut *value).cast(),
            Self::Int(value) => (&raw mut *value).cast(),
            Self::Long(value) => (&raw mut *value).cast(),
            Self::Single(value) => (&raw mut *value).cast(),
            Self::Double(value) => (&raw mut *value).cast(),
            Self::Map(map) => (&raw mut **map).cast(),
        }
    }
}

/// What a tensor map says, innermost extent first.
#[derive(Clone, Debug)]
pub(super) struct MapShape {
    pub(super) dtype: warpsmith_model::DType,
    pub(super) extents: Vec<u64>,
    pub(super) box_extents: Vec<u32>,
    pub(super) swizzle: u32,
}

/// Encodes a descriptor for the copy engine.
pub(super) fn tensor_map(at: u64, shape: &MapShape) -> Result<Argument> {
    use sys::CUtensorMapDataType_enum as element;
    use sys::CUtensorMapSwizzle_enum as swizzle;
    use warpsmith_model::DType;
    let dtype = match shape.dtype {
        DType::F16 => element::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        DType::Bf16 => element::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        DType::F32 => element::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        DType::F64 => element::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
    };
    let mode = match shape.swizzle {
        32 => swizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        64 => swizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        128 => swizzle::CU_TENSOR_MAP_SWIZZLE_128B,
        _ => swizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
    };
    let mut strides = Vec::new();
    let mut stride = shape.dtype.size() as u64;
    for extent in &shape.extents {
        stride *= extent;
        strides.push(stride);
    }
    let steps = vec![1u32; shape.extents.len()];
    // SAFETY: all zeros is a valid value to be overwritten.
    let mut map: Box<sys::CUtensorMap> = Box::new(unsafe { MaybeUninit::zeroed().assume_init() });
    // SAFETY: the arrays have as many entries as there are extents (strides one less).
    let code = unsafe {
        sys::cuTensorMapEncodeTiled(
            &raw mut *map,
            dtype,
            shape.extents.len() as u32,
            at as *mut c_void,
            shape.extents.as_ptr(),
            strides.as_ptr(),
            shape.box_extents.as_ptr(),
            steps.as_ptr(),
            sys::CUtensorMapInterleave_enum::CU_TENSOR_MAP_INTERLEAVE_NONE,
            mode,
            sys::CUtensorMapL2promotion_enum::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            sys::CUtensorMapFloatOOBfill_enum::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    check("encoding a tensor map", code)?;
    Ok(Argument::Map(map))
}

//! Device memory whose address and whose access are the harness's choice: what a kernel may not see is not
//! mapped for it, what it may not write is mapped for reading.

use std::mem::MaybeUninit;

use cudarc::driver::sys;

use super::driver::{Context, DriverError, Result, check};

/// Pages of the device's memory: what is mapped is a multiple of it. The driver's own granule on every
/// device so far; a larger one would be refused when memory is mapped, not overlooked.
pub(super) const PAGE_BYTES: usize = 2 << 20;

/// Who may do what with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Nobody anything: a kernel that reaches there faults.
    Nothing,
    /// Everybody reads.
    Reading,
    /// Everybody reads and writes.
    Everything,
}

impl Access {
    fn flags(self) -> sys::CUmemAccess_flags {
        use sys::CUmemAccess_flags as flags;
        match self {
            Self::Nothing => flags::CU_MEM_ACCESS_FLAGS_PROT_NONE,
            Self::Reading => flags::CU_MEM_ACCESS_FLAGS_PROT_READ,
            Self::Everything => flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        }
    }
}

/// A range of addresses that nothing else is put into.
#[derive(Debug)]
pub(super) struct Reserve {
    pub(super) at: u64,
    bytes: usize,
}

impl Reserve {
    /// Reserves whole pages, at an address that the driver may follow or not; 0 is none.
    pub(super) fn new(bytes: usize, hint: u64) -> Result<Self> {
        let mut at = 0;
        // SAFETY: `at` is live.
        let code = unsafe { sys::cuMemAddressReserve(&raw mut at, bytes, PAGE_BYTES, hint, 0) };
        match check("allocating", code) {
            Ok(()) => Ok(Self { at, bytes }),
            // Something else may be at the address.
            Err(_) if hint != 0 => Self::new(bytes, 0),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        // SAFETY: ours, freed once, and everything in it was unmapped before.
        unsafe { sys::cuMemAddressFree(self.at, self.bytes) };
    }
}

/// Memory that is mapped somewhere in a [`Reserve`], which must outlive it.
#[derive(Debug)]
pub(super) struct Mapped {
    pub(super) at: u64,
    pub(super) bytes: usize,
    device: sys::CUdevice,
    handle: sys::CUmemGenericAllocationHandle,
}

impl Mapped {
    /// Maps whole pages of fresh memory at an address, readable and writable.
    pub(super) fn new(context: &Context, at: u64, bytes: usize) -> Result<Self> {
        // SAFETY: all zeros is a valid value; the fields that matter are set below.
        let mut wanted: sys::CUmemAllocationProp = unsafe { MaybeUninit::zeroed().assume_init() };
        wanted.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        wanted.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        wanted.location.id = context.device;
        let mut handle = 0;
        // SAFETY: both pointers are live.
        let code = unsafe { sys::cuMemCreate(&raw mut handle, bytes, &raw const wanted, 0) };
        check("allocating", code)?;
        // SAFETY: the range is reserved and free, and the handle has this many bytes.
        let code = unsafe { sys::cuMemMap(at, bytes, 0, handle, 0) };
        if let Err(error) = check("allocating", code) {
            // SAFETY: ours, and mapped nowhere.
            unsafe { sys::cuMemRelease(handle) };
            return Err(error);
        }
        let mapped = Self { at, bytes, device: context.device, handle };
        mapped.allow(Access::Everything)?;
        Ok(mapped)
    }

    /// Changes who may do what with it.
    pub(super) fn allow(&self, access: Access) -> Result<()> {
        // SAFETY: all zeros is a valid value; the fields that matter are set below.
        let mut wanted: sys::CUmemAccessDesc = unsafe { MaybeUninit::zeroed().assume_init() };
        wanted.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        wanted.location.id = self.device;
        wanted.flags = access.flags();
        // SAFETY: the range is one mapping, and the description is live.
        let code = unsafe { sys::cuMemSetAccess(self.at, self.bytes, &raw const wanted, 1) };
        check("changing the access to memory", code)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: ours, unmapped and released once. After a fault the context is lost, and the memory with
        // it.
        unsafe {
            sys::cuMemUnmap(self.at, self.bytes);
            sys::cuMemRelease(self.handle);
        }
    }
}

/// Says whether the device can map memory for reading alone; not every driver can.
pub(super) fn can_map_for_reading(context: &Context) -> Result<bool> {
    let reserve = Reserve::new(PAGE_BYTES, 0)?;
    let page = Mapped::new(context, reserve.at, PAGE_BYTES)?;
    match page.allow(Access::Reading) {
        Ok(()) => Ok(true),
        Err(DriverError {
            code: sys::CUresult::CUDA_ERROR_NOT_SUPPORTED | sys::CUresult::CUDA_ERROR_INVALID_VALUE,
            ..
        }) => Ok(false),
        Err(error) => Err(error),
    }
}

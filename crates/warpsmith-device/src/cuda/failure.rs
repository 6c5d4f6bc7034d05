//! What a failed call means: for the candidate, for the machine, for us.

use cudarc::driver::sys::CUresult;

use super::driver::{self, DriverError};
use super::wire::{FailureKind, ServerFailure};

impl From<DriverError> for ServerFailure {
    fn from(error: DriverError) -> Self {
        failure(error)
    }
}

pub(super) fn no_session() -> ServerFailure {
    ServerFailure { kind: FailureKind::Broken, message: "there is no session".to_string() }
}

pub(super) fn no_window() -> ServerFailure {
    let message = "there is no shared memory for these outputs".to_string();
    ServerFailure { kind: FailureKind::Broken, message }
}

pub(super) fn no_case() -> ServerFailure {
    ServerFailure { kind: FailureKind::Broken, message: "there is no such case".to_string() }
}

/// How much scratch memory a kernel wants is its own affair, unlike the inputs and outputs of a workload.
pub(super) fn scratch_failure(error: DriverError, bytes: u64) -> ServerFailure {
    // More than addresses can name is no amount of memory at all.
    let is_no_amount = error.code == CUresult::CUDA_ERROR_INVALID_VALUE;
    let ServerFailure { kind, message } = failure(error);
    match kind {
        kind if kind == FailureKind::OutOfMemory || is_no_amount => {
            let message = format!("{bytes} bytes of scratch memory are not to be had: {message}");
            ServerFailure { kind: FailureKind::Refused, message }
        }
        kind => ServerFailure { kind, message },
    }
}

/// The same where memory for inputs, outputs and scratch together is not to be had: it is the kernel's affair where
/// there would be enough without its scratch.
pub(super) fn memory_failure(
    error: DriverError,
    scratch_bytes: u64,
    fits_without: impl FnOnce() -> bool,
) -> ServerFailure {
    let failure = failure(error.clone());
    match failure.kind {
        FailureKind::OutOfMemory if scratch_bytes > 0 && fits_without() => {
            scratch_failure(error, scratch_bytes)
        }
        _ => failure,
    }
}

/// Tells what a failed call means for the candidate.
pub(super) fn failure(error: DriverError) -> ServerFailure {
    use CUresult as code;
    let kind = match error.code {
        // A module whose variables, or a kernel whose stack, the device cannot hold is the candidate's
        // doing; too many inputs and outputs are not.
        code::CUDA_ERROR_OUT_OF_MEMORY if !driver::is_about_a_kernel(error.doing) => {
            FailureKind::OutOfMemory
        }
        // What the harness does wrong with its own memory has the same name, and is no candidate's doing.
        code::CUDA_ERROR_INVALID_VALUE if driver::is_about_a_kernel(error.doing) => {
            FailureKind::Refused
        }
        code::CUDA_ERROR_INVALID_IMAGE
        | code::CUDA_ERROR_NOT_FOUND
        | code::CUDA_ERROR_NO_BINARY_FOR_GPU
        | code::CUDA_ERROR_INVALID_CLUSTER_SIZE
        | code::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
        | code::CUDA_ERROR_INVALID_SOURCE => FailureKind::Refused,
        code::CUDA_ERROR_ILLEGAL_ADDRESS
        | code::CUDA_ERROR_LAUNCH_FAILED
        | code::CUDA_ERROR_LAUNCH_TIMEOUT
        | code::CUDA_ERROR_MISALIGNED_ADDRESS
        | code::CUDA_ERROR_INVALID_ADDRESS_SPACE
        | code::CUDA_ERROR_INVALID_PC
        | code::CUDA_ERROR_HARDWARE_STACK_ERROR
        | code::CUDA_ERROR_ILLEGAL_INSTRUCTION
        | code::CUDA_ERROR_ASSERT
        | code::CUDA_ERROR_TENSOR_MEMORY_LEAK => FailureKind::Faulted,
        // Hardware fails whoever runs on it.
        code::CUDA_ERROR_ECC_UNCORRECTABLE | code::CUDA_ERROR_NVLINK_UNCORRECTABLE => {
            FailureKind::Broken
        }
        // Whatever it is called, a kernel was running.
        _ if [driver::RUNNING, driver::PREPARING].contains(&error.doing) => FailureKind::Faulted,
        _ if driver::is_about_a_kernel(error.doing) => FailureKind::Refused,
        _ => FailureKind::Broken,
    };
    ServerFailure { kind, message: error.to_string() }
}

/// The same in a process in which no candidate has run: a fault there is ours.
pub(super) fn before_any_launch(failure: ServerFailure) -> ServerFailure {
    match failure.kind {
        FailureKind::Faulted => ServerFailure { kind: FailureKind::Broken, ..failure },
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(doing: &'static str, code: CUresult) -> DriverError {
        DriverError { doing, name: "NAME".to_string(), text: "words".to_string(), code }
    }

    #[test]
    fn a_wrong_argument_is_a_candidates_fault_only_where_its_kernel_is_meant() {
        let check = |doing, expected| {
            let failure = failure(failed(doing, CUresult::CUDA_ERROR_INVALID_VALUE));
            assert_eq!(failure.kind, expected, "{failure:?}");
        };
        check("launching", FailureKind::Refused);
        check("encoding a tensor map", FailureKind::Refused);
        check("allocating", FailureKind::Broken);
        check("changing the access to memory", FailureKind::Broken);
        check("copying to the device", FailureKind::Broken);
        let scratch = failed("allocating", CUresult::CUDA_ERROR_INVALID_VALUE);
        assert_eq!(scratch_failure(scratch, u64::MAX).kind, FailureKind::Refused);
    }

    #[test]
    fn a_fault_before_any_launch_is_no_candidates() {
        for code in [CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, CUresult::CUDA_ERROR_UNKNOWN] {
            let fault = failure(failed(driver::PREPARING, code));
            assert!(fault.message.starts_with("filling or checking memory"), "{fault:?}");
            // Once a candidate has run, nobody can say what it left behind.
            assert_eq!(fault.kind, FailureKind::Faulted);
            assert_eq!(before_any_launch(fault).kind, FailureKind::Broken);
        }
        let refused = failure(failed("launching", CUresult::CUDA_ERROR_INVALID_VALUE));
        assert_eq!(before_any_launch(refused).kind, FailureKind::Refused);
    }

    #[test]
    fn what_hardware_does_is_no_candidates_crash() {
        let broken = failed(driver::RUNNING, CUresult::CUDA_ERROR_ECC_UNCORRECTABLE);
        assert_eq!(failure(broken).kind, FailureKind::Broken);
        let unknown = failed(driver::RUNNING, CUresult::CUDA_ERROR_UNKNOWN);
        assert_eq!(failure(unknown).kind, FailureKind::Faulted);
    }

    #[test]
    fn too_little_memory_is_a_kernels_fault_where_its_scratch_takes_it() {
        let check = |code: CUresult, scratch_bytes: u64, fits_without: bool, expected| {
            let failure =
                memory_failure(failed("allocating", code), scratch_bytes, || fits_without);
            assert_eq!(failure.kind, expected, "{failure:?}");
        };
        let full = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        check(full, 1 << 40, true, FailureKind::Refused);
        // The workload itself is too large.
        check(full, 1 << 40, false, FailureKind::OutOfMemory);
        check(full, 0, true, FailureKind::OutOfMemory);
        check(CUresult::CUDA_ERROR_NOT_PERMITTED, 1 << 40, true, FailureKind::Broken);
    }
}

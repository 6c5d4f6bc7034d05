//! What goes wrong on our side: a lab that cannot be trusted, a bad request, a broken machine. A
//! candidate's failure is never one of these; it is an `Outcome`.

use std::path::PathBuf;

use warpsmith_device::target::Fault;
use warpsmith_model::EvalError;

/// Why there is no finding.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The lab's own parts do not hold together, so nothing that they say of a candidate counts.
    #[error("lab `{lab}` is refused: {reason}")]
    LabRefused {
        /// The lab's name.
        lab: String,
        /// What is wrong and what to change.
        reason: String,
    },
    /// An expression of the lab or of a contract has no usable value.
    #[error("{what}")]
    Expression {
        /// Which expression, for which shape.
        what: String,
        /// Why it has no value.
        #[source]
        source: EvalError,
    },
    /// The contract gives a value that makes no sense.
    #[error("kernel `{kernel}`: {reason}")]
    BadContract {
        /// The kernel.
        kernel: String,
        /// What is wrong.
        reason: String,
    },
    /// With these parameters nothing may be compiled: a flag, a compiler or a macro that is not allowed.
    #[error("kernel `{kernel}`: {reason}")]
    Uncompilable {
        /// The kernel.
        kernel: String,
        /// What is wrong, and what is allowed.
        reason: String,
    },
    /// With these parameters the kernel cannot be launched on a shape (no blocks, too many threads), or does
    /// not say whether it serves it.
    #[error("kernel `{kernel}`: {reason}")]
    Unlaunchable {
        /// The kernel.
        kernel: String,
        /// The shape.
        workload: String,
        /// What is wrong, and where.
        reason: String,
    },
    /// The job names a workload that the kernel's `requires` excludes.
    #[error(
        "`{subject}` does not serve workload `{workload}` (see its `requires`); leave it out of the job"
    )]
    NotServed {
        /// The kernel or baseline.
        subject: String,
        /// The workload.
        workload: String,
    },
    /// The job names a workload that the lab does not have.
    #[error("lab `{lab}` has no workload `{workload}`")]
    UnknownWorkload {
        /// The lab's name.
        lab: String,
        /// The name that was asked for.
        workload: String,
    },
    /// The job's parameters are not those of the kernel.
    #[error("parameters of `{kernel}`: {reason}")]
    BadParams {
        /// The kernel.
        kernel: String,
        /// What is missing or unknown.
        reason: String,
    },
    /// The target could not do its part.
    #[error("{doing}")]
    Target {
        /// What we were doing.
        doing: String,
        /// What went wrong.
        #[source]
        source: Fault,
    },
    /// The cache of expected outputs could not be used.
    #[error("cache of expected outputs at {}", path.display())]
    Cache {
        /// The file or folder.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: std::io::Error,
    },
    /// The request asks for something that does not exist.
    #[error("{0}")]
    BadRequest(String),
}

impl GateError {
    pub(crate) fn refused(lab: &str, reason: impl Into<String>) -> Self {
        Self::LabRefused { lab: lab.to_string(), reason: reason.into() }
    }
}

//! The nouns of Warpsmith and the pure functions over them.
//!
//! A [`Lab`] says what to compute, a [`Candidate`] is one kernel source with one choice of
//! parameters, and a [`Trial`] is everything that was learned from evaluating one candidate once.
//! These types are the wire format and the disk format; serde derives live here and nowhere else.
//!
//! Deliberately absent: input and output, clocks, entropy, `unsafe`. Randomness is a pure function
//! of a seed ([`rng`]); times are SI seconds that somebody else measured.
//!
//! ```
//! use warpsmith_model::{Expr, Value};
//! let blocks = Expr::parse("B * ceil_div(S, BM)").expect("valid");
//! let value = blocks.eval(&|name: &str| match name {
//!     "B" => Some(Value::Int(4)),
//!     "S" => Some(Value::Int(100)),
//!     "BM" => Some(Value::Int(32)),
//!     _ => None,
//! });
//! assert_eq!(value.expect("all names bound"), Value::Int(16));
//! ```

mod ablation;
mod candidate;
mod chain;
mod device_state;
pub mod diagnose;
mod environment;
mod evolve;
pub mod expr;
mod id;
pub mod lab;
mod models;
pub mod notes;
mod profile;
mod record;
mod remark;
pub mod rng;
pub mod roofline;
mod settings;
pub mod significance;
pub mod stats;
pub mod suggest;
pub mod text;
mod trial;
pub mod units;
mod value;
mod wire;
mod writer;

pub use ablation::{AblationArm, AblationDifference, AblationRecord, SIGNIFICANT_P};
pub use candidate::{Candidate, Fidelity, Job, KernelText, Origin, Request, RequestLimits};
pub use chain::{Authority, ChainRecord, Proof, Sensitivity};
pub use device_state::{ClockLimit, DeviceState, Span};
pub use diagnose::{Bound, Counters, Diagnosis, Gap};
pub use environment::{
    CeilingRate, Ceilings, Compiler, CudaInfo, DeviceInfo, Environment, Guard, Isolation,
};
pub use evolve::{
    CallAnswer, CallRecord, EvolutionMode, EvolutionStart, EvolveSettings, InsightFrom,
    ModelChoice, ModelPolicy, Operator, Prompt, Rejection, ReplyVerdict, SourceRecord, Usage,
};
pub use expr::{EvalError, Expr, ExprError};
pub use id::{BlobId, CandidateId, EnvironmentId, Hasher, LabId, RunId, TrialId};
pub use lab::Lab;
pub use models::{HttpConfig, ModelConfig, Models, ProviderConfig};
pub use profile::{
    CounterSource, FileBlob, LaunchCode, LaunchProfile, ProfileRecord, WorkloadProfile,
};
pub use record::{
    Absent, BestEntry, BestList, ClockCheck, ComparisonPurpose, ComparisonRecord, Contender,
    ContenderKind, EvidenceExport, InputsRecord, KernelRecord, LabRecord, MissingBaseline,
    PairedRounds, RunRecord, RunStatus, RunTrial, ScalarKind, ScalarRecord, TensorRecord,
    TunableRecord, WorkloadRecord,
};
pub use remark::{Loss, Remark, compiler_notes, remarks};
pub use settings::{Goal, Objective, PROGRESS, RunSettings, SeedFrom, Until};
pub use trial::{
    Blob, BudgetShare, Build, CrashCause, ErrorSize, Finding, LEFT_OUT_NOTE, Measurement, Mismatch,
    MismatchKind, Outcome, PlainError, SANITIZER_NOTE, Stage, StopReason, Trial, Verdict,
};
pub use value::{DType, Params, Value};
pub use wire::{Answer, Ask, CompareRequest, ContenderRequest, LabRef, ProfileRequest, Profiled};
pub use writer::Writer;

/// The version of every stored document; bumped with any change of these types.
pub const FORMAT_VERSION: u32 = 1;

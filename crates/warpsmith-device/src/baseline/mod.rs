//! Library baselines: Python scripts of the lab, run as sessions under the harness's clock.
//!
//! [`Python`] is a [`Target`] whose programs are scripts: `compile` finds the script, `open` starts
//! an interpreter that imports it, calls its `prepare` and maps the tensors, and every launch is one
//! line to the interpreter and one line back. The next session takes the interpreter over, because
//! importing a library takes seconds. A baseline is trusted code of the lab and is not sandboxed; its
//! inputs are read-only all the same, so that it runs on what the candidates run on.

mod conversation;
mod reference;
mod script;

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use warpsmith_model::lab::{Baseline, Role};
use warpsmith_model::{BlobId, DType, DeviceInfo, Lab};

use crate::poison::Poison;
use crate::sys::memory::{Mapping, MemoryFile, page_bytes};
use crate::sys::socket::send_descriptors;
use crate::target::{
    Artifact, CaseId, Clocked, Contents, Extent, Fault, Program, Session, Target, TensorPlan, Unit,
};
use conversation::{Conversation, Role as InterpreterRole};
pub use reference::{Call, ScriptReference};
pub use script::run_script;

/// The classes that the worker uses come before it: both are one program.
const WORKER: &str = concat!(include_str!("worker_cuda.py"), "\n\n", include_str!("worker.py"));

/// How long an interpreter may take to import the library and prepare, unless the baseline says more.
const START_DEADLINE: Duration = Duration::from_secs(120);
/// How long it may take to forget what it was prepared for.
const RELEASE_DEADLINE: Duration = Duration::from_secs(20);
/// Waking a library's threads takes up to a hundred microseconds, which is one percent of this.
const WAKE_COUNTS_S: f64 = 0.01;
/// What inputs are read through by.
const LEVEL_BYTES: usize = 256 << 10;
/// Bytes behind each output that must stay as they are.
const GUARD_BYTES: usize = 64;
const GUARD_BYTE: u8 = 0xa5;

/// A Python interpreter that runs a lab's baselines.
#[derive(Debug)]
pub struct Python {
    interpreter: PathBuf,
    lab_dir: PathBuf,
    axes: Vec<String>,
    scalars: Vec<String>,
    packages: Vec<String>,
    /// How long an interpreter may take to import the library and prepare.
    start_deadline: Duration,
    info: DeviceInfo,
    cases: Vec<Option<Inputs>>,
    /// An interpreter that is on its way.
    opening: Option<Opening>,
    /// One that a session has left, frozen.
    idle: Idle,
}

type Idle = Arc<Mutex<Option<Interpreter>>>;

/// A process that has loaded a script.
#[derive(Debug)]
struct Interpreter {
    script: PathBuf,
    conversation: Conversation,
    /// By which it gets open files.
    files: UnixStream,
}

/// A session before the script has prepared.
#[derive(Debug)]
struct Opening {
    axes: Vec<i64>,
    cases: Vec<CaseId>,
    plan: Value,
    interpreter: Interpreter,
    outputs: Outputs,
}

/// The inputs of one case in a sealed file.
#[derive(Debug)]
struct Inputs {
    file: Rc<MemoryFile>,
    /// Index into the tensors, offset, hash of the content.
    tensors: Vec<(usize, usize, usize, blake3::Hash)>,
}

impl Python {
    /// Makes a target for a baseline of a lab; `info` describes the device, whose number of threads the
    /// baseline may use.
    pub fn new(
        interpreter: &Path,
        lab_dir: &Path,
        lab: &Lab,
        baseline: &Baseline,
        info: &DeviceInfo,
    ) -> Self {
        let start_s = baseline.start_s.map(|start_s| Duration::from_secs(start_s.into()));
        Self {
            interpreter: interpreter.to_path_buf(),
            lab_dir: lab_dir.to_path_buf(),
            axes: lab.axes.clone(),
            scalars: lab.scalars.iter().map(|scalar| scalar.name.clone()).collect(),
            packages: baseline.packages.clone(),
            start_deadline: start_s.unwrap_or(START_DEADLINE),
            info: info.clone(),
            cases: Vec::new(),
            opening: None,
            idle: Idle::default(),
        }
    }

    /// Starts the interpreter of the next session that is opened, which loads its library while others do
    /// the same. What goes wrong is for `open` to find and to say.
    pub fn start(&mut self, program: &Program, cases: &[CaseId]) {
        self.opening = self.begin(program, cases).ok();
    }

    fn begin(&self, program: &Program, cases: &[CaseId]) -> Result<Opening, Fault> {
        let outputs = Outputs::create(&program.tensors, cases.len())
            .map_err(|source| broken("making room for outputs", source))?;
        let mut files = vec![outputs.file.as_fd()];
        let mut case_plans = Vec::new();
        for (slot, case) in cases.iter().enumerate() {
            let inputs = self.cases[case.0].as_ref().expect("only staged cases are opened");
            let mut input_plans = Map::new();
            for (tensor, offset, _, _) in &inputs.tensors {
                let plan = &program.tensors[*tensor];
                input_plans.insert(plan.name.clone(), tensor_plan(plan, files.len(), *offset));
            }
            files.push(inputs.file.as_fd());
            let mut output_plans = Map::new();
            for (tensor, offset) in &outputs.places[slot] {
                let plan = &program.tensors[*tensor];
                output_plans.insert(plan.name.clone(), tensor_plan(plan, 0, *offset));
            }
            case_plans.push(json!({ "inputs": input_plans, "outputs": output_plans }));
        }
        let named = |names: &[String], values: Vec<Value>| -> Map<String, Value> {
            names.iter().cloned().zip(values).collect()
        };
        let plan = json!({
            "axes": named(&self.axes, program.axes.iter().map(|value| json!(value)).collect()),
            "scalars":
                named(&self.scalars, program.scalars.iter().map(|value| json!(value)).collect()),
            "threads": self.info.threads,
            "on_cuda": self.info.cuda.is_some(),
            "files": files.len(),
            "cases": case_plans,
        });
        let script = &program.artifact.path;
        let left = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        // One that was killed meanwhile takes no files.
        let left =
            left.filter(|it| it.script == *script && send_descriptors(&it.files, &files).is_ok());
        let interpreter = match left {
            Some(interpreter) => {
                interpreter.conversation.thaw()?;
                interpreter
            }
            None => {
                let interpreter = self.new_interpreter(script)?;
                send_descriptors(&interpreter.files, &files)
                    .map_err(|source| broken("handing files over to Python", source))?;
                interpreter
            }
        };
        Ok(Opening {
            axes: program.axes.clone(),
            cases: cases.to_vec(),
            plan,
            interpreter,
            outputs,
        })
    }

    fn inputs_of(&self, case: CaseId) -> Option<Rc<MemoryFile>> {
        self.cases[case.0].as_ref().map(|inputs| Rc::clone(&inputs.file))
    }

    fn new_interpreter(&self, script: &Path) -> Result<Interpreter, Fault> {
        let (files, theirs) =
            UnixStream::pair().map_err(|source| broken("making a socket for Python", source))?;
        let role = InterpreterRole {
            program: WORKER.to_string(),
            arguments: vec![script.to_path_buf(), theirs.as_raw_fd().to_string().into()],
            name: "the baseline",
            packages: self.packages.clone(),
        };
        let (threads, inherited) = (self.info.threads, [theirs.as_fd()]);
        let conversation = Conversation::start(&self.interpreter, threads, &inherited, role)?;
        Ok(Interpreter { script: script.to_path_buf(), conversation, files })
    }
}

impl Target for Python {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Finds the script that the unit names.
    fn compile(&mut self, unit: &Unit) -> Result<Artifact, Fault> {
        let path = self.lab_dir.join(&unit.file_name);
        let text = std::fs::read(&path)
            .map_err(|source| broken(&format!("reading the script {}", path.display()), source))?;
        let path =
            path.canonicalize().map_err(|source| broken("resolving the script's path", source))?;
        Ok(Artifact {
            command: vec![self.interpreter.display().to_string(), unit.file_name.clone()],
            path,
            binary: BlobId::of(&text),
            log: String::new(),
            compile_s: 0.0,
            cached: true,
        })
    }

    fn stage(&mut self, tensors: &[TensorPlan], contents: &Contents) -> Result<CaseId, Fault> {
        let inputs =
            stage_inputs(tensors, contents).map_err(|source| broken("staging inputs", source))?;
        self.cases.push(Some(inputs));
        Ok(CaseId(self.cases.len() - 1))
    }

    fn changed_input(&self, case: CaseId) -> Option<usize> {
        let inputs = self.cases[case.0].as_ref()?;
        let file = std::fs::File::from(inputs.file.as_fd().try_clone_to_owned().ok()?);
        inputs.tensors.iter().find_map(|(tensor, offset, bytes, hash)| {
            let mut content = vec![0; *bytes];
            let read = file.read_exact_at(&mut content, *offset as u64);
            (read.is_err() || blake3::hash(&content) != *hash).then_some(*tensor)
        })
    }

    fn unstage(&mut self, case: CaseId) {
        self.cases[case.0] = None;
    }

    fn open(
        &mut self,
        program: &Program,
        cases: &[CaseId],
        deadline: Duration,
    ) -> Result<Box<dyn Session>, Fault> {
        let is_asked = |opening: &Opening| {
            let Opening { interpreter, axes, cases: staged, .. } = opening;
            interpreter.script == program.artifact.path && *axes == program.axes && staged == cases
        };
        let Opening { plan, mut interpreter, outputs, .. } =
            match self.opening.take().filter(is_asked) {
                Some(opening) => opening,
                None => self.begin(program, cases)?,
            };
        let ready = interpreter.conversation.ask(&plan.to_string(), self.start_deadline)?;
        interpreter.conversation.freeze()?;
        Ok(Box::new(PythonSession {
            interpreter: Some(interpreter),
            idle: Arc::clone(&self.idle),
            last: None,
            tensors: program.tensors.clone(),
            outputs,
            deadline,
            remark: ready.remark,
            delivers: ready.said["delivers"] == true,
            on_cuda: self.info.cuda.is_some(),
            inputs: cases.iter().filter_map(|case| self.inputs_of(*case)).collect(),
        }))
    }
}

struct PythonSession {
    /// None after something went wrong.
    interpreter: Option<Interpreter>,
    /// Where it goes in the end.
    idle: Idle,
    /// The case that was launched last, and the seconds of its batch.
    last: Option<(usize, f64)>,
    tensors: Vec<TensorPlan>,
    outputs: Outputs,
    deadline: Duration,
    /// What the script says of how it computes.
    remark: Option<String>,
    /// Whether results are copied to where outputs are read by a command of its own, after the clock
    /// stopped.
    delivers: bool,
    /// Whether the script's process reads a clock of its own, the device's.
    on_cuda: bool,
    /// The inputs of each case, to read through.
    inputs: Vec<Rc<MemoryFile>>,
}

impl PythonSession {
    /// Speaks to the interpreter while it is not frozen. One with which something goes wrong is ended.
    fn speak<T>(
        &mut self,
        speak: impl FnOnce(&mut Conversation) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let Some(mut interpreter) = self.interpreter.take() else {
            return Err(broken("speaking to Python", io::Error::other("it has ended before")));
        };
        let conversation = &mut interpreter.conversation;
        conversation.thaw()?;
        let heard = speak(conversation)?;
        conversation.freeze()?;
        self.interpreter = Some(interpreter);
        Ok(heard)
    }
}

impl Drop for PythonSession {
    fn drop(&mut self) {
        // What it holds of the device is free for others again. An interpreter that cannot do this ends here.
        let released = self.speak(|conversation| conversation.ask("release", RELEASE_DEADLINE));
        if released.is_ok() {
            *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = self.interpreter.take();
        }
    }
}

impl Session for PythonSession {
    fn launch(&mut self, cases: &[usize], extent: &Extent) -> Result<Clocked, Fault> {
        if *extent != Extent::All {
            return Err(Fault::Unavailable("a baseline has no blocks to launch alone".to_string()));
        }
        let words: Vec<String> = cases.iter().map(usize::to_string).collect();
        let command = words.join(" ");
        // A library's threads spin for a while after their work and sleep when there is none, so
        // the interpreter is frozen between launches, like candidates are; and where the time to
        // wake the threads would count, the last case is run again before the clock starts.
        let wake = match self.last {
            Some((case, elapsed_s)) if elapsed_s < WAKE_COUNTS_S => case.to_string(),
            _ => String::new(),
        };
        let (deadline, delivers) = (self.deadline, self.delivers);
        let (elapsed_s, on_device_s) = self.speak(|conversation| {
            conversation.ask(&wake, deadline)?;
            let started = Instant::now();
            let on_device_s = conversation.ask(&command, deadline)?.seconds;
            let elapsed_s = on_device_s.unwrap_or_else(|| started.elapsed().as_secs_f64());
            if delivers {
                conversation.ask("deliver", deadline)?;
            }
            Ok((elapsed_s, on_device_s))
        })?;
        // A device has no threads that fall asleep.
        let wakes = on_device_s.is_none();
        self.last = cases.last().filter(|_| wakes).map(|case| (*case, elapsed_s));
        Ok(Clocked { elapsed_s, ticks: None, waited_s: 0.0, state: None })
    }

    fn level(&mut self, cases: &[usize]) {
        if self.on_cuda {
            return;
        }
        let mut buffer = vec![0; LEVEL_BYTES];
        for case in cases {
            self.outputs.poison(&self.tensors, *case, Poison::Nan);
            self.inputs[*case].read_through(&mut buffer);
        }
    }

    fn time_copy(&mut self, bytes: usize) -> Result<Option<f64>, Fault> {
        if !self.on_cuda {
            return Ok(None);
        }
        let deadline = self.deadline;
        let answer =
            self.speak(|conversation| conversation.ask(&format!("copy {bytes}"), deadline))?;
        Ok(answer.seconds)
    }

    fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }

    fn output(&self, case: usize, tensor: usize) -> &[u8] {
        let start = self.outputs.place(case, tensor);
        &self.outputs.content()[start..start + self.tensors[tensor].bytes()]
    }

    fn overwritten_guard(&self, case: usize) -> Option<usize> {
        self.outputs.places[case].iter().find_map(|(tensor, offset)| {
            let end = offset + self.tensors[*tensor].bytes();
            let guard = &self.outputs.content()[end..end + GUARD_BYTES];
            guard.iter().any(|byte| *byte != GUARD_BYTE).then_some(*tensor)
        })
    }

    fn poison(&mut self, case: usize, poison: Poison) {
        self.outputs.poison(&self.tensors, case, poison);
    }
}

/// The outputs of all cases of a session, in one shared file.
#[derive(Debug)]
struct Outputs {
    file: MemoryFile,
    mapping: Mapping,
    /// For each case, the output tensors and their offsets.
    places: Vec<Vec<(usize, usize)>>,
}

impl Outputs {
    fn create(tensors: &[TensorPlan], n_cases: usize) -> io::Result<Self> {
        let mut end = 0;
        let mut places = Vec::new();
        for _ in 0..n_cases {
            let mut case = Vec::new();
            for (idx, plan) in tensors.iter().enumerate() {
                if plan.role == Role::Output {
                    case.push((idx, end));
                    end += (plan.bytes() + GUARD_BYTES).next_multiple_of(page_bytes());
                }
            }
            places.push(case);
        }
        let bytes = end.max(page_bytes());
        let file = MemoryFile::create(c"baseline outputs", bytes)?;
        let mapping = Mapping::shared(file.as_fd(), bytes)?;
        let mut outputs = Self { file, mapping, places };
        outputs.content_mut().fill(GUARD_BYTE);
        for case in 0..n_cases {
            outputs.poison(tensors, case, Poison::Nan);
        }
        Ok(outputs)
    }

    fn place(&self, case: usize, tensor: usize) -> usize {
        let place = self.places[case].iter().find(|(idx, _)| *idx == tensor);
        place.expect("only outputs are asked for").1
    }

    fn poison(&mut self, tensors: &[TensorPlan], case: usize, poison: Poison) {
        for (tensor, offset) in self.places[case].clone() {
            let plan = &tensors[tensor];
            poison.fill(plan.dtype, &mut self.content_mut()[offset..offset + plan.bytes()]);
        }
    }

    fn content(&self) -> &[u8] {
        // SAFETY: the interpreter writes only while a command is under way, and `launch`, which
        // waits for its end, borrows the session exclusively.
        unsafe { self.mapping.content() }
    }

    fn content_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the session is borrowed exclusively here too.
        unsafe { self.mapping.content_mut() }
    }
}

fn stage_inputs(tensors: &[TensorPlan], contents: &[Vec<u8>]) -> io::Result<Inputs> {
    let inputs: Vec<usize> =
        (0..tensors.len()).filter(|idx| tensors[*idx].role == Role::Input).collect();
    let mut end = 0;
    let mut placed = Vec::new();
    for (tensor, content) in inputs.into_iter().zip(contents) {
        placed.push((tensor, end, content.len(), blake3::hash(content)));
        end += content.len().next_multiple_of(page_bytes());
    }
    let file = MemoryFile::create(c"baseline inputs", end.max(page_bytes()))?;
    for ((_, offset, _, _), content) in placed.iter().zip(contents) {
        file.write_at(content, *offset)?;
    }
    file.seal()?;
    Ok(Inputs { file: Rc::new(file), tensors: placed })
}

/// `file`: which of those that are handed over.
fn tensor_plan(plan: &TensorPlan, file: usize, offset: usize) -> Value {
    // NumPy has no bfloat16; a script that wants one views the bits.
    let dtype = match plan.dtype {
        DType::F16 => "float16",
        DType::Bf16 => "uint16",
        DType::F32 => "float32",
        DType::F64 => "float64",
    };
    json!({
        "file": file,
        "offset": offset,
        "bytes": plan.bytes(),
        "shape": plan.shape,
        "dtype": dtype,
        "element": plan.dtype,
    })
}

fn broken(what: &str, source: io::Error) -> Fault {
    Fault::Broken { what: what.to_string(), source }
}

//! A session in a device process, seen from the worker.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use warpsmith_model::CrashCause;
use warpsmith_model::lab::Role;
use warpsmith_model::rng::Rng;

use super::process::{DeviceProcess, Window, Windows};
use super::server::WARM_UPS;
use super::wire::{Ask, Clock, Reply, Spoilt};
use super::{PATIENCE, broken, misuse, module_of, session_plan};
use crate::poison::Poison;
use crate::sys::memory::MemoryFile;
use crate::target::{CaseId, Clocked, Contents, Extent, Fault, Program, Session};
use crate::trace;

/// By case, the input (counted among inputs) that a kernel changed in what it was given.
pub(super) type ChangedInputs = Arc<Mutex<BTreeMap<usize, usize>>>;

/// Where a session is opened.
pub(super) struct SessionHost {
    pub(super) device: Arc<Mutex<DeviceProcess>>,
    pub(super) session: u64,
    pub(super) deadline: Duration,
    pub(super) ticks_per_s: f64,
    pub(super) windows: Arc<Mutex<Windows>>,
    pub(super) changed: ChangedInputs,
    /// By slot, inputs that the process does not have yet; empty where it has all.
    pub(super) to_stage: Vec<Option<Inputs>>,
}

/// Inputs that several processes get, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Inputs {
    pub(super) contents: Contents,
    /// The same in memory that can be shared, once a process has asked for them.
    pub(super) file: Arc<OnceLock<MemoryFile>>,
}

/// From this size on inputs are shared instead of sent: sending takes a second for every one or two GiB.
const SHARED_FROM_BYTES: usize = 1 << 20;

impl Inputs {
    fn give(&self, process: &mut DeviceProcess, case: usize) -> Result<(), Fault> {
        let bytes: usize = self.contents.iter().map(Vec::len).sum();
        if bytes < SHARED_FROM_BYTES {
            return process.stage(case, &self.contents);
        }
        if self.file.get().is_none() {
            let sharing = broken("sharing inputs with the device process");
            let file = MemoryFile::create(c"warpsmith inputs", bytes).map_err(&sharing)?;
            let mut offset = 0;
            for content in self.contents.iter() {
                file.write_at(content, offset).map_err(&sharing)?;
                offset += content.len();
            }
            // Nobody else was here: the target that has them is used by one thread.
            let _ = self.file.set(file);
        }
        match self.file.get() {
            Some(file) => process.stage_shared(case, &self.contents, file),
            None => Err(misuse("inputs were not shared")),
        }
    }
}

/// A session in a device process.
pub(super) struct CudaSession {
    place: SessionHost,
    /// The process that has it.
    number: u64,
    /// By slot.
    cases: Vec<usize>,
    /// Cases that the process has because of this session.
    staged: Vec<usize>,
    /// The outputs, slot by slot, as the last launch of each left them; none after the session has given
    /// it back.
    window: Option<Window>,
    slot_bytes: usize,
    /// By slot, whether its outputs are in the window.
    fetched: Vec<bool>,
    /// By slot, the output tensor beside which something was written.
    overwritten: Vec<Option<usize>>,
    /// By slot, what its outputs shall hold when it is launched next; none for whatever the process draws.
    poisons: Vec<Option<Poison>>,
    /// Decides what outputs hold before timed launches.
    rng: Rng,
    /// The output tensors and their sizes.
    outputs: Vec<(usize, usize)>,
    /// What a library chose.
    remark: Option<String>,
}

impl CudaSession {
    pub(super) fn open(
        place: SessionHost,
        program: &Program,
        cases: &[CaseId],
    ) -> Result<Self, Fault> {
        let _step = trace::step("opening a session on the device");
        let module = match program.gemm {
            None => module_of(program)?,
            Some(_) => Vec::new(),
        };
        let outputs: Vec<(usize, usize)> = (0..program.tensors.len())
            .filter(|idx| program.tensors[*idx].role == Role::Output)
            .map(|idx| (idx, program.tensors[idx].bytes()))
            .collect();
        let slot_bytes = outputs.iter().map(|(_, bytes)| bytes).sum::<usize>();
        let session = place.session;
        let device = Arc::clone(&place.device);
        let mut process = device.lock().unwrap_or_else(PoisonError::into_inner);
        let number = process.alive()?;
        let plan = session_plan(program, cases, module.len());
        let ask = Ask::Open { session, plan: Box::new(plan) };
        let Reply::Opened { remark } = process.ask(&ask, &[&module], PATIENCE)? else {
            return Err(misuse("the device process opened no session"));
        };
        let mut windows = place.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = windows.take((slot_bytes * cases.len()).max(1)).and_then(|window| {
            let shared = process.share(&window, &windows);
            shared.map(|()| window)
        });
        drop(windows);
        let window = match shared {
            Ok(window) => window,
            Err(fault) => {
                let _ = process.ask(&Ask::Close { session }, &[], PATIENCE);
                return Err(fault);
            }
        };
        drop(process);
        Ok(Self {
            place,
            number,
            cases: cases.iter().map(|case| case.0).collect(),
            staged: Vec::new(),
            window: Some(window),
            slot_bytes,
            fetched: vec![false; cases.len()],
            overwritten: vec![None; cases.len()],
            poisons: vec![None; cases.len()],
            rng: Rng::new(crate::system_seed()),
            outputs,
            remark,
        })
    }

    fn process(&self) -> Result<MutexGuard<'_, DeviceProcess>, Fault> {
        let process = self.place.device.lock().unwrap_or_else(PoisonError::into_inner);
        if process.number != self.number || process.running.is_none() {
            // What a launch does to its process is that launch's answer; this one ended between two of them.
            return Err(Fault::Crashed(CrashCause::from_outside()));
        }
        Ok(process)
    }

    /// Gives the process the inputs that it lacks.
    fn stage(&mut self, slots: &[usize]) -> Result<(), Fault> {
        for slot in slots {
            let inputs = self.place.to_stage.get_mut(*slot).and_then(Option::take);
            let Some(inputs) = inputs else { continue };
            let case = self.cases[*slot];
            if !self.staged.contains(&case) {
                let _step = trace::step("staging inputs in a process of its own");
                inputs.give(&mut *self.process()?, case)?;
                self.staged.push(case);
            }
        }
        Ok(())
    }

    fn clocked(&mut self, slots: &[usize], clock: Clock) -> Result<Clocked, Fault> {
        self.stage(slots)?;
        for slot in slots {
            self.fetched[*slot] = false;
            self.overwritten[*slot] = None;
        }
        let poisons = slots.iter().map(|slot| self.poisons[*slot].take()).collect();
        let slots = slots.to_vec();
        let ask = Ask::Launch { session: self.place.session, slots, poisons, clock };
        // A warm reading is one batch like any other, and several that warm up.
        let batches = if clock == Clock::Warm { WARM_UPS + 1 } else { 1 };
        let deadline = self.place.deadline * batches as u32;
        let reply = self.process()?.ask(&ask, &[], deadline)?;
        let (clocked, spoilt) = match reply {
            Reply::Clocked { seconds, state, spoilt } => {
                (Clocked { elapsed_s: seconds, ticks: None, waited_s: 0.0, state }, spoilt)
            }
            Reply::Counted { ticks: Some(ticks), state, spoilt } => {
                let elapsed_s = ticks as f64 / self.place.ticks_per_s;
                (Clocked { elapsed_s, ticks: Some(ticks), waited_s: 0.0, state }, spoilt)
            }
            _ => return Err(misuse("the device process read no clock")),
        };
        for it in spoilt {
            self.take_note(it)?;
        }
        Ok(clocked)
    }

    /// Remembers what a launch altered, for those who ask; beside scratch nobody would.
    fn take_note(&mut self, spoilt: Spoilt) -> Result<(), Fault> {
        match spoilt {
            Spoilt::Input { slot, input } => {
                let mut changed = self.place.changed.lock().unwrap_or_else(PoisonError::into_inner);
                changed.entry(self.cases[slot]).or_insert(input);
            }
            Spoilt::BesideOutput { slot, output } => {
                self.overwritten[slot] = Some(self.outputs[output].0);
            }
            Spoilt::BesideScratch { scratch } => {
                let message = format!(
                    "it wrote beside scratch buffer {scratch} (counted from 0): let `bytes` say how much \
                     the kernel needs"
                );
                return Err(Fault::Crashed(CrashCause::Device { message }));
            }
        }
        Ok(())
    }

    fn fetch(&mut self, slot: usize) -> Result<(), Fault> {
        let _step = trace::step("fetching outputs");
        let offset = slot * self.slot_bytes;
        let window = self.window.as_mut().ok_or_else(|| misuse("the session has no window"))?;
        // Said before it is asked: what ends meanwhile may have written a part.
        window.will_hold(offset + self.slot_bytes);
        let window = window.number;
        let ask = Ask::Fetch { session: self.place.session, slot, window, offset };
        self.process()?.ask(&ask, &[], PATIENCE)?;
        self.fetched[slot] = true;
        Ok(())
    }
}

impl Session for CudaSession {
    fn launch(&mut self, cases: &[usize], extent: &Extent) -> Result<Clocked, Fault> {
        let clock = match extent {
            Extent::All => Clock::Cold,
            Extent::Counted => Clock::Cycles,
            Extent::Blocks(_) => {
                let message = "a CUDA kernel has no blocks to launch alone".to_string();
                return Err(Fault::Unavailable(message));
            }
        };
        let clocked = self.clocked(cases, clock)?;
        for slot in cases {
            self.fetch(*slot)?;
        }
        Ok(clocked)
    }

    fn launch_warm(&mut self, cases: &[usize]) -> Result<Option<Clocked>, Fault> {
        self.clocked(cases, Clock::Warm).map(Some)
    }

    /// Every reading begins with cold caches as it is.
    fn level(&mut self, cases: &[usize]) {
        for case in cases {
            let poison = Poison::any(&mut self.rng);
            self.poison(*case, poison);
        }
    }

    fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }

    fn output(&self, case: usize, tensor: usize) -> &[u8] {
        let idx = self.outputs.iter().position(|(output, _)| *output == tensor);
        let idx = idx.expect("callers name an output of the program");
        match &self.window {
            Some(window) if self.fetched[case] => {
                let before: usize = self.outputs[..idx].iter().map(|(_, bytes)| bytes).sum();
                let start = case * self.slot_bytes + before;
                &window.content()[start..start + self.outputs[idx].1]
            }
            _ => &[],
        }
    }

    fn overwritten_guard(&self, case: usize) -> Option<usize> {
        self.overwritten[case]
    }

    /// What the last launch wrote is forgotten.
    fn poison(&mut self, case: usize, poison: Poison) {
        self.poisons[case] = Some(poison);
        self.fetched[case] = false;
        self.overwritten[case] = None;
    }
}

impl Drop for CudaSession {
    fn drop(&mut self) {
        if let Ok(mut process) = self.process() {
            // A process that cannot be told has ended, and the session with it.
            let _ = process.ask(&Ask::Close { session: self.place.session }, &[], PATIENCE);
            for case in &self.staged {
                let _ = process.ask(&Ask::Unstage { case: *case }, &[], PATIENCE);
            }
        }
        if let Some(window) = self.window.take() {
            let mut windows = self.place.windows.lock().unwrap_or_else(PoisonError::into_inner);
            windows.give_back(window);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A session whose process never was.
    fn session(slots: usize) -> CudaSession {
        let place = SessionHost {
            device: Arc::new(Mutex::new(DeviceProcess::new(None, &[]))),
            session: 0,
            deadline: PATIENCE,
            ticks_per_s: 1e9,
            windows: Arc::default(),
            changed: Arc::default(),
            to_stage: Vec::new(),
        };
        CudaSession {
            place,
            number: 0,
            cases: (0..slots).collect(),
            staged: Vec::new(),
            window: None,
            slot_bytes: 4,
            fetched: vec![true; slots],
            overwritten: vec![Some(0); slots],
            poisons: vec![None; slots],
            rng: Rng::new(7),
            outputs: vec![(0, 4)],
            remark: None,
        }
    }

    #[test]
    fn what_timed_launches_find_is_drawn() {
        let mut session = session(65);
        let timed: Vec<usize> = (1..65).collect();
        session.level(&timed);
        assert_eq!(session.poisons[0], None, "only of what is launched next");
        let kinds: BTreeSet<&str> = session.poisons[1..]
            .iter()
            .map(|poison| match poison.expect("drawn") {
                Poison::Nan => "nan",
                Poison::Zero => "zero",
                Poison::Ordinary { .. } => "ordinary",
                Poison::Finite { is_negative: false, .. } => "large",
                Poison::Finite { is_negative: true, .. } => "large and negative",
            })
            .collect();
        assert_eq!(kinds.len(), 5, "{kinds:?}");
        assert!(!session.fetched[1] && session.fetched[0], "what was there is nothing any more");
    }
}

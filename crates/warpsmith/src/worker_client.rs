//! The campaign's side of a worker: start it, ask it, replace it when it dies.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use warpsmith_device::cpu::is_foreign;
use warpsmith_device::cuda;
use warpsmith_model::lab::TargetKind;
use warpsmith_model::{Answer, Ask};

use crate::interrupt::{Interrupt, Interrupted};
use crate::output::say;
use crate::project::Project;

/// A worker process; dropping it ends the process.
#[derive(Debug)]
pub struct Worker {
    project: Project,
    target: TargetKind,
    process: Option<Process>,
    interrupt: Interrupt,
}

#[derive(Debug)]
struct Process {
    child: Child,
    stdin: ChildStdin,
    answers: Receiver<String>,
}

/// A worker has deadlines of its own for everything it runs, and gives half of this to an evaluation as a whole;
/// silence for longer is a defect of ours, and better an error than a campaign that hangs for ever.
const SILENCE: Duration = Duration::from_secs(3600);

/// How often whoever waits for an answer is asked whether to go on.
const GLANCE: Duration = Duration::from_millis(100);

/// How often the same question may cost a worker its life.
const MAX_LOSSES: u32 = 2;

/// Somebody killed the worker while it answered, and the next one too.
#[derive(Debug, thiserror::Error)]
#[error("the worker was killed {losses} times while it answered the same question ({how})")]
pub struct WorkerKilled {
    losses: u32,
    how: String,
}

/// The lab is at fault: the user must act, and no retry helps.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LabRefused(pub String);

impl Worker {
    /// Makes a worker; its process starts with the first question.
    pub fn new(project: &Project, target: TargetKind) -> Self {
        Self::stopped_by(project, target, &Interrupt::default())
    }

    /// Makes a worker that can be asked to give up what it is answering.
    pub fn stopped_by(project: &Project, target: TargetKind, interrupt: &Interrupt) -> Self {
        let (project, interrupt) = (project.clone(), interrupt.clone());
        Self { project, target, process: None, interrupt }
    }

    /// Returns what can ask it to give up.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Asks and waits. A worker that dies while answering is replaced and asked again, since the
    /// killer may have been somebody from outside; dying twice of one question is an error.
    pub fn ask(&mut self, ask: &Ask) -> Result<Answer> {
        let interrupt = self.interrupt.clone();
        self.ask_while(ask, &mut |_| !interrupt.asked_at_once())
    }

    /// Asks and waits while `go_on` agrees. It is called several times a second, and with the number of
    /// parts that are done whenever that has grown; when it declines, the worker is ended.
    pub fn ask_while(
        &mut self,
        ask: &Ask,
        go_on: &mut dyn FnMut(Option<u64>) -> bool,
    ) -> Result<Answer> {
        let line = serde_json::to_string(ask)?;
        let mut losses = 0;
        loop {
            if self.interrupt.asked_at_once() {
                return Err(Interrupted.into());
            }
            match self.try_ask(&line, go_on) {
                Ok(Answer::Failed { message, lab_refused: true }) => {
                    return Err(LabRefused(message).into());
                }
                Ok(Answer::Failed { message, lab_refused: false }) => bail!("{message}"),
                Ok(answer) => return Ok(answer),
                Err(error) if error.is::<Interrupted>() => {
                    self.reap();
                    return Err(error);
                }
                Err(loss) => {
                    let how = self.reap();
                    if self.interrupt.asked_at_once() {
                        return Err(Interrupted.into());
                    }
                    losses += 1;
                    if losses >= MAX_LOSSES && how.is_from_outside {
                        let how = how.status;
                        return Err(loss.context(WorkerKilled { losses, how }));
                    }
                    if losses >= MAX_LOSSES {
                        return Err(loss.context(format!(
                            "the worker died {losses} times of the same question ({}); this is \
                             a defect of the harness, not of the candidate",
                            how.status
                        )));
                    }
                    say(format!("  the worker was lost ({}); starting another", how.status));
                }
            }
        }
    }

    fn try_ask(
        &mut self,
        line: &str,
        go_on: &mut dyn FnMut(Option<u64>) -> bool,
    ) -> Result<Answer> {
        if self.process.is_none() {
            self.process = Some(start(&self.project, self.target)?);
        }
        let process = self.process.as_mut().expect("it was started above");
        writeln!(process.stdin, "{line}").context("the worker does not listen")?;
        process.stdin.flush().context("the worker does not listen")?;
        let mut heard = Instant::now();
        loop {
            let answer = match process.answers.recv_timeout(GLANCE) {
                Ok(text) => understand(&text)?,
                Err(RecvTimeoutError::Disconnected) => bail!("the worker ended without an answer"),
                Err(RecvTimeoutError::Timeout) if heard.elapsed() > SILENCE => {
                    bail!("the worker is silent for {SILENCE:?}")
                }
                Err(RecvTimeoutError::Timeout) => {
                    if !go_on(None) {
                        return Err(Interrupted.into());
                    }
                    continue;
                }
            };
            let Answer::Working { done, .. } = answer else { return Ok(answer) };
            heard = Instant::now();
            if !go_on(Some(done)) {
                return Err(Interrupted.into());
            }
        }
    }

    fn reap(&mut self) -> WorkerExit {
        let Some(mut process) = self.process.take() else {
            return WorkerExit { status: "not running".to_string(), is_from_outside: false };
        };
        // Whoever closed its answers is about to be dead, and says by itself how it died.
        const MOMENT: Duration = Duration::from_millis(500);
        let began = Instant::now();
        let mut by_itself = process.child.try_wait();
        let hung_up = matches!(process.answers.try_recv(), Err(TryRecvError::Disconnected));
        while hung_up && matches!(by_itself, Ok(None)) && began.elapsed() < MOMENT {
            std::thread::sleep(Duration::from_millis(5));
            by_itself = process.child.try_wait();
        }
        if let Ok(Some(status)) = by_itself {
            let is_from_outside = status.signal().is_some_and(is_foreign);
            return WorkerExit { status: status.to_string(), is_from_outside };
        }
        // It may have died just now.
        let _may_be_dead = process.child.kill();
        let status = process.child.wait();
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        WorkerExit { status, is_from_outside: false }
    }
}

/// How a worker ended.
struct WorkerExit {
    status: String,
    /// Whether somebody else killed it.
    is_from_outside: bool,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.reap();
    }
}

fn understand(text: &str) -> Result<Answer> {
    serde_json::from_str(text).map_err(|error| {
        let start: String = text.chars().take(200).collect();
        anyhow!("the worker's answer is not understood ({error}): {start}")
    })
}

fn start(project: &Project, target: TargetKind) -> Result<Process> {
    let program: PathBuf = std::env::current_exe().context("cannot find my own program")?;
    let mut child = Command::new(&program)
        .arg("__worker")
        .arg("--target")
        .arg(target.name())
        .arg("--evidence")
        .arg(&project.evidence_dir)
        .arg("--work-dir")
        .arg(&project.work_dir)
        .args(
            cuda::toolkit::preferred()
                .into_iter()
                .flat_map(|root| [std::ffi::OsStr::new("--cuda-home"), root.as_os_str()]),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // Ctrl-C goes to the whole foreground group; the campaign decides when the worker ends.
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start a worker ({})", program.display()))?;
    let stdin = child.stdin.take().expect("stdin is piped");
    let stdout = child.stdout.take().expect("stdout is piped");
    let (sender, answers) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            let Ok(line) = line else { break };
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    Ok(Process { child, stdin, answers })
}

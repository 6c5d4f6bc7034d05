//! A script as the reference: one interpreter for as long as a lab is in use.
//!
//! Contents and answers travel through its pipes in f64; its files are sent to it as texts, so that what
//! runs is what the lab's identity was computed from. It is stopped while nobody asks, since the threads
//! of numerical libraries spin.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};
use warpsmith_model::lab::{ReferenceScript, Role};

use super::conversation::{Conversation, Role as InterpreterRole};
use super::{START_DEADLINE, broken};
use crate::target::{Fault, TensorPlan};

const WORKER: &str = include_str!("worker_reference.py");

/// A running interpreter with the reference loaded.
#[derive(Debug)]
pub struct ScriptReference {
    conversation: Conversation,
    versions: String,
}

/// The shape that a reference answers for.
#[derive(Clone, Debug)]
pub struct Call {
    /// The axes, by name.
    pub axes: Vec<(String, i64)>,
    /// The scalars, by name.
    pub scalars: Vec<(String, f64)>,
    /// The tensors, all of them f64.
    pub tensors: Vec<TensorPlan>,
}

impl ScriptReference {
    /// Starts an interpreter and lets it load the script.
    pub fn start(
        interpreter: &Path,
        path: &str,
        script: &ReferenceScript,
        threads: u32,
    ) -> Result<Self, Fault> {
        let role = InterpreterRole {
            program: WORKER.to_string(),
            arguments: Vec::new(),
            name: "the reference",
            packages: script.packages.clone(),
        };
        let mut conversation = Conversation::start(interpreter, threads, &[], role)?;
        let files: Map<String, Value> =
            script.files.iter().map(|(name, text)| (name.clone(), json!(text))).collect();
        let name = path.rsplit('/').next().unwrap_or(path);
        let plan = json!({ "files": files, "script": name, "threads": threads });
        let ready = conversation.ask(&plan.to_string(), START_DEADLINE)?;
        conversation.freeze()?;
        Ok(Self { conversation, versions: ready.said["versions"].to_string() })
    }

    /// Returns the versions of Python and of the libraries that compute, in words.
    pub fn versions(&self) -> &str {
        &self.versions
    }

    /// Computes the outputs for inputs, both as bytes of f64; returns the seconds that it took, too.
    pub fn run(
        &mut self,
        call: &Call,
        inputs: &[Vec<u8>],
        deadline: Duration,
    ) -> Result<(Vec<Vec<u8>>, f64), Fault> {
        let of = |role: Role| call.tensors.iter().filter(move |tensor| tensor.role == role);
        let describe = |tensor: &TensorPlan| json!({ "name": tensor.name, "shape": tensor.shape });
        let head = json!({
            "axes": call.axes.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "scalars": call.scalars.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "inputs": of(Role::Input).map(describe).collect::<Vec<_>>(),
            "outputs": of(Role::Output).map(describe).collect::<Vec<_>>(),
        });
        self.conversation.thaw()?;
        self.conversation.say(format!("{head}\n").as_bytes())?;
        for bytes in inputs {
            self.conversation.say(bytes)?;
        }
        let answer = self.conversation.ask("", deadline)?;
        let mut outputs = Vec::new();
        for tensor in of(Role::Output) {
            outputs.push(self.conversation.hear(tensor.bytes(), deadline)?);
        }
        self.conversation.freeze()?;
        let seconds = answer.seconds.ok_or_else(|| {
            broken("reading the reference's answer", std::io::Error::other("it names no time"))
        })?;
        Ok((outputs, seconds))
    }
}

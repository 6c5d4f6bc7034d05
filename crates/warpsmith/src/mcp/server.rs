//! Messages in, messages out: which tool was called, how far it is, and what came of it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use anyhow::Result;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ProgressToken, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::json;
use tokio::io::{AsyncRead, ReadBuf};
use warpsmith_evidence::Store;
use warpsmith_model::Fidelity;
use warpsmith_search::evolve::brief;

use super::answers::{self, Reply};
use super::board;
use super::catalog::Catalog;
use super::evaluator::{Evaluator, Ticket, Work};
use super::resources;
use super::tools::{
    self, CompareArgs, EvaluateArgs, Gate, LeaderboardArgs, MAX_CONTENDERS, NoArgs, ProfileArgs,
    ReadKernelArgs, ReadTrialArgs,
};
use crate::campaign::kernel_of;
use crate::interrupt::Interrupted;
use crate::project::Project;

/// How often an agent hears that an evaluation is still running: clients give up on silence.
const BEAT: Duration = Duration::from_secs(2);
/// How often a cancelled evaluation is stopped again, until it has ended.
const CANCEL_EVERY: Duration = Duration::from_millis(50);

/// The server.
#[derive(Debug)]
pub struct Server {
    project: Project,
    catalog: Catalog,
    evaluator: Arc<Evaluator>,
}

impl Server {
    /// Makes a server over an evaluator.
    pub fn new(project: &Project, catalog: Catalog, evaluator: Arc<Evaluator>) -> Self {
        Self { project: project.clone(), catalog, evaluator }
    }

    /// Answers a call: what is read at once, what is measured when its turn comes.
    async fn answer(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<Reply, ErrorData> {
        let arguments = request.arguments;
        let outcome = match request.name.as_ref() {
            "list_labs" => tools::read::<NoArgs>(arguments).map(|_| self.list_labs()),
            "read_kernel" => tools::read(arguments).map(|it| self.read_kernel(&it)),
            "leaderboard" => tools::read(arguments).map(|it| self.leaderboard(&it)),
            "read_trial" => tools::read(arguments).map(|it| self.read_trial(&it)),
            "evaluate" => match tools::read::<EvaluateArgs>(arguments) {
                Ok(it) => {
                    let work: Work = Box::new(move |session, watch| session.evaluate(&it, watch));
                    Ok(self.measured(work, context).await)
                }
                Err(message) => Err(message),
            },
            "profile" => match tools::read::<ProfileArgs>(arguments) {
                Ok(it) => {
                    let work: Work = Box::new(move |session, watch| session.profile(&it, watch));
                    Ok(self.measured(work, context).await)
                }
                Err(message) => Err(message),
            },
            "compare" => match tools::read::<CompareArgs>(arguments) {
                Ok(it) if it.contenders.len() > MAX_CONTENDERS => Err(format!(
                    "{} contenders were named; {MAX_CONTENDERS} are compared at once",
                    it.contenders.len()
                )),
                Ok(it) => {
                    let work: Work = Box::new(move |session, watch| session.compare(&it, watch));
                    Ok(self.measured(work, context).await)
                }
                Err(message) => Err(message),
            },
            unknown => {
                let known: Vec<String> =
                    tools::all().iter().map(|tool| tool.name.to_string()).collect();
                let shown: String = unknown.chars().take(60).collect();
                let message = format!("there is no tool `{shown}`; there are {}", known.join(", "));
                return Err(ErrorData::invalid_params(message, None));
            }
        };
        Ok(match outcome {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => Reply::error(&crate::describe(&error)),
            Err(message) => Reply::error(&message),
        })
    }

    /// Has something measured, tells how far it is, and stops it when it is not wanted any more.
    async fn measured(&self, work: Work, context: RequestContext<RoleServer>) -> Result<Reply> {
        let mut ticket = self.evaluator.hand_in(work);
        let token = context.meta.get_progress_token();
        let mut progress =
            Progress { context: &context, token, step: 0, beats: 0, words: String::new() };
        let mut beat = tokio::time::interval(BEAT);
        beat.tick().await;
        loop {
            tokio::select! {
                biased;
                Some(words) = ticket.steps.recv() => progress.step(words).await,
                outcome = &mut ticket.done => return given(outcome),
                () = context.ct.cancelled() => return self.cancelled(ticket).await,
                _ = beat.tick() => progress.beat().await,
            }
        }
    }

    /// Stops a job and waits until it has ended, so that the next one finds the machine free.
    async fn cancelled(&self, mut ticket: Ticket) -> Result<Reply> {
        loop {
            self.evaluator.cancel(&ticket);
            if let Ok(outcome) = tokio::time::timeout(CANCEL_EVERY, &mut ticket.done).await {
                return given(outcome);
            }
        }
    }

    fn list_labs(&self) -> Result<Reply> {
        let mut rows = Vec::new();
        let mut text = String::new();
        for (name, loaded) in self.catalog.all()? {
            let lab = match &loaded {
                Ok(loaded) => &loaded.lab,
                Err(error) => {
                    let error = crate::describe(error);
                    text += &format!("{name}: not usable: {error}\n");
                    rows.push(json!({ "lab": name, "error": error }));
                    continue;
                }
            };
            let kernels: Vec<_> = lab
                .kernels
                .iter()
                .map(|kernel| json!({ "kernel": kernel.name, "summary": kernel.summary }))
                .collect();
            let workloads: Vec<&str> = lab.workloads.iter().map(|it| it.name.as_str()).collect();
            let baselines: Vec<&str> = lab.baselines.iter().map(|it| it.name.as_str()).collect();
            text += &format!("{name} ({}): {}\n", lab.target.name(), lab.title);
            for kernel in &lab.kernels {
                text += &format!("  {}: {}\n", kernel.name, kernel.summary);
            }
            text += &format!("  workloads: {}\n", workloads.join(", "));
            let extra: Vec<&str> = lab.extra.iter().map(|it| it.name.as_str()).collect();
            if !extra.is_empty() {
                let names = extra.join(", ");
                text += &format!("  extra shapes, measured where compare names them: {names}\n");
            }
            rows.push(json!({
                "lab": name, "title": lab.title, "target": lab.target.name(), "kernels": kernels,
                "workloads": workloads, "extra": extra, "baselines": baselines, "oracle": lab.oracle,
            }));
        }
        if rows.is_empty() {
            text = "there are no labs here\nhint: `warpsmith new NAME` makes one".to_string();
        }
        let unlisted = self.catalog.unlisted()?;
        if !unlisted.is_empty() {
            text += &format!("for tests, by name only: {}\n", unlisted.join(", "));
        }
        let data = json!({ "labs": rows, "unlisted": unlisted });
        Ok(Reply::new(data, text.trim_end().to_string()))
    }

    fn read_kernel(&self, asked: &ReadKernelArgs) -> Result<Reply> {
        let loaded = self.catalog.load(&asked.lab)?;
        let lab = &loaded.lab;
        let kernel = kernel_of(lab, &asked.kernel)?;
        let mut served = Vec::new();
        for workload in &lab.workloads {
            if kernel.serves(workload)? {
                served.push(workload.name.clone());
            }
        }
        let brief = brief(lab, kernel, &served);
        let tunables: serde_json::Map<String, serde_json::Value> = kernel
            .tunables
            .iter()
            .map(|tunable| (tunable.name.clone(), json!(tunable.values)))
            .collect();
        let constraints: Vec<&str> = kernel.constraints.iter().map(|it| it.text()).collect();
        let headers: Vec<&str> = lab.headers.iter().map(|(name, _)| name.as_str()).collect();
        let data = json!({
            "lab": asked.lab, "kernel": kernel.name, "summary": kernel.summary,
            "source": kernel.source, "contract": kernel.contract, "brief": brief,
            "tunables": tunables, "default": kernel.default, "constraints": constraints,
            "workloads": served, "headers": headers,
            "source_limit_bytes": warpsmith_search::evolve::MAX_SOURCE_BYTES,
        });
        let text = format!(
            "{brief}\n\n# Source of {}\n\n{}\n\n# Contract (stays as it is)\n\n{}",
            kernel.name, kernel.source, kernel.contract
        );
        Ok(Reply::new(data, text))
    }

    fn leaderboard(&self, asked: &LeaderboardArgs) -> Result<Reply> {
        let loaded = self.catalog.load(&asked.lab)?;
        let fidelity = match asked.gate {
            Gate::Quick => Fidelity::Rank,
            Gate::Full => Fidelity::Full,
        };
        let board = if self.project.database().is_file() {
            let store = Store::open_read_only(&self.project.database())?;
            board::ranked(&store, loaded.lab.id, None, fidelity)?
        } else {
            board::Board::default()
        };
        Ok(answers::board(&asked.lab, fidelity, &board, asked.limit.clamp(1, 100)))
    }

    fn read_trial(&self, asked: &ReadTrialArgs) -> Result<Reply> {
        let store = Store::open_read_only(&self.project.database())?;
        let trial = store.trial(&asked.trial)?;
        let log = answers::log_of(&trial).map(|log| store.blob(&log)).transpose()?;
        let source =
            if asked.source { Some(store.blob(&trial.job.candidate.source)?) } else { None };
        let runs = store.runs_of(&trial.id)?;
        Ok(answers::trial(&trial, &runs, log.as_deref(), source.as_deref()))
    }
}

fn given(outcome: Result<Result<Reply>, tokio::sync::oneshot::error::RecvError>) -> Result<Reply> {
    let outcome = outcome.unwrap_or_else(|_| Err(anyhow::anyhow!("the evaluator is gone")));
    match outcome {
        Err(error) if error.is::<Interrupted>() => Ok(Reply::error(
            "cancelled; nothing of this evaluation was recorded, and everything before it is",
        )),
        other => other,
    }
}

/// What an agent has been told of an evaluation. Numbers only ever grow, as the protocol demands: a
/// whole one for each step, and a part for each beat of a step that takes long.
struct Progress<'a> {
    context: &'a RequestContext<RoleServer>,
    token: Option<ProgressToken>,
    step: u32,
    beats: u32,
    words: String,
}

impl Progress<'_> {
    async fn step(&mut self, words: String) {
        self.step += 1;
        self.beats = 0;
        self.words = words;
        self.tell(self.words.clone()).await;
    }

    async fn beat(&mut self) {
        self.beats += 1;
        let seconds = u64::from(self.beats) * BEAT.as_secs();
        self.tell(format!("{} (for {seconds} s)", self.words)).await;
    }

    async fn tell(&self, message: String) {
        let Some(token) = &self.token else { return };
        let part = 1.0 - 1.0 / f64::from(1 + self.beats);
        let progress = f64::from(self.step) + part;
        let told = ProgressNotificationParam::new(token.clone(), progress).with_message(message);
        // An agent that is gone hears nothing; the end of its messages ends the evaluation.
        let _gone = self.context.peer.notify_progress(told).await;
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("warpsmith", env!("CARGO_PKG_VERSION")))
            .with_instructions(tools::INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult { tools: tools::all(), ..ListToolsResult::default() })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Reply { data, text, is_error } = self.answer(request, context).await?;
        let mut result = CallToolResult::structured(data);
        result.content = vec![ContentBlock::text(text)];
        result.is_error = Some(is_error);
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = resources::list(&self.project, &self.catalog).map_err(internal)?;
        Ok(ListResourcesResult { resources, ..ListResourcesResult::default() })
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let resource_templates = resources::templates();
        Ok(ListResourceTemplatesResult {
            resource_templates,
            ..ListResourceTemplatesResult::default()
        })
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = resources::read(&self.project, &self.catalog, &request.uri)
            .map_err(|error| ErrorData::resource_not_found(crate::describe(&error), None))?;
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

fn internal(error: anyhow::Error) -> ErrorData {
    ErrorData::internal_error(crate::describe(&error), None)
}

/// Standard input, which stops what is running as soon as it ends: whoever asked for it is gone.
#[derive(Debug)]
pub struct Ears<R> {
    input: R,
    evaluator: Arc<Evaluator>,
}

impl<R> Ears<R> {
    /// Listens to an input.
    pub fn new(input: R, evaluator: Arc<Evaluator>) -> Self {
        Self { input, evaluator }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Ears<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.input).poll_read(task, buffer);
        let has_ended = match &polled {
            Poll::Ready(Ok(())) => buffer.filled().len() == before && buffer.remaining() > 0,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if has_ended {
            self.evaluator.stop();
        }
        polled
    }
}

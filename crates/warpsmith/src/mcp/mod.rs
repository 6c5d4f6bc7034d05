//! The Model Context Protocol server: the evaluator for coding agents.
//!
//! [`serve`] speaks the protocol on standard input and output. [`server`] answers messages,
//! [`tools`] says which tools there are and what they are given, [`resources`] hands out texts.
//! Whatever measures goes through the [`evaluator`]: one thread with one [`session`], which does one
//! thing at a time and can be told to drop it. [`answers`] puts what was learned into few words.
//!
//! An agent's candidate is a candidate like any other: the rules for sources, the gate, the clock and
//! the evidence are those of the campaigns. There is no way around them here, because there is no
//! other evaluator here.
//!
//! This is the only asynchronous part of the program, since its counterpart may say anything at any
//! time. Nothing here writes to standard output but the protocol's transport.

mod answers;
mod board;
mod catalog;
mod evaluator;
mod resources;
mod server;
mod session;
mod tools;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use rmcp::ServiceExt;
use signal_hook::iterator::Signals;
use tokio::sync::Notify;
use warpsmith_model::lab::TargetKind;

use crate::output::say;
use crate::project::Project;
use catalog::Catalog;
use evaluator::Evaluator;
use server::{Ears, Server};

/// Serves one agent until it hangs up or a signal asks to stop. Then what is running is given up,
/// which costs no trial that is recorded, and the session's run is closed.
pub fn serve(project: &Project, labs: &Path, target: Option<TargetKind>) -> Result<()> {
    let catalog = Catalog::open(labs, target)?;
    let evaluator = Arc::new(Evaluator::start(project, &catalog)?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the server's runtime")?;
    let server = Server::new(project, catalog, Arc::clone(&evaluator));
    let outcome = runtime.block_on(until_the_end(server, Arc::clone(&evaluator)));
    evaluator.stop();
    evaluator.wait();
    // A read of standard input that nobody waits for any more must not keep the program.
    runtime.shutdown_background();
    outcome
}

async fn until_the_end(server: Server, evaluator: Arc<Evaluator>) -> Result<()> {
    let stopped = Arc::new(Notify::new());
    listen_for_signals(&stopped, &evaluator)?;
    let (input, output) = rmcp::transport::io::stdio_pipes();
    let serving = async {
        let service = match server.serve((Ears::new(input, evaluator), output)).await {
            Ok(service) => service,
            Err(error) => {
                return Err(anyhow::anyhow!(
                    "no agent began to speak: {error}\nhint: this program is started by a coding \
                     agent; docs/mcp.md says how"
                ));
            }
        };
        service.waiting().await.context("the server's loop ended in an unforeseen way")?;
        Ok(())
    };
    tokio::select! {
        outcome = serving => outcome,
        () = stopped.notified() => Ok(()),
    }
}

/// Lets SIGINT, SIGTERM and SIGHUP end the server in order; agents send them to servers that they are done with.
fn listen_for_signals(stopped: &Arc<Notify>, evaluator: &Arc<Evaluator>) -> Result<()> {
    let mut signals =
        Signals::new(crate::interrupt::signals()).context("cannot listen for signals")?;
    let (stopped, evaluator) = (Arc::clone(stopped), Arc::clone(evaluator));
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            say("stopped on request; everything so far is recorded");
            evaluator.stop();
            stopped.notify_one();
        }
    });
    Ok(())
}

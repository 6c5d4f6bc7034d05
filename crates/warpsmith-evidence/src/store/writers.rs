//! Who writes to a run, and whether they still do: a process that was killed cannot say that it ended.
//!
//! A run names its writers in documents beside its own, so older stores need no change and older versions
//! read newer ones. What became of a writer is found out when somebody asks, from `/proc`: a lock would have
//! to be a file beside the store, which copies and archives would take along or leave behind.

use std::io;
use std::sync::OnceLock;

use rusqlite::params;
use warpsmith_model::{RunStatus, Writer};

use super::Store;
use super::seal::{Table, text};
use super::write::json_text;
use crate::error::StoreError;

/// The kind of document under which writers are kept. It is about the machine that holds the store, and no
/// part of what is exported.
pub(super) const WRITER: &str = "writer";

/// What became of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Alive,
    Gone,
    /// It is, or was, where this process cannot look.
    OutOfSight,
}

impl Store {
    /// Notes that this process writes to a run; once for each run and process.
    pub(super) fn note_writer(&self, run_number: i64) -> Result<(), StoreError> {
        static OWN: OnceLock<String> = OnceLock::new();
        let own = OWN.get_or_init(|| json_text(&this_process()));
        let is_known = self
            .connection
            .prepare_cached(
                "SELECT 1 FROM documents WHERE run = ?1 AND kind = ?2 AND document = ?3",
            )
            .and_then(|mut select| select.exists(params![run_number, WRITER, own]))
            .map_err(|error| self.failed(error))?;
        if !is_known {
            let row = vec![run_number.into(), text(WRITER), text(own)];
            self.insert(Table::Documents, "INSERT", row).map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    /// Says what a status that was recorded means now: a run without an end goes on while one of its
    /// writers is there. `last_unix_s` is its last sign of life.
    pub(super) fn status_now(
        &self,
        run_number: i64,
        run: &str,
        recorded: RunStatus,
        last_unix_s: f64,
    ) -> Result<RunStatus, StoreError> {
        if recorded != RunStatus::Running {
            return Ok(recorded);
        }
        let documents: Vec<String> = self.sealed(
            Table::Documents,
            "",
            "WHERE run = ?1 AND kind = ?2",
            params![run_number, WRITER],
            || format!("a writer of run `{run}`"),
            |row| row.get(2),
        )?;
        let writers: Vec<Writer> = documents
            .iter()
            .map(|document| self.parse(document, || format!("a writer of run `{run}`")))
            .collect::<Result<_, _>>()?;
        let fates: Vec<Fate> = writers.iter().map(fate).collect();
        Ok(if fates.contains(&Fate::Alive) {
            RunStatus::Running
        } else if fates.is_empty() || fates.contains(&Fate::OutOfSight) {
            RunStatus::Unknown
        } else {
            RunStatus::Interrupted { ended_unix_s: last_unix_s }
        })
    }
}

/// Names this process.
fn this_process() -> Writer {
    let named = || -> io::Result<Option<Writer>> {
        let (boot, namespace) = (boot()?, namespace()?);
        let pid = std::process::id();
        let stat = Stat::parse(&std::fs::read_to_string("/proc/self/stat")?);
        Ok(stat.filter(|stat| stat.pid == pid).map(|stat| Writer::Process {
            boot,
            namespace,
            pid,
            started_ticks: stat.started_ticks,
        }))
    };
    // Whatever is missing, the answer is that nobody will be able to tell.
    named().ok().flatten().unwrap_or(Writer::Nameless)
}

fn fate(writer: &Writer) -> Fate {
    let Writer::Process { boot: its_boot, namespace: its_namespace, pid, started_ticks } = writer
    else {
        return Fate::OutOfSight;
    };
    // Another start of the machine is one of another machine, too: their names do not tell.
    let is_here = boot().is_ok_and(|boot| boot == *its_boot)
        && namespace().is_ok_and(|namespace| namespace == *its_namespace);
    if !is_here {
        return Fate::OutOfSight;
    }
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(text) => match Stat::parse(&text) {
            Some(stat) if stat.started_ticks != *started_ticks || stat.has_ended() => Fate::Gone,
            Some(_) => Fate::Alive,
            None => Fate::OutOfSight,
        },
        Err(error) if is_absence(&error) && sees_others() => Fate::Gone,
        Err(_) => Fate::OutOfSight,
    }
}

/// Says whether a process is not there, or ended while it was read about.
fn is_absence(error: &io::Error) -> bool {
    const NO_SUCH_PROCESS: i32 = 3;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(NO_SUCH_PROCESS)
}

/// Says whether other users' processes are shown here; `hidepid` hides them as if they had ended.
fn sees_others() -> bool {
    std::fs::read_to_string("/proc/1/stat").is_ok()
}

fn boot() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_string())
}

fn namespace() -> io::Result<String> {
    Ok(std::fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned())
}

/// What `/proc/PID/stat` says; see proc_pid_stat(5).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    pid: u32,
    state: char,
    started_ticks: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        let (pid, rest) = text.split_once(' ')?;
        // The program's name is in parentheses and may hold some itself; the third field follows it.
        let (_, rest) = rest.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let state = fields.next()?.chars().next()?;
        // Field 22, counted from 1.
        let started_ticks = fields.nth(18)?.parse().ok()?;
        Some(Self { pid: pid.parse().ok()?, state, started_ticks })
    }

    /// A process that nobody has waited for is listed, and does nothing any more.
    fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn writer_of(pid: u32) -> Writer {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
        let started_ticks = Stat::parse(&text).expect("its fields").started_ticks;
        Writer::Process {
            boot: boot().expect("a boot"),
            namespace: namespace().expect("a namespace"),
            pid,
            started_ticks,
        }
    }

    #[test]
    fn a_program_may_have_any_name() {
        let stat = "4242 (a) b (c)) S 1 4242 4242 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 1";
        let expected = Stat { pid: 4242, state: 'S', started_ticks: 987_654 };
        assert_eq!(Stat::parse(stat), Some(expected));
        assert_eq!(Stat::parse("4242 (a) S 1"), None);
    }

    #[test]
    fn a_process_is_alive_until_it_ends_even_before_anybody_waits_for_it() {
        assert_eq!(fate(&this_process()), Fate::Alive);
        let mut child =
            Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("it starts");
        let writer = writer_of(child.id());
        assert_eq!(fate(&writer), Fate::Alive);
        child.kill().expect("it can be killed");
        let start = std::time::Instant::now();
        while fate(&writer) != Fate::Gone {
            assert!(start.elapsed().as_secs() < 60, "it is not gone after a minute");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        child.wait().expect("it is gone");
        assert_eq!(fate(&writer), Fate::Gone);
    }

    #[test]
    fn a_number_that_was_given_again_is_another_process() {
        let Writer::Process { boot, namespace, pid, started_ticks } = this_process() else {
            panic!("this system names its processes");
        };
        let earlier = started_ticks - 1;
        let own = |boot: &str, namespace: &str, started_ticks: u64| {
            let (boot, namespace) = (boot.to_string(), namespace.to_string());
            fate(&Writer::Process { boot, namespace, pid, started_ticks })
        };
        assert_eq!(own(&boot, &namespace, started_ticks), Fate::Alive);
        assert_eq!(own(&boot, &namespace, earlier), Fate::Gone);
        assert_eq!(own("another", &namespace, started_ticks), Fate::OutOfSight);
        assert_eq!(own(&boot, "pid:[1]", started_ticks), Fate::OutOfSight);
        assert_eq!(fate(&Writer::Nameless), Fate::OutOfSight);
    }
}

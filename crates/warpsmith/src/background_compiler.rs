//! Compilers that run beside the measurement.
//!
//! [`BackgroundCompiler`] works through a list of units, in order, on all processors. Units are counted; whoever
//! waits for a range of numbers learns whether all of them could be compiled.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use warpsmith_device::cpu::Quiet;
use warpsmith_device::target::{Fault, Unit};
use warpsmith_model::lab::TargetKind;

use crate::quiet::{processors, quiet};

/// Why a unit was not compiled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CompileFailure {
    /// The compiler did not come to an end; another one would not either.
    TimedOut {
        /// The limit.
        limit_s: f64,
    },
    /// Something else; the worker compiles again and reports it with its log.
    Other,
}

impl From<&Fault> for CompileFailure {
    fn from(fault: &Fault) -> Self {
        match fault {
            Fault::TimedOut { limit_s } => Self::TimedOut { limit_s: *limit_s },
            _ => Self::Other,
        }
    }
}

/// Compilers at work.
#[derive(Debug)]
pub struct BackgroundCompiler {
    list: Arc<(Mutex<List>, Condvar)>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct List {
    waiting: VecDeque<(u64, Unit)>,
    /// Being compiled at this moment.
    running: Vec<u64>,
    /// Those that failed and were not asked for yet.
    failed: BTreeMap<u64, CompileFailure>,
    /// How many were put in.
    count: u64,
    ended: bool,
}

impl BackgroundCompiler {
    /// Starts as many compilers as there are processors; each calls `compile`.
    pub fn new(compile: impl Fn(&Unit) -> Result<(), Fault> + Send + Sync + 'static) -> Self {
        let list = Arc::new((Mutex::new(List::default()), Condvar::new()));
        let compile = Arc::new(compile);
        let threads = (0..processors())
            .map(|_| {
                let (list, compile) = (Arc::clone(&list), Arc::clone(&compile));
                std::thread::spawn(move || serve(&list, &*compile))
            })
            .collect();
        Self { list, threads }
    }

    /// Puts units on the list; returns their numbers.
    pub fn compile(&self, units: Vec<Unit>) -> RangeInclusive<u64> {
        let mut list = locked(&self.list.0);
        let first = list.count + 1;
        for unit in units {
            list.count += 1;
            let number = list.count;
            list.waiting.push_back((number, unit));
        }
        self.list.1.notify_all();
        first..=list.count
    }

    /// Waits until units and all before them are finished; returns why one of them was not compiled.
    pub fn wait_for(&self, numbers: &RangeInclusive<u64>) -> Option<CompileFailure> {
        let last = *numbers.end();
        let is_unfinished = |list: &mut List| {
            let waiting = list.waiting.front().is_some_and(|(first, _)| *first <= last);
            waiting || list.running.iter().any(|running| *running <= last)
        };
        let waited = self.list.1.wait_while(locked(&self.list.0), is_unfinished);
        let mut list = waited.unwrap_or_else(PoisonError::into_inner);
        // A request without units has the empty range.
        let failure = numbers.clone().find_map(|number| list.failed.get(&number).copied());
        list.failed.retain(|number, _| *number > last);
        failure
    }

    /// Leaves out what was not begun.
    pub fn forget(&self) {
        locked(&self.list.0).waiting.clear();
    }
}

impl Drop for BackgroundCompiler {
    fn drop(&mut self) {
        {
            let mut list = locked(&self.list.0);
            list.waiting.clear();
            list.ended = true;
        }
        self.list.1.notify_all();
        for thread in self.threads.drain(..) {
            // A compiler thread that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

fn serve(list: &(Mutex<List>, Condvar), compile: &dyn Fn(&Unit) -> Result<(), Fault>) {
    loop {
        let (number, unit) = {
            let is_idle = |list: &mut List| list.waiting.is_empty() && !list.ended;
            let waited = list.1.wait_while(locked(&list.0), is_idle);
            let mut list = waited.unwrap_or_else(PoisonError::into_inner);
            let Some(next) = list.waiting.pop_front() else { return };
            list.running.push(next.0);
            next
        };
        // A panic must not leave the number among those that run: whoever waits for it would wait for
        // ever. The thread goes on, since without any the list would never be finished.
        let compiled = catch_unwind(AssertUnwindSafe(|| {
            // A campaign on the processors may be measuring. Without the lock it is disturbed, no more.
            let _quiet = quiet(TargetKind::Cpu, Quiet::Compiling).ok();
            compile(&unit)
        }));
        let failure = match &compiled {
            Ok(Ok(())) => None,
            Ok(Err(fault)) => Some(CompileFailure::from(fault)),
            Err(_panicked) => Some(CompileFailure::Other),
        };
        let mut locked = locked(&list.0);
        locked.running.retain(|running| *running != number);
        locked.failed.extend(failure.map(|failure| (number, failure)));
        drop(locked);
        list.1.notify_all();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(source: &str) -> Unit {
        Unit {
            file_name: "empty.c".to_string(),
            source: source.to_string(),
            headers: Vec::new(),
            entries: Vec::new(),
            signature: Vec::new(),
            defines: Vec::new(),
            compiler: "a compiler that is not there".to_string(),
            flags: Vec::new(),
            deadline: std::time::Duration::from_secs(1),
        }
    }

    #[test]
    fn compilers_ahead_finish_in_any_order_and_are_waited_for_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let artifacts = folder.path().join("artifacts");
        let ahead = BackgroundCompiler::new(move |unit| {
            warpsmith_device::compile_unit(&artifacts, unit).map(drop)
        });
        let first = ahead.compile(vec![unit("a"), unit("b")]);
        let second = ahead.compile(vec![unit("c")]);
        assert_eq!((first.clone(), second.clone()), (1..=2, 3..=3));
        assert_eq!(
            ahead.wait_for(&first),
            Some(CompileFailure::Other),
            "there is no such compiler"
        );
        assert_eq!(ahead.wait_for(&second), Some(CompileFailure::Other));
        let list = locked(&ahead.list.0);
        assert!(list.waiting.is_empty() && list.running.is_empty() && list.failed.is_empty());
        drop(list);
        ahead.compile((0..100).map(|idx| unit(&idx.to_string())).collect());
        ahead.forget();
        drop(ahead);
    }

    #[test]
    fn a_compiler_that_panics_or_times_out_is_waited_for_too() {
        let ahead = BackgroundCompiler::new(|unit| match unit.source.as_str() {
            "panic" => panic!("on purpose"),
            "slow" => Err(Fault::TimedOut { limit_s: 7.0 }),
            _ => Ok(()),
        });
        // More panics than there are threads: none may be lost.
        let panics = ahead.compile(vec![unit("panic"); 2 * processors()]);
        let good = ahead.compile(vec![unit("good")]);
        let slow = ahead.compile(vec![unit("good"), unit("slow")]);
        let none = ahead.compile(Vec::new());
        assert_eq!(ahead.wait_for(&panics), Some(CompileFailure::Other));
        assert_eq!(ahead.wait_for(&good), None);
        assert_eq!(ahead.wait_for(&slow), Some(CompileFailure::TimedOut { limit_s: 7.0 }));
        assert_eq!(ahead.wait_for(&none), None);
    }
}

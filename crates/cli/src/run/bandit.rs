//! A bandit that chooses the initial path of a program's connections. What it has learnt is kept for the next run.

use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

use mp_host::initial_path::{Host, Learner};
use mp_kernel::interfaces::{self, Interface};
use mp_policy::bandit::context::Readings;

use super::hook::{by_shim, InitialPathHook};
use super::readings::Sources;
use crate::outcome::{Failure, Outcome};
use crate::state;

/// Connections that end with the program have so long to be seen.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Learns while it lives; dropping it saves what it knows.
#[derive(Debug)]
pub struct Learning {
    thread: Option<JoinHandle<()>>,
    // Dropping it ends the events, and with them the thread.
    hook: Option<InitialPathHook>,
}

/// Where one program runs.
struct Here(Option<Sources>);

impl Host for Here {
    fn readings(&mut self, interface: &str) -> Readings {
        let read = |sources: &mut Sources| sources.read(interface);
        self.0.as_mut().map(read).unwrap_or_default()
    }

    fn complains(&mut self, what: &str) {
        super::say(0, what);
    }
}

/// Puts `command` in the bandit's hands.
pub fn start(command: &mut Command) -> Outcome<Learning> {
    let all = interfaces::all()?;
    let mut arms: Vec<Interface> = all.iter().filter(|i| i.leads_out()).cloned().collect();
    if arms.is_empty() {
        // A network without a way out: any interface may be the one.
        arms.clone_from(&all);
    }
    if arms.is_empty() {
        return Err(Failure::Unable(
            "this host has no interface that is up and has an address".into(),
        ));
    }
    let here = Box::new(Here(Sources::open()));
    let mut learner = Learner::open(arms, &state::folder()?, None, here)?;
    match InitialPathHook::over(command, &all) {
        Ok(mut hook) => {
            let choices = hook.attached.choices().clone();
            let events = hook.take_events();
            learner.offer(&choices)?;
            let thread = std::thread::spawn(move || learner.run(&choices, &events));
            Ok(Learning {
                thread: Some(thread),
                hook: Some(hook),
            })
        }
        Err(why) => {
            // Without word of what comes of connections there is nothing to learn from.
            if let Some(arm) = learner.decide() {
                let why = format!("{why}: nothing is learnt from this run");
                by_shim(command, arm, &why);
            }
            Ok(Learning {
                thread: None,
                hook: None,
            })
        }
    }
}

impl Drop for Learning {
    fn drop(&mut self) {
        if self.thread.is_some() {
            std::thread::sleep(LAST_WORDS);
        }
        let lost = self.hook.as_ref().map_or(0, |c| c.attached.events_lost());
        if lost > 0 {
            let what = format!("{lost} events of connections lost, they came too fast: nothing is learnt of those connections");
            super::say(0, &what);
        }
        drop(self.hook.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

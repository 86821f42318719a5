//! The initial path of a program's connections: the user's own choice, or a bandit's.

use std::process::Command;
use std::sync::mpsc::{channel, Receiver};

use mp_host::initial_path::exempt_near;
use mp_kernel::cgroup::Group;
use mp_kernel::initial_path::{Attachment, Event, Prefix};
use mp_kernel::interfaces::{self, Interface};
use mp_kernel::preload;

use crate::outcome::{Failure, Outcome};

/// Holds while the program runs: the program that chooses, the cgroup it is attached to, and what it reports.
pub struct InitialPathHook {
    // Dropped in this order: the group can go once nothing is attached.
    pub attached: Attachment,
    events: Option<Receiver<Event>>,
    group: Group,
}

impl InitialPathHook {
    /// Puts `command` under it. What an interface reaches without a router stays the routing table's.
    pub fn over(
        command: &mut Command,
        interfaces: &[Interface],
    ) -> Result<InitialPathHook, mp_kernel::Error> {
        let group = Group::new()?;
        let (send, events) = channel();
        let attached = Attachment::attach(group.path(), move |event| {
            // Nobody listens to a choice of the user's.
            let _ = send.send(event);
        })?;
        let near = interfaces.iter().flat_map(|i| i.networks.iter().copied());
        exempt_near(attached.choices(), near)?;
        group.adopt(command)?;
        Ok(InitialPathHook {
            attached,
            events: Some(events),
            group,
        })
    }

    /// They end with this value.
    pub fn take_events(&mut self) -> Receiver<Event> {
        self.events.take().expect("taken once")
    }
}

impl std::fmt::Debug for InitialPathHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.group.path().display())
    }
}

/// `--initial-path INTERFACE`
pub fn user(command: &mut Command, name: &str) -> Outcome<Option<InitialPathHook>> {
    let all = interfaces::all()?;
    let Some(chosen) = all.iter().find(|i| i.name == name) else {
        let known: Vec<&str> = all.iter().map(|i| i.name.as_str()).collect();
        let known = match known.is_empty() {
            true => "this host has none that is".into(),
            false => known.join(", "),
        };
        return Err(Failure::Usage(format!(
            "--initial-path {name}: no such interface that is up and has an address (there are: {known})"
        )));
    };
    let start = InitialPathHook::over(command, &all).and_then(|hook| {
        hook.attached.choices().set(Prefix::ALL, &chosen.choice())?;
        Ok(hook)
    });
    match start {
        Ok(hook) => Ok(Some(hook)),
        Err(why) => {
            by_shim(command, chosen, &why.to_string());
            Ok(None)
        }
    }
}

/// The second best.
pub fn by_shim(command: &mut Command, chosen: &Interface, why: &str) {
    super::say(
        0,
        &format!(
            "{why}; the preload shim starts connections on {} instead, as far as routing rules by source address let it",
            chosen.name
        ),
    );
    let v6 = chosen.choice().v6.is_some();
    let usable = chosen.addresses.iter().filter(|a| a.is_ipv4() || v6);
    preload::start_from(command, &usable.copied().collect::<Vec<_>>());
}

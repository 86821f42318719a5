//! What the registries of path managers, schedulers and choices of the initial path have in common.

use mp_parameter::{Parameter, Refused};

/// Where decisions run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// `compare --world sim`
    Sim,
    /// `compare --world kernel`
    Kernel,
    /// `multipilot run`
    Run,
    /// `multipilot daemon`
    Daemon,
    /// `multipilot run --relay` and `compare --world relay`
    Relay,
}

pub const EVERYWHERE: [World; 5] = [
    World::Sim,
    World::Kernel,
    World::Run,
    World::Daemon,
    World::Relay,
];

impl World {
    pub const fn name(self) -> &'static str {
        match self {
            World::Sim => "sim",
            World::Kernel => "kernel",
            World::Run => "run",
            World::Daemon => "daemon",
            World::Relay => "relay",
        }
    }
}

/// An entry of a registry: a name with its traits.
#[derive(Debug, Clone, Copy)]
pub struct Entry<T: 'static> {
    pub name: &'static str,
    pub summary: &'static str,
    /// Paper, RFC section, or kernel file.
    pub source: &'static str,
    pub worlds: &'static [World],
    pub parameters: &'static [Parameter],
    pub(crate) build: fn() -> T,
}

impl<T> Entry<T> {
    /// A fresh instance for one connection.
    pub fn build(&self) -> T {
        (self.build)()
    }

    pub fn world_names(&self) -> Vec<&'static str> {
        self.worlds.iter().map(|w| w.name()).collect()
    }

    pub fn runs_in(&self, world: World) -> bool {
        self.worlds.contains(&world)
    }

    /// Index of a parameter whose value is within its range.
    pub fn check<'a>(&self, name: &'a str, value: u64) -> Result<usize, Refused<'a>> {
        mp_parameter::check(self.name, self.parameters, name, value)
    }
}

/// The names of those that run in `world`, for error messages.
pub fn names_in<T>(all: &[Entry<T>], world: World) -> String {
    let names: Vec<&str> = (all.iter())
        .filter(|entry| entry.runs_in(world))
        .map(|entry| entry.name)
        .collect();
    names.join(", ")
}

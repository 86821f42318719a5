//! The controllers as both worlds call them, and the checks of names and parameters that every way in shares.

use std::fmt;

use crate::abi::Hooks;
use crate::entries::{Entry, KernelOwn, Parameter, ENTRIES, KERNEL_OWN};
use crate::Controller;

// `static CONTROLLERS`: the hooks of every entry, in its order. build.rs writes it from the entries.
include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// Those of `controllers/`, in the order they are shown in.
pub fn all() -> &'static [Controller] {
    CONTROLLERS
}

pub fn find(name: &str) -> Option<&'static Controller> {
    all().iter().find(|controller| controller.name == name)
}

/// Every name that a scenario or a configuration may choose: the kernel's own controllers, then ours.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    KERNEL_OWN.iter().map(|own| &own.entry).chain(ENTRIES)
}

pub fn entry(name: &str) -> Option<&'static Entry> {
    entries().find(|entry| entry.name == name)
}

/// The kernel's own controller of this name.
pub fn kernel_own(name: &str) -> Option<&'static KernelOwn> {
    KERNEL_OWN.iter().find(|own| own.entry.name == name)
}

/// Why a parameter was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused<'a> {
    controller: &'static str,
    known: &'static [Parameter],
    name: &'a str,
    value: u64,
}

impl Refused<'_> {
    /// The name, and not the value, is wrong.
    pub fn is_unknown(&self) -> bool {
        self.known.iter().all(|known| known.name != self.name)
    }
}

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refused {
            controller,
            known,
            name,
            value,
        } = self;
        if let Some(p) = known.iter().find(|known| known.name == *name) {
            return write!(
                f,
                "{controller}: {name} = {value} is out of range; expected {} to {} ({})",
                p.least, p.most, p.unit
            );
        }
        write!(f, "controller {controller} has no parameter {name}")?;
        let known: Vec<_> = known.iter().map(|known| known.name).collect();
        match known.is_empty() {
            true => write!(f, " (it has none)"),
            false => write!(f, " (it has {})", known.join(", ")),
        }
    }
}

impl Entry {
    /// Index of a parameter in [`crate::Connection::parameters`].
    pub fn parameter(&self, name: &str) -> Option<usize> {
        self.parameters.iter().position(|known| known.name == name)
    }

    /// Index of the parameter that a scheduler writes while a connection runs: LD-MPSP's target, which delay balancing
    /// updates.
    pub fn scheduled_parameter(&self) -> Option<usize> {
        (self.name == "ld-mpsp")
            .then(|| self.parameter("target_us"))
            .flatten()
    }

    /// Index of a parameter whose value is within its range.
    pub fn check<'a>(&self, name: &'a str, value: u64) -> Result<usize, Refused<'a>> {
        self.parameter(name)
            .filter(|&i| (self.parameters[i].least..=self.parameters[i].most).contains(&value))
            .ok_or(Refused {
                controller: self.name,
                known: self.parameters,
                name,
                value,
            })
    }
}

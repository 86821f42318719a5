//! The controllers as both worlds call them, and the checks of names and parameters that every way in shares.

use mp_parameter::Refused;

use crate::abi::Hooks;
use crate::entries::{Entry, KernelOwn, ENTRIES, KERNEL_OWN};
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

impl Entry {
    /// Index of a parameter whose value is within its range.
    pub fn check<'a>(&self, name: &'a str, value: u64) -> Result<usize, Refused<'a>> {
        mp_parameter::check(self.name, self.parameters, name, value)
    }
}

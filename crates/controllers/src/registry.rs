//! Every controller by name. The only list: the command, the scenarios and both builds of the headers read this one.

use crate::abi::Hooks;
use crate::{Controller, Kind};

/// A setting of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    pub name: &'static str,
    pub unit: &'static str,
    pub default: u64,
    pub about: &'static str,
}

/// In the order they are shown in.
pub fn all() -> &'static [Controller] {
    &CONTROLLERS
}

pub fn find(name: &str) -> Option<&'static Controller> {
    all().iter().find(|controller| controller.name == name)
}

macro_rules! hooks {
    ($symbol:ident) => {{
        extern "C" {
            static $symbol: Hooks;
        }
        // SAFETY: a constant of native.c, whose layout is that of `struct mp_controller`.
        unsafe { &$symbol }
    }};
}

static CONTROLLERS: [Controller; 3] = [
    Controller {
        name: "reno",
        summary: "Reno on each subflow, uncoupled: the yardstick",
        source: "RFC 5681",
        kind: Kind::Window,
        parameters: &[],
        hooks: hooks!(mp_controller_reno),
    },
    Controller {
        name: "lia",
        summary: "linked increases: as much as one TCP on the best path",
        source: "RFC 6356",
        kind: Kind::Window,
        parameters: &[],
        hooks: hooks!(mp_controller_lia),
    },
    Controller {
        name: "olia",
        summary: "opportunistic linked increases: Pareto-optimal, responsive",
        source: "Khalili et al., IEEE/ACM ToN 2013",
        kind: Kind::Window,
        parameters: &[],
        hooks: hooks!(mp_controller_olia),
    },
];

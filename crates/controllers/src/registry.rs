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

static CONTROLLERS: [Controller; 9] = [
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
        summary: "opportunistic linked increases: moves windows to the best paths",
        source: "Khalili et al., IEEE/ACM ToN 2013",
        kind: Kind::Window,
        parameters: &[],
        hooks: hooks!(mp_controller_olia),
    },
    Controller {
        name: "balia",
        summary: "balanced linked adaptation: between friendly and responsive",
        source: "Peng et al., IEEE/ACM ToN 2016",
        kind: Kind::Window,
        parameters: &[],
        hooks: hooks!(mp_controller_balia),
    },
    Controller {
        name: "wvegas",
        summary: "weighted Vegas: delay-based, shares a budget of queued packets",
        source: "Cao, Xu and Fu, ICNP 2012",
        kind: Kind::Window,
        parameters: &[
            Parameter {
                name: "initial_alpha",
                unit: "packets",
                default: 2,
                about: "packets that a subflow keeps in queues at first",
            },
            Parameter {
                name: "total_alpha",
                unit: "packets",
                default: 10,
                about: "packets that a connection keeps in queues",
            },
            Parameter {
                name: "gamma",
                unit: "packets",
                default: 1,
                about: "packets in queues that end slow start",
            },
        ],
        hooks: hooks!(mp_controller_wvegas),
    },
    Controller {
        name: "rsf-db",
        summary:
            "rent seeking, delay-based: Reno on each subflow until queues near the delay budget",
        source: "rent-seeking framework, equation 1",
        kind: Kind::Window,
        parameters: &[Parameter {
            name: "target_us",
            unit: "us",
            default: 100000,
            about: "delay budget",
        }],
        hooks: hooks!(mp_controller_rsf_db),
    },
    Controller {
        name: "rsf-lb",
        summary: "rent seeking, loss-based: Reno on each subflow until losses near the loss budget",
        source: "rent-seeking framework, equation 2",
        kind: Kind::Window,
        parameters: &[
            Parameter {
                name: "loss_budget",
                unit: "packets/s",
                default: 4,
                about: "lost packets that a subflow may cause",
            },
            Parameter {
                name: "memory",
                unit: "round trips",
                default: 16,
                about: "over which losses are averaged",
            },
        ],
        hooks: hooks!(mp_controller_rsf_lb),
    },
    Controller {
        name: "ld-mpsp",
        summary: "low delay: holds the queueing delay of all subflows under one target",
        source: "LD-MPSP, algorithm 3 of its paper",
        kind: Kind::Window,
        parameters: &[Parameter {
            name: "target_us",
            unit: "us",
            default: 20000,
            about: "target for the queueing delay",
        }],
        hooks: hooks!(mp_controller_ld_mpsp),
    },
    Controller {
        name: "dalia",
        summary: "DALIA (reconstruction): LIA scaled by the shortest round trip over this one",
        source: "reconstruction, see controllers/dalia.h",
        kind: Kind::Window,
        parameters: &[],
        hooks: hooks!(mp_controller_dalia),
    },
];

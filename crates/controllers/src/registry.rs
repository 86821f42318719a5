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

/// `controllers/mpcc.h` serves several names, which differ in their defaults.
const fn mpcc_parameters(
    alpha: u64,
    beta: u64,
    gamma: u64,
    utility_unit: u64,
    coupled: u64,
) -> [Parameter; 8] {
    const fn parameter(
        name: &'static str,
        unit: &'static str,
        default: u64,
        about: &'static str,
    ) -> Parameter {
        Parameter {
            name,
            unit,
            default,
            about,
        }
    }
    [
        parameter(
            "alpha",
            "thousandths",
            alpha,
            "exponent of the rate in the utility",
        ),
        parameter("beta", "thousandths", beta, "weight of loss"),
        parameter(
            "gamma",
            "thousandths",
            gamma,
            "weight of the round trip's slope",
        ),
        parameter(
            "utility_unit",
            "bit/s",
            utility_unit,
            "unit of rates in the utility",
        ),
        parameter("step", "bytes/s", 125_000, "step at a slope of 1"),
        parameter("first_rate", "bytes/s", 500_000, "rate at the start"),
        parameter("floor", "bytes/s", 25_000, "least rate"),
        parameter(
            "coupled",
            "0 or 1",
            coupled,
            "whether the siblings' rates count",
        ),
    ]
}

static CONTROLLERS: [Controller; 14] = [
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
    Controller {
        name: "mpcc",
        summary: "online learning of rates, by a utility of rate, loss and delay",
        source: "Gilad et al., CoNEXT 2020",
        kind: Kind::Rate,
        parameters: &mpcc_parameters(900, 11_350, 900_000, 1_000_000, 1),
        hooks: hooks!(mp_controller_mpcc),
    },
    Controller {
        name: "mpcc-loss",
        summary: "MPCC without its cost of delay",
        source: "Gilad et al., CoNEXT 2020",
        kind: Kind::Rate,
        parameters: &mpcc_parameters(900, 11_350, 0, 1_000_000, 1),
        hooks: hooks!(mp_controller_mpcc_loss),
    },
    Controller {
        name: "mpcc-code",
        summary: "MPCC with the constants of its authors' kernel module",
        source: "Gilad et al., CoNEXT 2020, kernel module",
        kind: Kind::Rate,
        parameters: &mpcc_parameters(900, 11_000, 1_000, 8, 1),
        hooks: hooks!(mp_controller_mpcc_code),
    },
    Controller {
        name: "pcc",
        summary: "MPCC without siblings: the single-path rival",
        source: "Dong et al., PCC Vivace, NSDI 2018",
        kind: Kind::Rate,
        parameters: &mpcc_parameters(900, 11_350, 900_000, 1_000_000, 0),
        hooks: hooks!(mp_controller_pcc),
    },
    Controller {
        name: "ddpg-mpcc",
        summary: "MPCC whose steps a network takes; plain MPCC while it does not answer",
        source: "Pokhrel et al., Future Internet 16(2), 37, 2024",
        kind: Kind::Rate,
        parameters: &mpcc_parameters(900, 11_350, 900_000, 1_000_000, 1),
        hooks: hooks!(mp_controller_ddpg_mpcc),
    },
];

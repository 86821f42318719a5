//! Every congestion controller by name, with its traits. This is the only list: the build scripts of this crate and of
//! `mp-kernel` compile the headers that it names; `multipilot list`, shell completions, the checks of scenarios and of the
//! daemon's configuration, and the tests of the docs read it.
//!
//! Data only, because the build scripts include this file too.

use mp_parameter::{Parameter, Unit};

/// What a controller steers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The congestion window; the header has `NAME_on_ack`.
    Window,
    /// The pacing rate; the header has `NAME_on_interval`.
    Rate,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Window => "window",
            Kind::Rate => "rate",
        }
    }
}

/// A controller by its name.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub name: &'static str,
    pub summary: &'static str,
    /// Paper, RFC or kernel file that the rule is from.
    pub source: &'static str,
    pub kind: Kind,
    /// The window or rate of a subflow depends on those of its siblings.
    pub coupled: bool,
    /// Index of the parameter that a scheduler writes while a connection runs: the target for the queueing delay, which
    /// delay balancing updates. The header has it as `MP_TARGET`.
    pub scheduled_parameter: Option<usize>,
    /// At most [`crate::PARAMETERS`]. The place of one is its index in `struct mp_connection`.
    pub parameters: &'static [Parameter],
}

impl Entry {
    /// Stem of the header in `controllers/`, and prefix of its functions.
    pub fn header(&self) -> String {
        self.name.replace('-', "_")
    }
}

/// Congestion control that Linux has by itself; the simulator has models of it.
#[derive(Debug)]
pub struct KernelOwn {
    pub entry: Entry,
    pub kernel_name: &'static str,
}

pub const KERNEL_OWN: &[KernelOwn] = &[
    KernelOwn {
        entry: Entry {
            name: "linux-reno",
            summary: "the kernel's own Reno on each subflow (in the simulator: reno)",
            source: "Linux net/ipv4/tcp_cong.c",
            kind: Kind::Window,
            coupled: false,
            scheduled_parameter: None,
            parameters: &[],
        },
        kernel_name: "reno",
    },
    KernelOwn {
        entry: Entry {
            name: "cubic",
            summary: "CUBIC on each subflow, uncoupled",
            source: "RFC 9438, Linux net/ipv4/tcp_cubic.c",
            kind: Kind::Window,
            coupled: false,
            scheduled_parameter: None,
            parameters: &[],
        },
        kernel_name: "cubic",
    },
    KernelOwn {
        entry: Entry {
            name: "bbr",
            summary: "BBR version 1 on each subflow, uncoupled",
            source: "Cardwell et al., ACM Queue 2016, Linux net/ipv4/tcp_bbr.c",
            kind: Kind::Rate,
            coupled: false,
            scheduled_parameter: None,
            parameters: &[],
        },
        kernel_name: "bbr",
    },
];

/// 10 Gbit/s in bytes/s.
const FASTEST: u64 = 1_250_000_000;

/// A budget for queueing delay.
const fn delay_budget(default: u64, about: &'static str) -> Parameter {
    Parameter {
        name: "target_us",
        unit: Unit::Microseconds,
        default,
        least: 100,
        most: 60_000_000,
        about,
    }
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
        unit: Unit,
        default: u64,
        (least, most): (u64, u64),
        about: &'static str,
    ) -> Parameter {
        Parameter {
            name,
            unit,
            default,
            least,
            most,
            about,
        }
    }
    [
        parameter(
            "alpha",
            Unit::Thousandths,
            alpha,
            (1, 1_000),
            "exponent of the rate in the utility",
        ),
        parameter(
            "beta",
            Unit::Thousandths,
            beta,
            (0, 1_000_000),
            "weight of loss",
        ),
        parameter(
            "gamma",
            Unit::Thousandths,
            gamma,
            (0, 10_000_000),
            "weight of the slope of the round-trip time",
        ),
        parameter(
            "utility_unit",
            Unit::BitsPerSecond,
            utility_unit,
            (1, 1_000_000_000),
            "unit of rates in the utility",
        ),
        parameter(
            "step",
            Unit::BytesPerSecond,
            125_000,
            (1, FASTEST),
            "step at a slope of 1",
        ),
        parameter(
            "first_rate",
            Unit::BytesPerSecond,
            500_000,
            (1_500, FASTEST),
            "rate at the start",
        ),
        parameter(
            "floor",
            Unit::BytesPerSecond,
            25_000,
            (1_500, FASTEST),
            "lowest rate",
        ),
        parameter(
            "coupled",
            Unit::Switch,
            coupled,
            (0, 1),
            "whether the rates of the siblings count",
        ),
    ]
}

/// Those of `controllers/`, in the order they are shown in.
pub const ENTRIES: &[Entry] = &[
    Entry {
        name: "pilot",
        summary: "as loss-proof as BBR while alone in a bottleneck, one TCP while not",
        source: "this project",
        kind: Kind::Rate,
        coupled: true,
        scheduled_parameter: None,
        parameters: &[Parameter {
            name: "without",
            unit: Unit::Bits,
            default: 0,
            least: 0,
            most: 63,
            about: "mechanisms that are left out, for ablation",
        }],
    },
    Entry {
        name: "reno",
        summary: "Reno on each subflow, uncoupled: the baseline",
        source: "RFC 5681",
        kind: Kind::Window,
        coupled: false,
        scheduled_parameter: None,
        parameters: &[],
    },
    Entry {
        name: "lia",
        summary: "linked increases: as much as one TCP on the best path",
        source: "RFC 6356",
        kind: Kind::Window,
        coupled: true,
        scheduled_parameter: None,
        parameters: &[],
    },
    Entry {
        name: "olia",
        summary: "opportunistic linked increases: moves windows to the best paths",
        source: "Khalili et al., IEEE/ACM ToN 2013",
        kind: Kind::Window,
        coupled: true,
        scheduled_parameter: None,
        parameters: &[],
    },
    Entry {
        name: "balia",
        summary: "balanced linked adaptation: between friendly and responsive",
        source: "Peng et al., IEEE/ACM ToN 2016",
        kind: Kind::Window,
        coupled: true,
        scheduled_parameter: None,
        parameters: &[],
    },
    Entry {
        name: "wvegas",
        summary: "weighted Vegas: delay-based, shares a budget of queued packets",
        source: "Cao, Xu and Fu, ICNP 2012",
        kind: Kind::Window,
        coupled: true,
        scheduled_parameter: None,
        parameters: &[
            Parameter {
                name: "initial_alpha",
                unit: Unit::Packets,
                default: 2,
                least: 1,
                most: 1_000,
                about: "packets that a subflow keeps in queues at first",
            },
            Parameter {
                name: "total_alpha",
                unit: Unit::Packets,
                default: 10,
                least: 1,
                most: 1_000,
                about: "packets that a connection keeps in queues",
            },
            Parameter {
                name: "gamma",
                unit: Unit::Packets,
                default: 1,
                least: 0,
                most: 1_000,
                about: "packets in queues that end slow start",
            },
        ],
    },
    Entry {
        name: "rsf-db",
        summary:
            "rent seeking, delay-based: Reno on each subflow until queues near the delay budget",
        source: "rent-seeking framework, equation 1",
        kind: Kind::Window,
        coupled: false,
        scheduled_parameter: None,
        parameters: &[delay_budget(100_000, "delay budget")],
    },
    Entry {
        name: "rsf-lb",
        summary: "rent seeking, loss-based: Reno on each subflow until losses near the loss budget",
        source: "rent-seeking framework, equation 2",
        kind: Kind::Window,
        coupled: false,
        scheduled_parameter: None,
        parameters: &[
            Parameter {
                name: "loss_budget",
                unit: Unit::PacketsPerSecond,
                default: 4,
                least: 1,
                most: 100_000,
                about: "lost packets that a subflow may cause",
            },
            Parameter {
                name: "memory",
                unit: Unit::RoundTrips,
                default: 16,
                least: 1,
                most: 1_000,
                about: "over which losses are averaged",
            },
        ],
    },
    Entry {
        name: "ld-mpsp",
        summary: "low delay: holds the queueing delay of all subflows under one target",
        source: "LD-MPSP, algorithm 3 of its paper",
        kind: Kind::Window,
        coupled: false,
        scheduled_parameter: Some(0),
        parameters: &[delay_budget(20_000, "target for the queueing delay")],
    },
    Entry {
        name: "dalia",
        summary: "DALIA (reconstruction): LIA scaled by the shortest round trip over this one",
        source: "reconstruction, see controllers/dalia.h",
        kind: Kind::Window,
        coupled: true,
        scheduled_parameter: None,
        parameters: &[],
    },
    Entry {
        name: "mpcc",
        summary: "online learning of rates, by a utility of rate, loss and delay",
        source: "Gilad et al., CoNEXT 2020",
        kind: Kind::Rate,
        coupled: true,
        scheduled_parameter: None,
        parameters: &mpcc_parameters(900, 11_350, 900_000, 1_000_000, 1),
    },
    Entry {
        name: "mpcc-loss",
        summary: "MPCC without its cost of delay",
        source: "Gilad et al., CoNEXT 2020",
        kind: Kind::Rate,
        coupled: true,
        scheduled_parameter: None,
        parameters: &mpcc_parameters(900, 11_350, 0, 1_000_000, 1),
    },
    Entry {
        name: "mpcc-code",
        summary: "MPCC with the constants of its authors' kernel module",
        source: "Gilad et al., CoNEXT 2020, kernel module",
        kind: Kind::Rate,
        coupled: true,
        scheduled_parameter: None,
        parameters: &mpcc_parameters(900, 11_000, 1_000, 8, 1),
    },
    Entry {
        name: "pcc",
        summary: "MPCC without siblings: the single-path baseline",
        source: "Dong et al., PCC Vivace, NSDI 2018",
        kind: Kind::Rate,
        coupled: false,
        scheduled_parameter: None,
        parameters: &mpcc_parameters(900, 11_350, 900_000, 1_000_000, 0),
    },
    Entry {
        name: "ddpg-mpcc",
        summary: "MPCC whose steps a network takes; plain MPCC while it does not answer",
        source: "Pokhrel et al., Future Internet 16(2), 37, 2024",
        kind: Kind::Rate,
        coupled: true,
        scheduled_parameter: None,
        parameters: &mpcc_parameters(900, 11_350, 900_000, 1_000_000, 1),
    },
];

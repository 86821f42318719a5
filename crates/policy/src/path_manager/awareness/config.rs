//! Configuration of path awareness. What no user needs to set is a constant beside the rule that it belongs to.

pub use crate::path_manager::Backoff;

/// Packets over which loss is measured, where no user says another number.
pub(super) const PACKETS: u64 = 4_000;

/// A threshold with hysteresis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold<T> {
    /// Beyond it a path is set to backup.
    pub backup: T,
    /// From here on it is restored.
    pub restore: T,
}

/// Rules that weigh what a path costs the connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Harm {
    /// Packets over which loss is measured (the paper's N).
    pub packets: u64,
    /// Lower 95 % bound of the loss events per packet above which a path counts as lossy (the paper's γ).
    pub loss: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Between two polls, µs.
    pub interval_us: u64,
    pub harm: Option<Harm>,
    /// Received signal strength, dBm.
    pub signal: Option<Threshold<i32>>,
    /// A path keeps its state for at least this long, µs; a stall or a weak signal sets it to backup at once.
    pub dwell_us: u64,
    /// Backup times, but for a small share, whose times are a constant; and for how long a path that was missed is not judged.
    pub backup_time: Backoff,
    /// When a subflow that was refused or reset is opened again.
    pub reopening: Backoff,
}

impl Config {
    /// Dead paths and the user's rules alone.
    pub fn rules() -> Config {
        Config {
            interval_us: 50_000,
            harm: None,
            signal: None,
            dwell_us: 1_000_000,
            backup_time: Backoff {
                first_us: 10_000_000,
                most_us: 160_000_000,
            },
            reopening: Backoff {
                first_us: 1_000_000,
                most_us: 60_000_000,
            },
        }
    }

    /// The values were chosen by the benefit over grids of rates, losses and queues in the simulator
    /// (docs/notes/2026-11-23-path-awareness.md).
    pub fn loss_aware() -> Config {
        Config {
            harm: Some(Harm {
                packets: PACKETS,
                loss: 0.0003,
            }),
            ..Config::rules()
        }
    }

    /// Below −75 dBm Wi-Fi falls back to its lowest rates.
    pub fn signal_aware() -> Config {
        Config {
            signal: Some(Threshold {
                backup: -75,
                restore: -70,
            }),
            ..Config::rules()
        }
    }
}

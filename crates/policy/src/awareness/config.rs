//! What may put a path into backup, and when it comes back.

/// A threshold with hysteresis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold<T> {
    pub park: T,
    pub back: T,
}

/// MPTCP-LA.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loss {
    /// Packets over which loss is judged (the paper's N).
    pub window: u64,
    /// Loss events below which nothing is concluded: slow start ends in two or three.
    pub events: u64,
    /// Lower 95 % bound of the loss events per packet above which a path is suspected (the paper's γ), for paths of a
    /// minimum RTT below [`Loss::long_rtt_us`]; `back` holds for a path that has been parked of late.
    pub short: Threshold<f64>,
    /// The same for the other paths.
    pub long: Threshold<f64>,
    /// µs
    pub long_rtt_us: u32,
    /// Bound from which loss alone is enough where the controller couples the windows.
    pub coupled: f64,
    /// Bound from which a path that has come back is parked again without a rest, and from which one is not waited for that
    /// carries little …
    pub heavy: f64,
    /// … which is less than this share of what another one would carry.
    pub little: f64,
    /// A loss while the RTT is above this many times its minimum is put down to a full queue, not to the path.
    pub queue: f64,
}

/// A slow path that holds up the whole stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contribution {
    /// Share of time in which the receive window alone kept the sender waiting, from which the stream counts as held up.
    pub held: f64,
    /// The stream has to fall behind by so much because it is held up before a path is suspected, s …
    pub held_up_s: f64,
    /// … and by so much before one is left out on trial that could add more than `little`.
    pub trial_s: f64,
    /// A path that could carry less than this share of what the others would is not worth a trial.
    pub little: f64,
    /// Only a path of at least this many times the lowest RTT can be the culprit.
    pub rtt_ratio: f64,
    /// A path that carries less than this share of the stream is left out at once where the stream has fallen so far behind, s:
    /// without it there is little to lose. Not while its subflow is younger, µs.
    pub least_share: f64,
    pub least_behind_s: f64,
    pub grown_us: u64,
    /// How long such a path is parked.
    pub parking: Backoff,
}

/// Probes of a path that is parked for its loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probing {
    /// At each look.
    pub count: u32,
    /// The path is taken back once a path that loses what it lost would have answered so many in a row with no more than
    /// this probability.
    pub chance: f64,
    /// What loses less is taken for a path that loses this share: it would take minutes to tell it from a clean one.
    pub light: f64,
    /// Nobody waits for it where the stream carries less, bytes/s.
    pub goodput: f64,
}

/// Times that grow with each repetition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    pub first_us: u64,
    pub factor: u64,
    pub most_us: u64,
}

impl Backoff {
    /// The `n`-th time, from 0.
    pub fn time(&self, n: u32) -> u64 {
        let grown = self
            .factor
            .checked_pow(n)
            .and_then(|f| self.first_us.checked_mul(f));
        grown.map_or(self.most_us, |t| t.min(self.most_us))
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Between two judgements, µs.
    pub interval_us: u64,
    pub loss: Option<Loss>,
    /// MPTCP-MA: received signal strength, dBm.
    pub signal: Option<Threshold<i32>>,
    /// Smoothed RTT, µs.
    pub rtt: Option<Threshold<u32>>,
    pub contribution: Option<Contribution>,
    pub probing: Option<Probing>,
    /// A path that delivers this share of the stream, or more, is not left out on trial.
    pub keep_share: f64,
    /// Goodput below this share of what the best path alone would carry makes the stream fall behind.
    pub slower: f64,
    /// The stream has to fall behind what the best path alone would have delivered by so much before a lossy path is
    /// parked, s.
    pub behind_s: f64,
    /// So much of what it was ahead counts for it first, s: one that long did better than its best path may have a hitch.
    pub ahead_s: f64,
    /// A parked path comes back where the stream falls behind what it carried with it, or what that path alone would
    /// carry, by so much, s …
    pub missed_s: f64,
    /// … not counting the first of the time after it was parked, in which the others are to find their rate, µs.
    pub missed_after_us: u64,
    /// A path that is left out on trial comes back unless the stream carries so many times as much without it for so long, s.
    pub proof_gain: f64,
    pub proof_s: f64,
    /// What the stream carried with a path is its mean over so much, s.
    pub together_s: f64,
    /// A path stays as it is for at least this long after a change, µs.
    pub dwell_us: u64,
    /// A subflow that sends and has nothing delivered for this many RTTs, and at least `stall_us`, is stalled.
    pub stall_rtts: u64,
    pub stall_us: u64,
    /// How long a path is parked before it is tried again.
    pub parking: Backoff,
    /// How long one that is parked for its loss rests, whatever its probes say.
    pub resting: Backoff,
    /// Time after which a path that behaves begins at the first parking time again, µs.
    pub forget_us: u64,
    /// When a subflow that was refused or reset is opened again.
    pub reopening: Backoff,
    /// A stalled subflow is given up after this long: its own retransmissions come ever more rarely, up to two minutes
    /// apart, and would find out late that the path is back. µs
    pub give_up_us: u64,
    /// A subflow is replaced if the receive window alone keeps the sender waiting for this share of the time after its path
    /// has been parked for so long, µs: what waits on it holds up the stream.
    pub relief_us: u64,
    pub relief_held: f64,
    /// Or if less than this share of what arrives on the paths reaches the application.
    pub relief_flow: f64,
    /// Instead a new one is tried on its path once in this time, µs: a SYN each, about 40 bytes/s.
    pub retry_us: u64,
}

impl Config {
    fn base() -> Config {
        Config {
            interval_us: 50_000,
            loss: None,
            signal: None,
            rtt: None,
            contribution: None,
            probing: None,
            keep_share: 0.4,
            slower: 0.95,
            behind_s: 0.8,
            ahead_s: 1.0,
            missed_s: 0.8,
            missed_after_us: 500_000,
            proof_gain: 1.1,
            proof_s: 2.0,
            together_s: 10.0,
            dwell_us: 1_000_000,
            stall_rtts: 4,
            stall_us: 500_000,
            parking: Backoff {
                first_us: 10_000_000,
                factor: 2,
                most_us: 160_000_000,
            },
            resting: Backoff {
                first_us: 1_000_000,
                factor: 2,
                most_us: 160_000_000,
            },
            forget_us: 60_000_000,
            reopening: Backoff {
                first_us: 1_000_000,
                factor: 2,
                most_us: 60_000_000,
            },
            give_up_us: 2_000_000,
            relief_us: 200_000,
            relief_held: 0.6,
            relief_flow: 0.3,
            retry_us: 1_500_000,
        }
    }

    /// MPTCP-LA with the contribution rule. The values were chosen by the aggregation benefit over grids of rates, losses
    /// and buffers in the simulator (docs/path-awareness.md); one threshold served both classes of RTT.
    pub fn loss_aware() -> Config {
        Config {
            loss: Some(Loss {
                window: 4_000,
                events: 5,
                short: Threshold {
                    park: 0.0003,
                    back: 0.00015,
                },
                long: Threshold {
                    park: 0.0003,
                    back: 0.00015,
                },
                long_rtt_us: 40_000,
                coupled: 0.003,
                heavy: 0.01,
                little: 0.15,
                queue: 1.5,
            }),
            contribution: Some(Contribution {
                held: 0.1,
                held_up_s: 0.5,
                trial_s: 0.8,
                little: 0.15,
                rtt_ratio: 2.0,
                least_share: 0.15,
                least_behind_s: 0.2,
                grown_us: 2_000_000,
                parking: Backoff {
                    first_us: 60_000_000,
                    factor: 2,
                    most_us: 240_000_000,
                },
            }),
            probing: Some(Probing {
                count: 2,
                chance: 0.001,
                light: 0.02,
                goodput: 10_000.0,
            }),
            ..Config::base()
        }
    }

    /// MPTCP-MA: the signal alone. Below −75 dBm Wi-Fi falls back to its lowest rates.
    pub fn signal_aware() -> Config {
        Config {
            signal: Some(Threshold {
                park: -75,
                back: -70,
            }),
            ..Config::base()
        }
    }
}

//! Which RF chain of an access point sends which beam to which device (paper *drones*, section 3.1 and algorithm 1).
//!
//! θ of a chain r with beam b on device i is log2(1 + SNR), with SNR = P(r, b, i) / (Σ C(i) + ς²): C are the powers that
//! chains on *other* devices leave at device i. Chains on the same device carry streams of their own and do not count
//! against each other, which is why two chains on one device can beat one each on two.

mod bush;
mod exhaustive;
mod greedy;
mod hekaton;
mod mu_mimo;

pub use bush::bush;
pub use exhaustive::exhaustive;
pub use greedy::greedy;
pub use hekaton::hekaton;
pub use mu_mimo::mu_mimo;

/// A chain's duty: a beam on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Duty {
    pub beam: usize,
    pub device: usize,
}

/// What each chain does; idle chains are `None`. One beam a chain by construction.
pub type Assignment = Vec<Option<Duty>>;

/// Powers of chains and beams at devices.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    pub chains: usize,
    pub beams: usize,
    pub devices: usize,
    /// mW at device `i` from chain `r` on beam `b`, at `(r·beams + b)·devices + i`; one chain's where all are alike.
    pub power: Vec<f64>,
    /// ς², mW.
    pub noise: f64,
    /// Most chains on one device: the streams that it can tell apart.
    pub streams: usize,
}

impl Problem {
    pub fn power(&self, chain: usize, beam: usize, device: usize) -> f64 {
        let chain = if self.alike() { 0 } else { chain };
        self.power[(chain * self.beams + beam) * self.devices + device]
    }

    /// Chains that feed one and the same array differ in nothing.
    pub fn alike(&self) -> bool {
        self.power.len() == self.beams * self.devices
    }

    /// SNR of each chain; 0 for an idle one.
    pub fn snr(&self, assignment: &[Option<Duty>]) -> Vec<f64> {
        let one = |(chain, duty): (usize, &Option<Duty>)| {
            let Some(Duty { beam, device }) = *duty else {
                return 0.0;
            };
            let others = assignment
                .iter()
                .enumerate()
                .filter_map(|(j, d)| d.filter(|d| d.device != device).map(|d| (j, d)));
            let interference: f64 = others.map(|(j, d)| self.power(j, d.beam, device)).sum();
            self.power(chain, beam, device) / (interference + self.noise)
        };
        assignment.iter().enumerate().map(one).collect()
    }

    /// Σ θ, bit/s/Hz.
    pub fn throughput(&self, assignment: &[Option<Duty>]) -> f64 {
        self.snr(assignment).iter().map(|s| s.ln_1p()).sum::<f64>() / std::f64::consts::LN_2
    }

    /// Whether no device has more chains than it has streams.
    pub fn allows(&self, assignment: &[Option<Duty>]) -> bool {
        (0..self.devices).all(|i| {
            assignment
                .iter()
                .flatten()
                .filter(|d| d.device == i)
                .count()
                <= self.streams
        })
    }

    /// The beam with most power at a device, by instant knowledge.
    pub fn best_beam(&self, chain: usize, device: usize) -> usize {
        (0..self.beams)
            .max_by(|a, b| {
                self.power(chain, *a, device)
                    .total_cmp(&self.power(chain, *b, device))
            })
            .unwrap_or(0)
    }
}

/// Who allocates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Algorithm 1.
    Greedy,
    /// All there is, tried: for small cases.
    Exhaustive,
    /// Best codeword for each user, then zero-forcing; one-to-one.
    Hekaton,
    /// By a blind power–azimuth spectrum.
    Bush,
    /// Best sector for each user, nothing more: 802.11ad.
    MuMimo,
}

pub const SCHEMES: [(&str, Scheme, &str); 5] = [
    (
        "greedy",
        Scheme::Greedy,
        "largest gain in total throughput first (paper drones, algorithm 1)",
    ),
    (
        "exhaustive",
        Scheme::Exhaustive,
        "the optimum, for small cases",
    ),
    (
        "hekaton",
        Scheme::Hekaton,
        "best codeword, then zero-forcing (abstraction of HEKATON)",
    ),
    (
        "bush",
        Scheme::Bush,
        "by azimuth spectrum, without instant channel knowledge (abstraction of BUSH)",
    ),
    (
        "mu-mimo",
        Scheme::MuMimo,
        "best sector for each user (802.11ad MU-MIMO)",
    ),
];

/// An allocation with the SNR that each chain ends with: zero-forcing changes it beyond what [`Problem::snr`] says.
#[derive(Debug, Clone, PartialEq)]
pub struct Served {
    pub assignment: Assignment,
    pub snr: Vec<f64>,
}

impl Scheme {
    pub fn name(self) -> &'static str {
        SCHEMES
            .iter()
            .find(|(_, s, _)| *s == self)
            .map_or("", |(name, ..)| name)
    }

    /// `average` is what a scheme without instant knowledge knows: powers in means over time, as in `problem`.
    pub fn allocate(self, problem: &Problem, average: &[f64], azimuth_of: &[usize]) -> Served {
        let plain = |assignment: Assignment| Served {
            snr: problem.snr(&assignment),
            assignment,
        };
        match self {
            Scheme::Greedy => plain(greedy(problem)),
            Scheme::Exhaustive => plain(exhaustive(problem)),
            Scheme::Hekaton => hekaton(problem),
            Scheme::Bush => plain(bush(problem, average, azimuth_of)),
            Scheme::MuMimo => plain(mu_mimo(problem)),
        }
    }
}

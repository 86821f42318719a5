//! What a link has at one time.

/// A link at one time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sample {
    /// Number of the access point; `None` out of all reach.
    pub ap: Option<usize>,
    /// In a handoff: associated, but nothing gets through yet.
    pub handoff: bool,
    /// What the data arrives with, the chains' interference counted; of the best chain.
    pub snr_db: f64,
    /// Index of its modulation and coding; 0 without a rate.
    pub mcs: u8,
    pub beam: usize,
    /// Chains that serve it.
    pub chains: usize,
    /// Mbit/s of IP packets.
    pub rate_mbps: f64,
    /// Seconds, one way.
    pub delay: f64,
    pub loss: f64,
}

impl Sample {
    /// The access point that can send to the link at that time.
    pub fn served_by(&self) -> Option<usize> {
        self.ap.filter(|_| !self.handoff)
    }
}

const MILLION: u64 = 1_000_000;

/// Packets of a path, and those of them that were lost.
#[derive(Debug, Clone, Copy, Default)]
pub struct Count {
    pub sent: u64,
    pub lost: u64,
}

impl Count {
    pub fn add(&mut self, sent: u64, lost: u64) {
        self.sent += sent;
        self.lost += lost;
    }

    /// The counters of a window that is full; the next one begins.
    pub fn take_full(&mut self, window: u64) -> Option<Count> {
        (self.sent >= window).then(|| std::mem::take(self))
    }

    /// Without rounding: a ratio of γ itself exceeds it.
    pub fn exceeds(&self, gamma_ppm: u64) -> bool {
        self.lost * MILLION >= gamma_ppm * self.sent
    }

    /// Packets lost per million, to compare two windows.
    pub fn ppm(&self) -> u64 {
        self.lost * MILLION / self.sent.max(1)
    }
}

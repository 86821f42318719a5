/// Times that double with each repetition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    pub first_us: u64,
    pub most_us: u64,
}

impl Backoff {
    /// The `n`-th time, from 0.
    pub fn time(&self, n: u32) -> u64 {
        let grown = 1u64
            .checked_shl(n)
            .and_then(|f| self.first_us.checked_mul(f));
        grown.map_or(self.most_us, |t| t.min(self.most_us))
    }
}

//! Which end of the data a host is, by what moved of late.

use crate::view::Role;

/// What moved longer ago than this counts ever less, µs.
const SMOOTHING_US: f64 = 2e6;

/// Bytes sent less bytes received, fading.
#[derive(Debug, Clone, Copy, Default)]
pub struct Direction(f64);

impl Direction {
    /// Takes in payload that moved in the last `elapsed_us`, bytes.
    pub fn poll(&mut self, elapsed_us: u64, sent: u64, received: u64) {
        let elapsed = elapsed_us.max(1) as f64;
        self.0 *= SMOOTHING_US / (SMOOTHING_US + elapsed);
        self.0 += sent as f64 - received as f64;
    }

    /// A receiver before anything has moved.
    pub fn role(&self) -> Role {
        match self.0 > 0.0 {
            true => Role::Sender,
            false => Role::Receiver,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_make_no_sender_and_an_upload_does_so_after_a_download() {
        let mut direction = Direction::default();
        assert_eq!(direction.role(), Role::Receiver);
        let mut polls = |count, sent, received| {
            (0..count).for_each(|_| direction.poll(50_000, sent, received));
            direction.role()
        };
        assert_eq!(polls(200, 400, 60_000), Role::Receiver);
        assert_eq!(polls(10, 60_000, 400), Role::Receiver, "half a second");
        assert_eq!(polls(100, 60_000, 400), Role::Sender);
        assert_eq!(polls(2_000, 0, 0), Role::Sender, "nothing says otherwise");
    }
}

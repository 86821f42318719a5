//! The share of frames that a wireless link loses, by its driver's counters.

/// Frames below which a share of lost ones is chance.
const FRAMES: u64 = 50;

/// One link.
#[derive(Debug, Clone, Copy, Default)]
pub struct FrameLoss {
    /// As of when the share was last taken.
    sent: u64,
    failed: u64,
    share: Option<f64>,
}

impl FrameLoss {
    /// Takes in the frames sent and given up so far; returns the share of those given up, of the last 50 or more.
    pub fn poll(&mut self, sent: u64, failed: u64) -> Option<f64> {
        let (frames, bad) = (
            sent.wrapping_sub(self.sent),
            failed.wrapping_sub(self.failed),
        );
        let share = if self.sent > sent || self.failed > failed {
            // Another access point, whose counters begin anew.
            None
        } else if frames.saturating_add(bad) >= FRAMES {
            Some(bad as f64 / (frames + bad) as f64)
        } else {
            return self.share;
        };
        *self = FrameLoss {
            sent,
            failed,
            share,
        };
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_lost_frames_is_that_of_the_last_fifty_or_more() {
        let mut frames = FrameLoss::default();
        assert_eq!(frames.poll(10, 0), None, "too few");
        assert_eq!(frames.poll(90, 10), Some(0.1));
        assert_eq!(frames.poll(100, 10), Some(0.1), "too few to tell");
        assert_eq!(frames.poll(5, 0), None, "another access point");
        assert_eq!(frames.poll(105, 0), Some(0.0));
    }
}

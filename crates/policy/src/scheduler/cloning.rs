//! Packet cloning: the subflow of lowest RTT, and with probability c_p a copy on another one, drawn at random
//! ([`crate::cloning`]). Every packet of a short connection is cloned: it has no time to recover from a loss.
//!
//! The receiver drops what comes twice, as it does with any reinjection. A stock kernel's scheduler has no place for this.

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::min_rtt::{lowest_rtt_ready, segment};
use super::{candidates, Choice, ConnectionView, Schedule, SubflowView};
use crate::cloning::{probability, MOST};
use crate::MAX_SUBFLOWS;

/// A connection that never had more than this to send is short, bytes.
const SHORT: u64 = 64 << 10;
/// Packets after which a subflow's loss is judged anew.
const JUDGED: u64 = 100;

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    sent: u64,
    lost: u64,
    /// Share of packets lost of late.
    loss: f64,
}

impl Slot {
    fn look(&mut self, view: &SubflowView) {
        let sent = view.sent.saturating_sub(self.sent);
        if sent >= JUDGED {
            let share = view.lost.saturating_sub(self.lost) as f64 / sent as f64;
            // Half of it is new: a burst of losses is no new state of the link.
            self.loss = 0.5 * (self.loss + share.min(1.0));
            (self.sent, self.lost) = (view.sent, view.lost);
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Cloning {
    slots: [Slot; MAX_SUBFLOWS],
    /// Most bytes that waited or were under way at once.
    most: u64,
    /// Seeded by the time of the first pick, so that connections differ and runs do not.
    draw: Option<Xoshiro256PlusPlus>,
}

impl Cloning {
    /// c_p now.
    fn share(&self, subflows: &[SubflowView]) -> f64 {
        if self.most <= SHORT {
            return 1.0;
        }
        let losses = candidates(subflows).map(|(i, _)| self.slots[i].loss);
        probability(losses.fold(0.0, f64::max), MOST.1)
    }

    /// Adds a copy on another subflow to a choice, or leaves it alone.
    pub(super) fn copied(
        &mut self,
        connection: &ConnectionView,
        subflows: &[SubflowView],
        mut choice: Choice,
    ) -> Choice {
        for (slot, view) in self.slots.iter_mut().zip(subflows) {
            slot.look(view);
        }
        self.most = self
            .most
            .max(connection.unsent.saturating_add(connection.in_flight));
        let Some(first) = choice.first() else {
            return choice;
        };
        let share = self.share(subflows);
        if share <= 0.0 {
            return choice;
        }
        let seed = connection.now_us;
        let draw = self
            .draw
            .get_or_insert_with(|| Xoshiro256PlusPlus::seed_from_u64(seed));
        let unit = (draw.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        // Where all windows are full no subflow but the first is ever ready: a copy takes its turn, for a window at most.
        let others =
            || candidates(subflows).filter(|(i, s)| *i != first && s.room > 0 && s.unsent < s.cwnd);
        let count = others().count();
        if unit < share && count > 0 {
            let other = (draw.next_u64() % count as u64) as usize;
            let (slot, view) = others().nth(other).expect("as many were counted");
            choice.subflows |= 1 << slot;
            choice.burst = choice.burst.min(view.mss.max(1));
        }
        choice
    }
}

impl Schedule for Cloning {
    fn pick(&mut self, connection: &ConnectionView, subflows: &[SubflowView]) -> Choice {
        let choice = lowest_rtt_ready(subflows)
            .map_or(Choice::WAIT, |first| segment(connection, subflows, first));
        self.copied(connection, subflows, choice)
    }

    fn forget(&mut self, subflow: usize) {
        self.slots[subflow] = Slot::default();
    }

    fn plans_ahead(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn views(sent: u64, lost: u64) -> [SubflowView; 3] {
        [10_000, 20_000, 30_000].map(|srtt_us| SubflowView {
            active: true,
            mss: 1000,
            srtt_us,
            cwnd: 100,
            room: 1 << 20,
            sent,
            lost,
            ..SubflowView::default()
        })
    }

    /// Of 4,000 picks: how many were cloned, and onto which slots.
    fn clones(views: &[SubflowView; 3], unsent: u64) -> (usize, u8) {
        let mut scheduler = Cloning::default();
        let mut slots = 0;
        let cloned = (0..4_000)
            .filter(|i| {
                let connection = ConnectionView {
                    now_us: 5 + i,
                    unsent,
                    window_left: 1 << 30,
                    ..ConnectionView::default()
                };
                let choice = scheduler.pick(&connection, views);
                assert_eq!(choice.first(), Some(0), "the original goes by RTT");
                slots |= choice.subflows;
                choice.iter().count() == 2
            })
            .count();
        (cloned, slots)
    }

    #[test]
    fn long_connections_clone_by_loss() {
        assert_eq!(clones(&views(1000, 0), 1 << 20), (0, 0b001));
        // One look: half of 40 % is 20 %, c_p = 0.25.
        let (cloned, slots) = clones(&views(1000, 400), 1 << 20);
        assert!((900..1100).contains(&cloned), "{cloned}");
        assert_eq!(slots, 0b111, "onto either other subflow");
        let (cloned, _) = clones(&views(1000, 1000), 1 << 20);
        assert_eq!(cloned, 4_000, "c_p = 1 from p = ½ on");
    }

    #[test]
    fn short_connections_clone_everything() {
        assert_eq!(clones(&views(1000, 0), 10_000).0, 4_000);
    }

    #[test]
    fn a_copy_waits_behind_a_full_window_but_not_behind_another_window_of_data() {
        let mut views = views(1000, 400);
        for view in &mut views[1..] {
            view.in_flight = 100;
        }
        assert_eq!(clones(&views, 10_000).0, 4_000);
        for view in &mut views[1..] {
            view.unsent = 100;
        }
        assert_eq!(clones(&views, 10_000).0, 0);
    }
}

//! What leaves on the paths: the scheduler's choices, joined to frames.

use std::time::{Duration, Instant};

use mp_policy::scheduler::{shown, Schedule, SubflowView};
use mp_policy::MAX_SUBFLOWS;

use crate::path::RECORD;
use crate::stream::Piece;
use crate::wire::{Header, MOST_PAYLOAD};

use super::{Flow, Loss, AHEAD, FED, TICK, WINDOW};

/// Segments dealt before the sockets are looked at again.
const TURN: usize = 4096;

impl Flow {
    /// Reads the paths' state; those that have gone silent give back what they carry.
    pub(super) fn refresh(&mut self, now: Instant) {
        let (mut rate, mut longest) = (0, 0);
        for slot in 0..MAX_SUBFLOWS {
            let Some(path) = &mut self.paths[slot] else {
                continue;
            };
            let (before, known) = (path.view().stale, path.view().active);
            match path.refresh(now) {
                Ok(Some(info)) => {
                    if let Some(observed) = &self.observed {
                        observed.read(slot, &info, now);
                    }
                }
                Ok(None) => {}
                Err(_) => {
                    self.lose_path(slot, now);
                    continue;
                }
            }
            let view = path.view();
            if view.alive() {
                rate += path.rate();
                longest = longest.max(view.srtt_us);
            }
            if view.stale {
                // Again and again: a path may be given data in the turn that finds it stale.
                self.sender.lose(slot);
            }
            if known && view.stale != before {
                self.acks.force();
            }
            if let (Some(since), Some(lost)) = (path.given_up(now), &self.lost) {
                let _ = lost.send(Loss::Stale(slot, since));
            }
        }
        let product = u128::from(rate) * u128::from(longest) / 1_000_000;
        let window = (2 * product).min(u128::from(WINDOW.1)) as u64;
        self.sender.set_window(window.max(WINDOW.0));
        self.ahead = ahead(self.scheduler.plans_ahead(), window, rate);
    }

    pub(super) fn deal(&mut self, now: Instant) {
        let mut views = [SubflowView::default(); MAX_SUBFLOWS];
        let mut slots = 0;
        let mut live = 0u8;
        for (slot, path) in self.paths.iter().enumerate() {
            if let Some(path) = path {
                views[slot] = path.view();
                slots = slot + 1;
                live |= u8::from(views[slot].alive()) << slot;
            }
        }
        // Unless the loop ends for want of data.
        let mut waits = true;
        let now_us = now
            .duration_since(self.started)
            .max(Duration::from_micros(1))
            .as_micros() as u64;
        let mut runs: [Option<Piece>; MAX_SUBFLOWS] = [None; MAX_SUBFLOWS];
        for _ in 0..TURN {
            let Some(connection) = self.sender.view(now_us, live) else {
                waits = false;
                break;
            };
            let mut choice = match self.scheduler.replicates() {
                true => self.scheduler.pick(&connection, &views[..slots]),
                false => self.scheduler.pick(&connection, &shown(&views)[..slots]),
            };
            let room = choice
                .iter()
                .map(|slot| views[slot].room)
                .min()
                .unwrap_or(0);
            if room == 0 {
                break;
            }
            choice.burst = u64::from(choice.burst).min(room).max(1) as u32;
            let pieces = self.sender.take(choice);
            if pieces.iter().all(Option::is_none) {
                break;
            }
            for (slot, piece) in pieces.into_iter().enumerate() {
                let Some(piece) = piece else { continue };
                if let Some(path) = &mut self.paths[slot] {
                    path.give(piece.length as u64);
                    views[slot] = path.view();
                }
                match &mut runs[slot] {
                    Some(run) if run.joins(&piece) => run.join(&piece),
                    run => {
                        if let Some(full) = run.replace(piece) {
                            self.send(slot, full);
                        }
                    }
                }
            }
        }
        self.aim();
        for (slot, run) in runs.into_iter().enumerate() {
            if let Some(piece) = run {
                self.send(slot, piece);
            }
        }
        let paths = self.paths.iter().flatten();
        self.waiting = waits.then(|| asked_again_in(paths.map(|p| (p.view(), p.holds()))));
    }

    /// The controllers follow the scheduler, as the simulator's do.
    fn aim(&mut self) {
        let Some(group) = &mut self.group else {
            return;
        };
        if group.aim(self.scheduler.queue_target_us()) {
            self.paths.iter().flatten().for_each(|p| p.join(group));
        }
    }

    /// As frames of one TLS record each.
    fn send(&mut self, slot: usize, piece: Piece) {
        self.count(|m| &m.sent, slot, piece.length);
        let Some(path) = &mut self.paths[slot] else {
            return;
        };
        let mut start = piece.start;
        let mut left = piece.length;
        loop {
            let length = left.min(MOST_PAYLOAD);
            left -= length;
            let header = Header::data(start, piece.end && left == 0, length);
            path.give(RECORD + header.bytes().len() as u64);
            path.carrier
                .put_data(header, self.sender.slices(start, length));
            start += length as u64;
            if left == 0 {
                break;
            }
        }
    }
}

impl Piece {
    fn joins(&self, next: &Piece) -> bool {
        !self.end && next.start == self.start + self.length as u64
    }

    fn join(&mut self, next: &Piece) {
        (self.length, self.end) = (self.length + next.length, next.end);
    }
}

/// When the scheduler is asked again, of paths whose sockets have data for so long. While none can take more, they send on for at
/// least half of that.
fn asked_again_in(paths: impl Iterator<Item = (SubflowView, Duration)> + Clone) -> Duration {
    let live = paths.filter(|(view, _)| view.alive());
    let normal = live.clone().any(|(view, _)| !view.backup);
    let used = live.filter(|(view, _)| !(normal && view.backup));
    if used.clone().any(|(view, _)| view.ready()) {
        return TICK.0;
    }
    let least = used.map(|(_, holds)| holds).min();
    (least.unwrap_or_default() / 2).clamp(TICK.0, TICK.1)
}

/// Bytes to be read ahead, with paths of this rate (bytes/s) that may have a window in flight.
fn ahead(plans: bool, window: u64, rate: u64) -> u64 {
    let fed = u128::from(rate) * FED.as_millis() / 1000;
    let wanted = match plans {
        true => window,
        false => u64::try_from(fed).unwrap_or(u64::MAX),
    };
    wanted.clamp(AHEAD.0, AHEAD.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_sleeps_while_all_sockets_have_data() {
        let ms = Duration::from_millis;
        let full = SubflowView {
            active: true,
            mss: 1400,
            cwnd: 100,
            ..SubflowView::default()
        };
        let free = SubflowView { room: 1, ..full };
        let again = |paths: &[(SubflowView, u64)]| {
            asked_again_in(paths.iter().map(|(view, holds)| (*view, ms(*holds))))
        };
        assert_eq!(again(&[(full, 10)]), ms(5));
        assert_eq!(again(&[(full, 10), (full, 6)]), ms(3));
        assert_eq!(again(&[(full, 131)]), ms(20));
        assert_eq!(again(&[(full, 0)]), ms(1), "the rate is not known");
        assert_eq!(
            again(&[(full, 10), (free, 0)]),
            ms(1),
            "the scheduler's choice"
        );
        let backup = SubflowView {
            backup: true,
            ..free
        };
        assert_eq!(again(&[(full, 10), (backup, 0)]), ms(5));
        assert_eq!(again(&[(backup, 0)]), ms(1));
        let stale = SubflowView {
            stale: true,
            ..free
        };
        assert_eq!(again(&[(full, 10), (stale, 0)]), ms(5));
    }

    /// What is read ahead is most of what a flow holds: 60 Mbit/s with round trips of 40 ms.
    #[test]
    fn who_does_not_plan_reads_little_ahead() {
        let (rate, window) = (7_500_000, 600_000);
        assert_eq!(ahead(true, window, rate), window);
        assert_eq!(ahead(false, window, rate), AHEAD.0);
        // In slow start, twice the rate and a queue as long as the link: the growth is a tenth of the window's.
        assert_eq!(ahead(true, 2_400_000, 2 * rate), AHEAD.1);
        assert_eq!(ahead(false, 2_400_000, 2 * rate), 300_000);
        // 1 Gbit/s.
        assert_eq!(ahead(false, 1 << 24, 125_000_000), AHEAD.1);
    }
}

//! What arrives on the paths.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mp_policy::link::Priority;
use socket2::SockRef;

use crate::stream::Arrival;
use crate::wire::{Frame, Refusal};

use super::{Flow, Hears, Outcome, Stop, WINDOW};

/// Makes the receive window as large as the application reads fast: twice what it reads in a round trip, as TCP's own.
pub struct Growth {
    since: Instant,
    at: u64,
}

impl Growth {
    pub fn new(now: Instant) -> Growth {
        Growth { since: now, at: 0 }
    }

    /// The capacity to have from now on; `consumed` is the stream offset that the application has reached.
    fn wanted(&mut self, now: Instant, round_trip: Duration, consumed: u64, capacity: u64) -> u64 {
        let elapsed = now.duration_since(self.since);
        let read = consumed - self.at;
        if elapsed < round_trip && 2 * read <= capacity {
            return capacity;
        }
        (self.since, self.at) = (now, consumed);
        // Of a program that reads in bursts only what falls on a round trip counts.
        let product = |bytes: u64, time: Duration| u128::from(bytes) * time.as_micros();
        if product(2 * read, round_trip) > product(capacity, elapsed.max(round_trip)) {
            (2 * capacity).min(WINDOW.1)
        } else {
            capacity
        }
    }
}

/// What a path has brought that changes paths.
#[derive(Default)]
struct News {
    brought_data: bool,
    /// Slots whose links are down at the peer, as bits.
    gone: u8,
    /// Of this path, from now on.
    priority: Option<Priority>,
}

impl Flow {
    /// Takes what a path has brought.
    pub(super) fn read_path(&mut self, slot: usize, now: Instant) -> Result<(), Stop> {
        let Some(mut path) = self.paths[slot].take() else {
            return Ok(());
        };
        let read = path.carrier.receive();
        if let Some(meters) = self
            .meters
            .as_ref()
            .filter(|_| !path.carrier.input().is_empty())
        {
            meters.heard.fetch_add(1, Ordering::Relaxed);
        }
        let mut news = News::default();
        let taken = path
            .carrier
            .frames(|frame| self.on_frame(frame, slot, &mut news, now));
        let (ended, well) = (path.carrier.ended(), path.carrier.ended_well());
        self.paths[slot] = Some(path);
        taken?;
        if let Some(priority) = news.priority {
            self.set_priority(slot, priority);
        }
        for other in (0..8).filter(|i| news.gone >> i & 1 == 1) {
            self.drop_path(other, now);
        }
        if news.brought_data {
            self.stir(now);
            self.grow(now);
        }
        if ended || read.is_err() {
            (self.closed, self.left_well) = (ended && read.is_ok(), well);
            self.lose_path(slot, now);
        }
        Ok(())
    }

    fn on_frame(
        &mut self,
        frame: Frame,
        slot: usize,
        news: &mut News,
        now: Instant,
    ) -> Result<(), Stop> {
        match frame {
            Frame::Data {
                offset,
                end,
                payload,
            } => {
                news.brought_data = true;
                self.count(|m| &m.received, slot, payload.len());
                if let Some(observed) = &self.observed {
                    observed.receive(slot, payload.len(), now);
                }
                if self.receiver.on_data(offset, end, payload)? == Arrival::Duplicate {
                    // The acknowledgement may have been lost with another path: this one works.
                    self.acks.force_on(slot);
                }
            }
            Frame::Ack { next, limit } => self.sender.on_ack(next, limit)?,
            Frame::Opened(status) => self.on_opened(status)?,
            Frame::Reset => return Err(Stop::Outcome(Outcome::Reset)),
            Frame::Gone(other) => news.gone |= 1u8.checked_shl(u32::from(other)).unwrap_or(0),
            Frame::Welcome(_) => {}
            Frame::Priority(priority) => news.priority = Some(priority),
        }
        Ok(())
    }

    fn on_opened(&mut self, status: Result<(), Refusal>) -> Result<(), Stop> {
        // Each path brings it.
        let Some(hears) = self.hears.take() else {
            return Ok(());
        };
        match (hears, &self.application) {
            (Hears::Application(answer), Some(application)) => {
                self.first = answer(status);
                if status.is_err() && !self.first.is_empty() {
                    let _ = SockRef::from(application).set_linger(None);
                    // A few bytes into an empty buffer.
                    let _ = application.try_write(&self.first);
                }
            }
            (Hears::Other(other), _) => drop(other.send(status)),
            (Hears::Application(_), None) => {}
        }
        status.map_err(|refusal| Stop::Outcome(Outcome::Refused(refusal)))
    }

    fn grow(&mut self, now: Instant) {
        let slowest = self
            .paths
            .iter()
            .flatten()
            .map(|path| path.view().srtt_us)
            .max();
        let round_trip = Duration::from_micros(u64::from(slowest.unwrap_or(0)).max(10_000));
        let capacity = self.growth.wanted(
            now,
            round_trip,
            self.receiver.consumed(),
            self.receiver.capacity(),
        );
        self.receiver.grow(capacity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The capacity after so many looks, one each `look_ms`, of a program that reads so much between two of them.
    fn grown(look_ms: u64, read: u64, looks: u32) -> u64 {
        let start = Instant::now();
        let (mut growth, mut capacity) = (Growth::new(start), WINDOW.0);
        for look in 1..=looks {
            let now = start + Duration::from_millis(look_ms) * look;
            let round_trip = Duration::from_millis(40);
            capacity = growth.wanted(now, round_trip, read * u64::from(look), capacity);
        }
        capacity
    }

    #[test]
    fn the_window_is_twice_what_is_read_in_a_round_trip() {
        assert_eq!(grown(40, WINDOW.0 / 2, 9), WINDOW.0);
        assert_eq!(grown(40, WINDOW.0 / 2 + 1, 9), 2 * WINDOW.0);
        assert_eq!(grown(40, WINDOW.1, 9), WINDOW.1);
        assert_eq!(grown(20, WINDOW.0 / 2, 1), WINDOW.0);
        assert_eq!(
            grown(20, WINDOW.0 / 2 + 1, 1),
            2 * WINDOW.0,
            "what a round trip brings is more still"
        );
    }

    #[test]
    fn a_burst_after_a_pause_is_not_taken_for_speed() {
        // A player of 5 Mbit/s that fills its buffer every ten seconds.
        assert_eq!(grown(10_000, 6_250_000, 50), WINDOW.0);
    }
}

//! When a flow is over, and who is told.

use std::time::{Duration, Instant};

use mp_kernel::mptcp_info::tcp_info;
use socket2::SockRef;
use tokio::time::{sleep, timeout};

use crate::hold::Place;
use crate::wire::Frame;

use super::{Flow, Loss, Outcome, Stop, Untold, PATIENCE};

/// A host that sleeps or has no link closes nothing: the peer's process has probably ended.
const CLOSED: Duration = Duration::from_secs(15 * 60);
/// Data before a reset may take so long without progress …
const LAST_WORDS: Duration = Duration::from_secs(2);
/// … and how far they got is looked at as often as this.
const LOOK: Duration = Duration::from_millis(5);

/// The application's connection has failed. As with TCP itself, the peer gets what the application has said before.
pub(super) struct Broken {
    /// When the peer acknowledged something last, and how much it had then.
    since: Instant,
    acknowledged: u64,
}

impl Broken {
    pub fn since(now: Instant) -> Broken {
        Broken {
            since: now,
            acknowledged: 0,
        }
    }

    /// Until it is over whatever the peer does.
    pub fn due_in(&self, now: Instant) -> Duration {
        LAST_WORDS.saturating_sub(now.saturating_duration_since(self.since))
    }

    fn is_overdue(&mut self, acknowledged: u64, now: Instant) -> bool {
        if acknowledged > self.acknowledged {
            (self.since, self.acknowledged) = (now, acknowledged);
        }
        self.due_in(now).is_zero()
    }
}

impl Flow {
    pub(super) fn check(&mut self, now: Instant) -> Result<(), Stop> {
        if self.withdrawn || self.application_has_failed() || self.breaks_off(now) {
            return Err(Stop::Break);
        }
        if self.has_said_all() {
            self.unsaid = None;
        }
        let peer_is_done = self.peer_is_done();
        if self.told_end && (self.sender.done() || peer_is_done) {
            return Err(Stop::Outcome(Outcome::Done));
        }
        let most = self.patience();
        if let Some(alone) = &mut self.alone {
            if alone.look(now) >= most && !peer_is_done {
                return Err(Stop::Outcome(Outcome::Lost));
            }
        }
        match self.place.as_ref().is_some_and(Place::is_given_up) {
            true => Err(Stop::Outcome(Outcome::Lost)),
            false => Ok(()),
        }
    }

    /// It closes all paths then; its last acknowledgement may have been lost with one. What has arrived is for the application,
    /// which may take its time.
    pub(super) fn peer_is_done(&self) -> bool {
        let all_here = self.receiver.has_end();
        self.alone.is_some()
            && self.left_well
            && all_here
            && self.heard_out
            && self.sender.unsent() == 0
    }

    /// The application has ended its stream, which the peer has, and nothing moves: it is for the other side to end its own.
    fn has_said_all(&self) -> bool {
        self.rested && self.heard_out && self.sender.done()
    }

    /// It has ended its stream and gone, and nothing more is to be read from it: only the socket's error shows that. While bytes
    /// move, writing them does.
    fn application_has_failed(&self) -> bool {
        let application = self.application.as_ref().filter(|_| self.has_said_all());
        application.is_some_and(|a| !matches!(SockRef::from(a).take_error(), Ok(None)))
    }

    /// The application's connection has failed, and the peer has all that came before, or does not get it.
    fn breaks_off(&mut self, now: Instant) -> bool {
        let Some(broken) = &mut self.broken else {
            return false;
        };
        let has_all = self.heard_out && self.sender.unsent() == 0 && self.sender.in_flight() == 0;
        // A relay that has not connected takes nothing.
        let takes = self.alone.is_none() && self.hears.is_none();
        has_all || !takes || broken.is_overdue(self.sender.una(), now)
    }

    /// What has arrived comes before the peer's reset: this end's own discards what its socket still has.
    pub(super) async fn deliver(&mut self) {
        let delivering = async {
            loop {
                let now = Instant::now();
                self.throttle.resume(now);
                self.write_application(now);
                let application = self.application.as_ref();
                let Some(application) = application.filter(|_| self.broken.is_none()) else {
                    return;
                };
                let waits = tcp_info(application).is_ok_and(|i| i.unacked + i.notsent_bytes > 0);
                if !waits && self.first.is_empty() && self.receiver.ready().is_empty() {
                    return;
                }
                sleep(LOOK).await;
            }
        };
        let _ = timeout(LAST_WORDS, delivering).await;
    }

    /// For a path, where there is none.
    pub(super) fn patience(&self) -> Duration {
        match self.hears {
            Some(_) => PATIENCE,
            None if self.closed => self.hold.min(CLOSED),
            None => self.hold,
        }
    }

    /// `untold`: the peer may not know. What has no path to say so on is said on another one, unless the relay was never asked
    /// for the flow.
    pub(super) fn conclude(mut self, outcome: Outcome, untold: bool) -> Outcome {
        let known = self.peer_is_done();
        let mut word = Frame::Reset;
        if outcome == Outcome::Done {
            // The relay may have yet to give the target what it has: a reset would lose that.
            let (next, limit) = self.receiver.acknowledgement();
            word = Frame::Ack { next, limit };
            self.tell_all(&word);
            if let Some(application) = &self.application {
                let _ = SockRef::from(application).set_linger(None);
            }
        }
        let paths = self.paths.into_iter().flatten();
        let parting = paths.map(|path| path.carrier.part()).collect();
        if let (Some(lost), true) = (self.lost, untold && self.asked && !known) {
            let _ = lost.send(Loss::Untold(Untold {
                parting,
                word,
                unsaid: self.unsaid,
            }));
        }
        outcome
    }
}

#[cfg(test)]
mod tests;

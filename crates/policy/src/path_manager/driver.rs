//! A path manager with the state machines beside it: the one type that every world drives. At a poll a world passes in what
//! each subflow did ([`Driver::poll`]); at an event it passes in a view, and carries out the actions
//! ([`Driver::observe`]).
//!
//! | what a host cannot see | machine |
//! | --- | --- |
//! | a path died, and this end receives | [`Silence`] |
//! | a peer does not know that a subflow is in backup, or no longer is | [`Retry`] |
//! | a connection has just begun, or begun anew (slow-start guard) | [`Beginnings`] |
//! | when something changes next | [`Pace`] |

use super::retry::Retry;
use super::{Action, Event, Manage, PathManager, View};
use crate::estimate::{Beginnings, Silence};
use crate::pace::Pace;
use crate::view::Activity;

/// Of one connection, or of all connections of a host together.
#[derive(Debug)]
pub struct Driver {
    pub manager: PathManager,
    /// Polls are due at its pace.
    pub pace: Pace,
    silence: Silence,
    retry: Retry,
    beginnings: Beginnings,
    polled_us: u64,
}

/// What the machines conclude from a poll.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Polled {
    /// Whether dead-path detection finds the path of each subflow silent, in the order of the poll.
    pub silent: Vec<bool>,
    /// Paths whose peers are to be told again whether they are in backup (MP_PRIO).
    pub retry: Vec<usize>,
}

impl Driver {
    /// The first poll counts from `now_us` on.
    pub fn new(manager: PathManager, now_us: u64) -> Driver {
        Driver {
            manager,
            pace: Pace::new(now_us),
            silence: Silence::default(),
            retry: Retry::default(),
            beginnings: Beginnings::default(),
            polled_us: now_us,
        }
    }

    /// Begins now, where the driver was made before.
    pub fn start(&mut self, now_us: u64) {
        (self.pace, self.polled_us) = (Pace::new(now_us), now_us);
    }

    /// Since the last poll, µs.
    pub fn elapsed_us(&self, now_us: u64) -> u64 {
        now_us - self.polled_us
    }

    /// Takes in what each live subflow did since the last poll. `in_backup`: whether a path is to be in backup.
    pub fn poll(
        &mut self,
        now_us: u64,
        subflows: &[Activity],
        in_backup: impl Fn(usize) -> bool,
    ) -> Polled {
        let elapsed_us = now_us - std::mem::replace(&mut self.polled_us, now_us);
        let moving = subflows.iter().filter(|s| s.moved > 0);
        (self.beginnings).poll(now_us, moving.map(|s| s.connection));
        let moved = subflows.iter().map(|s| s.moved).sum();
        self.pace.moved(now_us, moved);
        Polled {
            silent: self.silence.poll(now_us, elapsed_us, subflows),
            retry: self.retry.poll(now_us, subflows, in_backup),
        }
    }

    /// [`View::began_us`]
    pub fn began_us(&self, now_us: u64) -> Option<u64> {
        self.beginnings.oldest(now_us)
    }

    /// What is to be done now. A poll that the path manager asks for comes at the pace of the data.
    pub fn observe(&mut self, event: Event, view: &View<'_>) -> Vec<Action> {
        debug_assert_eq!(view.check(None), Ok(()));
        let mut actions = Vec::new();
        self.manager.observe(event, view, &mut actions);
        for action in &mut actions {
            if let Action::Wake { at_us } = action {
                let interval_us = at_us.saturating_sub(view.now_us);
                let pause_us = self.pace.pause_us(view.now_us, interval_us);
                *at_us = view.now_us + interval_us.max(pause_us);
            }
        }
        actions
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{established, paths, view};
    use super::super::{find, Role};
    use super::*;

    /// When a path manager that asks for a poll every 50 ms is polled, ms; so many bytes move between two polls before
    /// `until_ms`.
    fn polls(bytes: u64, until_ms: u64, end_ms: u64) -> Vec<u64> {
        let manager = find("loss-aware").expect("registered").build();
        let mut driver = Driver::new(manager, 0);
        let (paths, subflows) = (paths(1), [established(0)]);
        let (mut event, mut now_us, mut polls) = (Event::Established, 0, Vec::new());
        let mut last_us = 0;
        while now_us < end_ms * 1_000 {
            polls.push(now_us / 1_000);
            let moved = if now_us < until_ms * 1_000 { bytes } else { 0 };
            if moved > 0 {
                last_us = now_us;
            }
            let activity = Activity {
                connection: 1,
                id: 1,
                path: Some(0),
                backup: false,
                arrived: moved,
                moved,
                packets: 0,
                rtt_us: None,
            };
            driver.poll(now_us, &[activity], |_| false);
            assert_eq!(
                driver.began_us(now_us).is_some(),
                now_us < last_us + 250_000
            );
            let view = View {
                role: Role::Receiver,
                began_us: driver.began_us(now_us),
                ..view(now_us, &paths, &subflows)
            };
            let actions = driver.observe(std::mem::replace(&mut event, Event::Timer), &view);
            let wake = |a: &Action| match a {
                Action::Wake { at_us } => Some(*at_us),
                _ => None,
            };
            now_us = actions.iter().find_map(wake).expect("it polls");
        }
        polls
    }

    #[test]
    fn polls_keep_the_interval_while_data_move_and_for_three_seconds_after() {
        let polls = polls(100_000, 1_000, 6_500);
        let busy: Vec<u64> = (0..80).map(|n| n * 50).collect();
        assert_eq!(polls[..80], busy);
        let rest: Vec<u64> = polls.windows(2).map(|p| p[1] - p[0]).skip(79).collect();
        assert_eq!(rest, [1_000; 2], "{polls:?}");
    }
}

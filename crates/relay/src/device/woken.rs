//! Whether this host has slept: its connections may be over at the other end, and nobody could say so.

use std::time::Duration;

use nix::time::{clock_gettime, ClockId};
use tokio::sync::watch;
use tokio::time::sleep;

/// Between two looks at the clock.
const LOOK: Duration = Duration::from_secs(1);
/// So much later than it was to be, a look tells of sleep, and not of a busy host. What a wrong guess costs is a probe.
const LATE: Duration = Duration::from_secs(5);

struct Clock(Duration);

impl Clock {
    /// A look; whether this process stood still before it. `now` is CLOCK_BOOTTIME, which goes on in sleep.
    fn look(&mut self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.0);
        self.0 = now;
        passed > LOOK + LATE
    }
}

/// Tells of it, for ever.
pub async fn watch(woken: watch::Sender<()>) {
    let now = || clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from);
    let Ok(started) = now() else { return };
    let mut clock = Clock(started);
    loop {
        // It stands still with the host, and ends within a second of its waking up.
        sleep(LOOK).await;
        if now().is_ok_and(|now| clock.look(now)) {
            woken.send_replace(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_is_told_from_a_busy_host_and_once() {
        let mut clock = Clock(Duration::from_secs(100));
        let mut woken = |at| clock.look(Duration::from_secs(at));
        assert!(!woken(101) && !woken(105), "busy");
        assert!(woken(112) && !woken(113));
        assert!(woken(30_000) && !woken(30_001));
        assert!(!woken(29_000), "a clock that cannot be");
    }
}

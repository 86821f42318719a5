//! Whether the relay answers. It is asked where there is doubt: by a new connection over each link, which stays ready for a
//! flow, and over a backup link only where the others do not answer at once. While flows hear of it, be it acknowledgements,
//! there is no doubt. While it does not answer, it is asked again and again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{watch, Notify};
use tokio::time::{sleep, Instant};

use crate::datagram::device::Lane;
use crate::device::Device;

/// Between two looks at the datagram lane.
const LOOK: Duration = Duration::from_secs(1);
/// Between two questions, while the relay answers them …
const AT_MOST: Duration = Duration::from_secs(5);
/// … and while it does not.
const AGAIN: Duration = Duration::from_secs(1);

/// Says in `reach` what it finds. `doubts` are of flows that wait for the relay.
pub async fn follow(
    device: Arc<Device>,
    lane: Arc<Lane>,
    doubts: Arc<Notify>,
    reach: watch::Sender<bool>,
) {
    let mut up = lane.up();
    let mut doubt = Doubt::new(device.heard());
    loop {
        let doubted = tokio::select! {
            () = doubts.notified() => true,
            () = sleep(LOOK) => lane.is_silent(),
            Ok(()) = up.changed() => !*up.borrow_and_update(),
        };
        if !doubt.is_to_be_settled(doubted, device.heard()) {
            continue;
        }
        let asked = Instant::now();
        while !device.reaches().await {
            reach.send_if_modified(|reach| std::mem::replace(reach, false));
            sleep(AGAIN).await;
        }
        reach.send_if_modified(|reach| !std::mem::replace(reach, true));
        sleep(AT_MOST.saturating_sub(asked.elapsed())).await;
        doubt = Doubt::new(device.heard());
    }
}

/// It stays while flows hear of the relay, without a question: a target may only be slow, or the way to it full.
struct Doubt {
    pending: bool,
    /// At the last look.
    heard: u64,
}

impl Doubt {
    fn new(heard: u64) -> Doubt {
        Doubt {
            pending: false,
            heard,
        }
    }

    fn is_to_be_settled(&mut self, doubted: bool, heard: u64) -> bool {
        self.pending |= doubted;
        let moves = std::mem::replace(&mut self.heard, heard) != heard;
        self.pending && !moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_waits_while_streams_move() {
        let mut doubt = Doubt::new(7);
        assert!(!doubt.is_to_be_settled(false, 7));
        assert!(!doubt.is_to_be_settled(true, 8), "the target is slow");
        assert!(!doubt.is_to_be_settled(false, 9));
        assert!(doubt.is_to_be_settled(false, 9), "and it has yet to answer");
        assert!(Doubt::new(7).is_to_be_settled(true, 7));
    }
}

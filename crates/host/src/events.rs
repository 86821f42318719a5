//! Connections that begin, and subflows that close.

use std::time::Duration;

use mp_kernel::pm::{EventKind, Events};
use tokio::sync::mpsc;

use crate::Error;

/// Connections begin, and interfaces change, in bursts: so long after the first, most of them are there.
pub const BURST: Duration = Duration::from_millis(20);
/// How long the end of the listener may be overlooked, and how long to wait after it has failed.
const REST: Duration = Duration::from_secs(1);

/// A message for one or more connections that began, or subflows that closed (`MPTCP_EVENT_ESTABLISHED`,
/// `MPTCP_EVENT_SUB_CLOSED`).
///
/// It only hastens the polls, which see all: what is lost of it does no harm.
pub fn watch() -> Result<mpsc::Receiver<()>, Error> {
    let mut events = Events::new()?;
    let (sender, news) = mpsc::channel(1);
    let listen = move || {
        while !sender.is_closed() {
            match events.next(REST) {
                Ok(Some(event)) => {
                    let telling = [EventKind::Established, EventKind::SubflowClosed];
                    if telling.contains(&event.kind) {
                        let _ = sender.try_send(());
                    }
                }
                Ok(None) => {}
                Err(_) => {
                    std::thread::sleep(REST);
                    if let Ok(fresh) = Events::new() {
                        events = fresh;
                    }
                }
            }
        }
    };
    std::thread::Builder::new()
        .name("events".into())
        .spawn(listen)
        .map_err(|e| Error::Failed(format!("cannot start a thread: {e}")))?;
    Ok(news)
}

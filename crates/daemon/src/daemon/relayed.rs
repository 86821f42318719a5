//! The relay beside MPTCP.

use mp_policy::awareness::Reason;
use serde_json::{json, Value};
use tokio::sync::oneshot;

use super::{Daemon, Part};
use crate::config::{Config, RelayConfig, RelayOverride};
use crate::mptcpify::Mptcpify;
use crate::relay::{RelayChange, RelaySettings};
use crate::Error;

/// The configuration's relay, or the one that was asked for in its place.
pub(super) fn effective(
    config: &Config,
    asked: Option<&RelayOverride>,
) -> Result<RelayConfig, Error> {
    asked.map_or(Ok(config.relay.clone()), |asked| config.relay.with(asked))
}

impl Daemon {
    /// `up --relay`; whoever calls it waits for the outcome.
    pub(super) async fn relay_asked(
        &mut self,
        asked: RelayOverride,
        answer: oneshot::Sender<Value>,
    ) {
        let refused = |e: &Error| json!({"error": e.to_string(), "code": e.exit_code()});
        if self.asked.is_some() {
            let busy = match self.relay.is_on() {
                true => "this host's connections go to a relay already: multipilot down ends that",
                false => "another up --relay waits for its relay: wait for it, or multipilot down",
            };
            let _ = answer.send(refused(&Error::Usage(busy.into())));
            return;
        }
        let relay = effective(&self.config, Some(&asked));
        let settings = relay.and_then(|relay| RelaySettings::of(&self.config, &relay));
        match settings {
            Ok(settings) => {
                self.asked = Some(asked);
                if let Err(e) = self.relay.set(&self.config, settings).await {
                    let _ = answer.send(refused(&e));
                    return self.withdraw().await;
                }
                self.relay.answer(answer);
            }
            Err(e) => drop(answer.send(refused(&e))),
        }
    }

    pub(super) async fn relay_changed(&mut self, change: RelayChange) {
        let before = self.relay.is_on();
        if self.relay.take_in(change).await {
            self.withdraw().await;
        }
        if before != self.relay.is_on() {
            self.keep_mptcpify();
        }
    }

    /// Back to the configuration's.
    async fn withdraw(&mut self) {
        self.asked = None;
        let set = match RelaySettings::of(&self.config, &self.config.relay) {
            Ok(settings) => self.relay.set(&self.config, settings).await,
            Err(e) => Err(e),
        };
        self.trouble(Part::Relay, set.err().map(|e| e.to_string()));
    }

    /// What the relay takes is plain TCP: MPTCP would end on this host.
    pub(super) fn keep_mptcpify(&mut self) {
        // What it holds, the next one takes.
        self.mptcpify = Mptcpify::off("");
        self.mptcpify = match self.relay.is_on() {
            true => Mptcpify::off("the relay takes their connections"),
            false => Mptcpify::start(&self.config.mptcpify),
        };
    }

    pub(super) fn poll_relay(&mut self) {
        self.relay.choose(&self.adapter.paths, &self.config.paths);
        let reasons = self.adapter.reasons(self.now_us());
        let paths = self.adapter.paths.iter().zip(reasons);
        let weak = |reason| reason == Some(Reason::Signal);
        self.relay
            .poll(paths.map(|(p, reason)| (p.interface.name.as_str(), weak(reason))));
    }
}

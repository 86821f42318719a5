//! How a relay is connected.

use std::sync::Arc;

use mp_relay::capture;
use mp_relay::control::Control;
use mp_relay::device::{self, Device};
use mp_relay::flow::Observer;
use mp_relay::links::Rules;
use tokio::sync::watch;

use super::RelaySettings;
use crate::config::Leak;

const IDENTITY: &str = "relay-device.key";

impl RelaySettings {
    /// What is taken from the host's programs.
    pub(super) fn taken(&self) -> capture::Settings {
        let relay = &self.relay;
        capture::Settings {
            direct: relay.direct.clone(),
            direct_users: relay.direct_users.clone(),
            direct_cgroups: relay.direct_cgroups.clone(),
            block: relay.leak == Leak::Block,
            // Whoever asked by hand hears that it failed.
            insists: !self.asked,
            direct_dns: relay.direct_dns,
            lans: relay.lans.clone(),
        }
    }
}

pub(super) async fn connect(
    settings: &RelaySettings,
    taken: &capture::Settings,
    rules: watch::Receiver<Rules>,
    observer: Arc<Observer>,
) -> Result<Arc<Device>, mp_relay::Error> {
    let relay = &settings.relay;
    let identity = relay.state.join(IDENTITY);
    let device = device::Settings {
        line: settings.line.clone(),
        scheduler: mp_relay::scheduler(&relay.scheduler),
        links: relay.links.clone(),
        transport: relay.carrier,
        controller: Control::choose(relay.controller.as_deref())?,
        mark: Some(capture::MARK),
        hold: relay.hold,
        observer: Some(observer),
        rules: Some(rules),
    };
    match relay.leak {
        // Nothing is to get out until the relay answers.
        Leak::Block if !settings.asked => {
            let device = Device::open(device, &identity).await?;
            if device.unresolved().is_some() {
                // The relay may be elsewhere now: if it does not answer, its name is asked for again.
                capture::block(&device, taken).await?;
                device.answered().await?;
            }
            Ok(device)
        }
        _ => Device::connect(device, &identity).await,
    }
}

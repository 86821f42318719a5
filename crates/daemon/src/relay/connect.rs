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

    fn device(
        &self,
        rules: watch::Receiver<Rules>,
        observer: Arc<Observer>,
    ) -> Result<device::Settings, mp_relay::Error> {
        let relay = &self.relay;
        Ok(device::Settings {
            line: self.line.clone(),
            scheduler: mp_relay::scheduler(&relay.scheduler),
            links: relay.links.clone(),
            transport: relay.carrier,
            controller: Control::choose(relay.controller.as_deref())?,
            mark: Some(capture::MARK),
            hold: relay.hold,
            observer: Some(observer),
            rules: Some(rules),
        })
    }
}

pub(super) async fn connect(
    settings: &RelaySettings,
    taken: &capture::Settings,
    rules: watch::Receiver<Rules>,
    observer: Arc<Observer>,
) -> Result<Arc<Device>, mp_relay::Error> {
    let identity = settings.relay.state.join(IDENTITY);
    if settings.relay.leak == Leak::Direct || settings.asked {
        return Device::connect(settings.device(rules, observer)?, &identity).await;
    }
    // Nothing is to get out until the relay answers.
    let opened = match settings.device(rules, observer) {
        Ok(device) => Device::open(device, &identity).await,
        Err(e) => Err(e),
    };
    match opened {
        Ok(device) if device.unresolved().is_none() => Ok(device),
        Ok(device) => {
            // The relay may be elsewhere now: if it does not answer, its name is asked for again.
            capture::block(&device.relay(), taken).await?;
            device.answered().await?;
            Ok(device)
        }
        Err(e) => {
            let known = Device::known(&settings.line, &identity);
            if !known.is_empty() {
                capture::block(&known, taken).await?;
            }
            Err(e)
        }
    }
}

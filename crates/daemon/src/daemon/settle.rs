//! What a start can fail at, and a reload: the configuration, the sockets, the congestion controller.

use std::path::Path;

use mp_host::endpoints::Endpoints;
use mp_kernel::controller::DEFAULT;
use tokio::sync::mpsc;

use crate::config::{self, Config};
use crate::control::{ControlSocket, PendingRequest};
use crate::log::{self, Level};
use crate::metrics::MetricsServer;
use crate::Error;

pub(super) fn load(file: Option<&Path>, socket: Option<&Path>) -> Result<Config, Error> {
    let default = Path::new(crate::config::DEFAULT_FILE);
    let file = file.or(default.exists().then_some(default));
    let mut config = file.map_or(Ok(Config::default()), Config::load)?;
    if let Some(socket) = socket {
        config.socket = socket.to_owned();
    }
    Ok(config)
}

pub(super) struct Settled {
    pub control: ControlSocket,
    pub metrics: Option<MetricsServer>,
    /// As [`choose_controller`] returns it.
    pub refused: String,
}

/// What somebody else may have already: its sockets, and the name of the controller.
pub(super) async fn settle(
    config: &Config,
    endpoints: &mut Endpoints,
    sender: &mpsc::Sender<PendingRequest>,
) -> Result<Settled, Error> {
    let control = ControlSocket::listen(&config.socket, config.group.as_deref(), sender.clone())?;
    let metrics = MetricsServer::start(config.metrics, sender).await?;
    endpoints.set_limits(config.subflows, config.add_addr_accepted)?;
    let refused = choose_controller(config, endpoints)?;
    Ok(Settled {
        control,
        metrics,
        refused,
    })
}

/// The congestion controller of new sockets, as it is configured. Returns why the system's stays where pilot was to be tried;
/// else nothing.
pub(super) fn choose_controller(
    config: &Config,
    endpoints: &mut Endpoints,
) -> Result<String, Error> {
    let chosen = endpoints.choose(config.controller.wanted(), &config.parameters);
    match chosen {
        Err(why) if config.controller == config::ControllerConfig::Automatic => {
            log::line(
                Level::Warning,
                "the system's congestion controller stays",
                &[("not", &DEFAULT), ("why", &why)],
            );
            endpoints.choose(None, &[])?;
            Ok(why.to_string())
        }
        chosen => Ok(chosen.map(|()| String::new())?),
    }
}

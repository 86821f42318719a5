//! The host's interfaces, when they change.

use std::time::Duration;

use mp_host::events::BURST;
use mp_host::links::{Interface, Links};
use tokio::time::timeout;

use super::Daemon;
use crate::log::{self, Level};
use crate::Error;

impl Daemon {
    pub(super) async fn links_changed(&mut self, mut whole: bool) -> Result<(), Error> {
        tokio::time::sleep(BURST).await;
        // A burst is one change: what has come meanwhile is in the list.
        while whole {
            let Ok(more) = timeout(Duration::ZERO, self.links.changed()).await else {
                break;
            };
            whole = more;
        }
        if !whole {
            log::line(
                Level::Warning,
                "lost word of the interfaces; reading all of them again",
                &[],
            );
            self.links = Links::new()?;
        }
        let interfaces = self.links.list().await?;
        self.take_in(interfaces);
        Ok(())
    }

    pub(super) fn keep_backups(&mut self, interfaces: &[Interface]) {
        let backups = self.endpoints.backups().unwrap_or_default();
        self.config.paths.keep_backups(interfaces, &backups);
    }

    pub(super) fn take_in(&mut self, interfaces: Vec<Interface>) {
        self.keep_backups(&interfaces);
        let now = self.now_us();
        self.adapter
            .set_interfaces(now, interfaces, &self.config.paths);
        if let Some(connections) = &mut self.connections {
            connections.set_interfaces(now, &self.adapter, &self.config.paths);
        }
        self.apply();
    }
}

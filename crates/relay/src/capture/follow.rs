//! Leads packets into the TUN and out of it again, as the relay and its datagram lane come and go.

use std::sync::Arc;
use std::time::Duration;

use rtnetlink::Handle;
use tokio::sync::watch;
use tokio::time::sleep;

use super::bypass::Cgroups;
use super::resolvers;
use super::routes::{self, Caught, Ends};
use crate::device::Device;
use crate::egress::Prefix;
use crate::Error;

/// Between two polls of the host's resolvers and cgroups.
const POLL: Duration = Duration::from_secs(2);

pub struct Follow {
    pub handle: Handle,
    pub ends: Vec<Ends>,
    pub device: Arc<Device>,
    pub lane: watch::Receiver<bool>,
    pub reach: watch::Receiver<bool>,
    pub caught: watch::Sender<Caught>,
    /// `leak = "block"`: everything is caught always.
    pub block: bool,
    pub lans: Vec<String>,
    /// Where resolvers are that are asked through the relay; [`None`]: nowhere.
    pub private: Option<Vec<Prefix>>,
    pub direct: Vec<Prefix>,
    pub bypassed: Cgroups,
}

impl Follow {
    fn wanted(&mut self) -> Caught {
        let tcp = self.block || *self.reach.borrow_and_update();
        let datagrams = self.block || tcp && *self.lane.borrow_and_update();
        let links = self.device.links();
        // A link that comes back is to bring no query to its router before the next look.
        let kept = match self.block {
            true => self.caught.borrow().resolvers.clone(),
            false => Vec::new(),
        };
        let resolvers = self
            .private
            .as_ref()
            .map(|private| resolvers::replaced(&links, private, &self.direct, &kept));
        Caught {
            tcp,
            lans: self.lans.clone(),
            datagrams,
            resolvers: resolvers.unwrap_or_default(),
            block: self.block,
        }
    }

    pub async fn update(&mut self) -> Result<(), Error> {
        let wanted = self.wanted();
        let now = self.caught.borrow().clone();
        if now == wanted {
            return Ok(());
        }
        if wanted.tcp {
            // Before the first packet comes.
            self.caught.send_replace(wanted.clone());
        }
        let result = routes::catch(&self.handle, &self.ends, &now, &wanted).await;
        self.caught.send_replace(wanted);
        result
    }

    pub async fn run(mut self) {
        loop {
            // Rules that somebody else has removed are as good as ours.
            let _ = self.update().await;
            self.bypassed.update();
            let changed = tokio::select! {
                changed = self.lane.changed() => changed,
                changed = self.reach.changed() => changed,
                () = sleep(POLL) => Ok(()),
            };
            if changed.is_err() {
                return;
            }
        }
    }
}

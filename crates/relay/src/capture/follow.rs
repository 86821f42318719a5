//! Leads packets into the TUN and out of it again, as the relay and its datagram lane come and go, and sets again what another
//! program has removed: systemd-networkd removes all rules that it does not know when it starts.

use std::future::pending;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use rtnetlink::packet_route::rule::RuleMessage;
use rtnetlink::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, Instant};

use super::bypass::Cgroups;
use super::netlink::{self, Removals};
use super::plan;
use super::resolved::Resolved;
use super::resolvers;
use super::routes::{Caught, Ends, Set};
use crate::device::{Device, Place};
use crate::egress::Prefix;
use crate::Error;

/// Between two polls of the host's resolvers and cgroups.
const POLL: Duration = Duration::from_secs(2);
/// Between two looks at rules and routes where the kernel has told of no removal.
const CHECK: Duration = Duration::from_secs(10);

/// What is to be caught.
pub struct Catch {
    pub device: Arc<Device>,
    /// `leak = "block"`: everything is caught always.
    pub block: bool,
    pub lans: Vec<String>,
    /// Where resolvers are that are asked through the relay; [`None`]: nowhere.
    pub private: Option<Vec<Prefix>>,
    pub direct: Vec<Prefix>,
}

impl Catch {
    /// `reached`: the relay answers, `datagrams`: over UDP too. `kept` are resolvers that stay whatever leads to them.
    pub fn wanted(&self, reached: bool, datagrams: bool, kept: &[IpAddr]) -> Caught {
        let links = self.device.links();
        let mut direct = self.direct.clone();
        direct.extend(self.device.relay().into_iter().map(Prefix::whole));
        let of = |private| resolvers::replaced(&links, private, &direct, kept);
        Caught {
            tcp: self.block || reached,
            datagrams: self.block || reached && datagrams,
            lans: self.lans.clone(),
            resolvers: self.private.as_deref().map(of).unwrap_or_default(),
            block: self.block,
        }
    }
}

pub struct Follow {
    pub handle: Handle,
    /// Of the TUN.
    pub index: u32,
    pub ends: Vec<Ends>,
    pub catch: Catch,
    /// Unless resolvers are asked directly.
    pub resolved: Option<Resolved>,
    pub lane: watch::Receiver<bool>,
    pub reach: watch::Receiver<bool>,
    pub caught: watch::Sender<Caught>,
    pub bypassed: Cgroups,
    /// Stands all the time.
    pub standing: Set,
    /// The way to the relay itself, which may move.
    pub relay: Set,
    pub place: watch::Receiver<Place>,
    /// That are wanted no more, and could not be removed yet.
    pub surplus: Vec<RuleMessage>,
    /// How often others had removed something.
    pub restored: Arc<AtomicU64>,
}

impl Follow {
    fn wanted(&mut self) -> Caught {
        let reached = *self.reach.borrow_and_update();
        let datagrams = *self.lane.borrow_and_update();
        // A link that comes back is to bring no query to its router before the next look.
        let kept = match self.catch.block {
            true => self.caught.borrow().resolvers.clone(),
            false => Vec::new(),
        };
        self.catch.wanted(reached, datagrams, &kept)
    }

    pub async fn update(&mut self) -> Result<(), Error> {
        let wanted = self.wanted();
        let now = self.caught.borrow().clone();
        if let Some(resolved) = &self.resolved {
            resolved.set(wanted.datagrams);
        }
        if now == wanted && self.surplus.is_empty() {
            return Ok(());
        }
        if wanted.tcp {
            // Before the first packet comes.
            self.caught.send_replace(wanted.clone());
        }
        let set = wanted.set(&self.ends);
        let added = netlink::set(&self.handle, &set).await;
        let before = now.set(&self.ends).rules;
        let gone = before.into_iter().filter(|rule| !set.rules.contains(rule));
        self.surplus.extend(gone);
        let mut removed = Ok(());
        for rule in std::mem::take(&mut self.surplus) {
            if set.rules.contains(&rule) {
                continue;
            }
            if let Err(e) = netlink::remove(&self.handle, rule.clone()).await {
                self.surplus.push(rule);
                removed = Err(e);
            }
        }
        self.caught.send_replace(wanted);
        added.map(drop).and(removed)
    }

    /// All that is to be there now.
    pub fn all(&self) -> Set {
        let mut all = self.standing.clone();
        all.extend(self.relay.clone());
        all.extend(self.caught.borrow().set(&self.ends));
        all
    }

    /// Also where something else than this process has led to the relay's new address before.
    async fn move_on(&mut self) -> Result<(), Error> {
        self.place.borrow_and_update();
        self.relay = plan::way(&self.catch.device.relay(), &self.ends, self.catch.block)?;
        self.alone().await
    }

    /// Sets all that is to be there, and takes back what is not.
    pub async fn alone(&self) -> Result<(), Error> {
        let all = self.all();
        netlink::set(&self.handle, &all).await?;
        netlink::clear_but(&self.handle, &all).await?;
        // Where one of ours was taken for one of those: the kernel does not tell jumps to different rules apart.
        netlink::set(&self.handle, &all).await.map(drop)
    }

    async fn restore(&self) {
        let all = self.all();
        let mut set = netlink::set(&self.handle, &all).await;
        if set.is_err() {
            // Somebody has set the interface down, or taken its addresses: routes over it go with them.
            let furnished = netlink::furnish(&self.handle, self.index, &self.ends).await;
            if furnished.is_ok() {
                set = netlink::set(&self.handle, &all).await.map(|_| true);
            }
        }
        if let Ok(true) = set {
            self.restored.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub async fn run(mut self) {
        // Without it the looks find what there is to find.
        let mut removals = Removals::watch().ok();
        let mut checked = None::<Instant>;
        loop {
            if checked.is_none_or(|at| at.elapsed() >= CHECK) {
                self.restore().await;
                checked = Some(Instant::now());
            }
            // What fails is tried again at the next look.
            let _ = self.update().await;
            self.bypassed.update();
            let removed = async {
                match &mut removals {
                    Some(removals) => removals.next().await,
                    None => pending().await,
                }
            };
            let changed = tokio::select! {
                changed = self.lane.changed() => changed,
                Ok(()) = self.place.changed() => {
                    // What fails is set again with all the rest.
                    let _ = self.move_on().await;
                    Ok(())
                }
                changed = self.reach.changed() => changed,
                () = removed => {
                    checked = None;
                    Ok(())
                }
                () = sleep(POLL) => Ok(()),
            };
            if changed.is_err() {
                return;
            }
        }
    }
}

//! What a capture is made of, known before anything is set.

use std::net::IpAddr;
use std::sync::Arc;

use mp_kernel::interfaces::Interface;

use super::addresses::addresses;
use super::follow::Catch;
use super::routes::{self, Caught, Ends, Set};
use super::{Settings, DIRECT};
use crate::device::Device;
use crate::egress::Prefix;
use crate::Error;

pub struct Plan {
    pub ends: Vec<Ends>,
    pub catch: Catch,
    /// Stands all the time.
    pub standing: Set,
    /// The way to the relay itself.
    pub relay: Set,
}

impl Plan {
    pub fn of(device: Arc<Device>, settings: &Settings, here: &[Interface]) -> Result<Plan, Error> {
        let ends = addresses(here)?;
        let relay = way(&device.relay(), &ends, settings.block)?;
        let catch = Catch {
            device,
            block: settings.block,
            lans: settings.lans.clone(),
            private: (!settings.direct_dns).then(private),
            direct: settings.direct.clone(),
        };
        let standing = standing(&ends, settings)?;
        Ok(Plan {
            ends,
            catch,
            standing,
            relay,
        })
    }

    /// With a block: nothing of what is caught gets out once this is set, whatever stood before and whichever step fails.
    pub fn barrier(&self, caught: &Caught) -> Set {
        if !self.catch.block {
            return Set::default();
        }
        let mut all = self.standing.clone();
        all.extend(self.relay.clone());
        all.extend(caught.set(&self.ends));
        routes::barrier(all, &self.ends)
    }
}

/// What [`Plan::barrier`] would set with a block, before there is a device: only these addresses are still reached.
pub fn block(relay: &[IpAddr], settings: &Settings, here: &[Interface]) -> Result<Set, Error> {
    let ends = addresses(here)?;
    let mut all = standing(&ends, settings)?;
    all.extend(way(relay, &ends, true)?);
    Ok(routes::barrier(all, &ends))
}

fn standing(ends: &[Ends], settings: &Settings) -> Result<Set, Error> {
    let mut direct = settings.direct.clone();
    direct.extend(private());
    let users = &settings.direct_users;
    routes::standing(ends, &direct, users, settings.block, &settings.lans)
}

/// The way to the relay, wherever it is now.
pub fn way(relay: &[IpAddr], ends: &[Ends], block: bool) -> Result<Set, Error> {
    let relay: Vec<_> = relay.iter().copied().map(Prefix::whole).collect();
    routes::direct(ends, &relay, block)
}

fn private() -> Vec<Prefix> {
    let prefix = |text: &&str| text.parse().expect("a prefix");
    DIRECT.iter().map(prefix).collect()
}

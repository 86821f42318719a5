//! What a capture is made of, known before anything is set.

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
}

impl Plan {
    pub fn of(device: Arc<Device>, settings: &Settings, here: &[Interface]) -> Result<Plan, Error> {
        let ends = addresses(here)?;
        let mut direct = settings.direct.clone();
        direct.extend(device.relay().into_iter().map(Prefix::whole));
        let catch = Catch {
            device,
            block: settings.block,
            lans: settings.lans.clone(),
            private: (!settings.direct_dns).then(private),
            direct: direct.clone(),
        };
        direct.extend(private());
        let users = &settings.direct_users;
        let standing = routes::standing(&ends, &direct, users, settings.block, &settings.lans)?;
        Ok(Plan {
            ends,
            catch,
            standing,
        })
    }

    /// With a block: nothing of what is caught gets out once this is set, whatever stood before and whichever step fails.
    pub fn barrier(&self, caught: &Caught) -> Set {
        if !self.catch.block {
            return Set::default();
        }
        let mut all = self.standing.clone();
        all.extend(caught.set(&self.ends));
        routes::barrier(all, &self.ends)
    }
}

fn private() -> Vec<Prefix> {
    let prefix = |text: &&str| text.parse().expect("a prefix");
    DIRECT.iter().map(prefix).collect()
}

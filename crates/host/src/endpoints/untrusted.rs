//! Endpoints that others have set on interfaces that the user does not trust: taken away, and given back as they were.

use mp_kernel::diag::Subflow;
use mp_kernel::pm::Endpoint;
use mp_policy::path_manager::Rule;
use serde::{Deserialize, Serialize};

use super::{indispensable, Applied, ChangeKind, EndpointChange, Endpoints};
use crate::links::Interface;
use crate::{Error, PathSettings};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Taken {
    /// By name: what is plugged in again has another number.
    interface: String,
    endpoint: Endpoint,
}

impl Endpoints {
    /// Takes away what others have set on interfaces that the user does not trust, and gives back what was taken from those
    /// that are trusted again, where the kernel takes it. None goes that a connection of `subflows` cannot do without; those
    /// that go take their subflows out of the list.
    pub fn keep_off<'a>(
        &mut self,
        settings: &PathSettings,
        interfaces: impl Iterator<Item = &'a Interface> + Clone,
        subflows: &mut Vec<Subflow>,
    ) -> Result<Applied, Error> {
        let untrusted = |name: &str| settings.rule(name) == Rule::Untrusted;
        let mut applied = self.give_back(|taken| !untrusted(&taken.interface))?;
        for endpoint in self.list()? {
            let address = endpoint.address;
            let has = |i: &&Interface| {
                i.addresses.contains(&address) || endpoint.interface == Some(i.index)
            };
            let on = interfaces.clone().find(has).filter(|i| untrusted(&i.name));
            let ours = self.before.added.contains(&address);
            let Some(on) = on.filter(|_| !ours && !indispensable(address, &[], subflows)) else {
                continue;
            };
            let as_before = self.as_before(&endpoint);
            self.before.adopted.retain(|a| a.0 != address);
            // Leases end: whoever set an endpoint there sets one at the new address.
            let stale =
                |t: &Taken| t.interface == on.name && !on.addresses.contains(&t.endpoint.address);
            let taken = &mut self.before.taken;
            taken.retain(|t| t.endpoint.address != address && !stale(t));
            taken.push(Taken {
                interface: on.name.clone(),
                endpoint: as_before,
            });
            // First the way back, then the change.
            self.save()?;
            if let Err(e) = self.manager.delete_endpoint(&endpoint) {
                // Somebody else was faster.
                applied.refused.get_or_insert(e.into());
                continue;
            }
            subflows.retain(|s| s.local.ip() != address);
            let change = EndpointChange::new(address, ChangeKind::TakenAway);
            applied.done.push(change);
        }
        Ok(applied)
    }

    pub(super) fn give_back(&mut self, which: impl Fn(&Taken) -> bool) -> Result<Applied, Error> {
        let mut applied = Applied::default();
        if !self.before.taken.iter().any(&which) {
            return Ok(applied);
        }
        let taken = std::mem::take(&mut self.before.taken).into_iter();
        let (due, mut left): (Vec<_>, Vec<_>) = taken.partition(which);
        for taken in due {
            let address = taken.endpoint.address;
            let mut endpoint = taken.endpoint.clone();
            if endpoint.interface.is_some() {
                let index = nix::net::if_::if_nametoindex(taken.interface.as_str());
                endpoint.interface = index.ok().map(|index| index as i32);
            }
            match self.add_back(&endpoint) {
                Ok(true) => {
                    let change = EndpointChange::new(address, ChangeKind::GivenBack);
                    applied.done.push(change);
                }
                Ok(false) => {}
                Err(e) => {
                    applied.refused.get_or_insert(e);
                    left.push(taken);
                }
            }
        }
        self.before.taken = left;
        self.save()?;
        Ok(applied)
    }
}

//! Endpoints that others have set on interfaces that the user does not trust: taken away, and given back as they were.

use mp_kernel::diag::Subflow;
use mp_kernel::pm::Endpoint;
use mp_policy::path_manager::Rule;
use serde::{Deserialize, Serialize};

use super::{indispensable, ChangeKind, EndpointChange, Endpoints};
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
    /// that are trusted again. None goes that a connection of `subflows` cannot do without; those that go take their
    /// subflows out of the list. Returns what it did.
    pub fn keep_off<'a>(
        &mut self,
        settings: &PathSettings,
        interfaces: impl Iterator<Item = &'a Interface> + Clone,
        subflows: &mut Vec<Subflow>,
    ) -> Result<Vec<EndpointChange>, Error> {
        let untrusted = |name: &str| settings.rule(name) == Rule::Untrusted;
        let mut done = self.give_back(|taken| !untrusted(&taken.interface))?;
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
            self.before.taken.retain(|t| t.endpoint.address != address);
            self.before.taken.push(Taken {
                interface: on.name.clone(),
                endpoint: as_before,
            });
            // First the way back, then the change.
            self.save()?;
            self.manager.delete_endpoint(&endpoint)?;
            subflows.retain(|s| s.local.ip() != address);
            done.push(EndpointChange::new(address, ChangeKind::TakenAway));
        }
        Ok(done)
    }

    pub(super) fn give_back(
        &mut self,
        which: impl Fn(&Taken) -> bool,
    ) -> Result<Vec<EndpointChange>, Error> {
        let mut done = Vec::new();
        while let Some(at) = self.before.taken.iter().position(&which) {
            let endpoint = &self.before.taken[at].endpoint;
            if self.add_back(endpoint)? {
                done.push(EndpointChange::new(endpoint.address, ChangeKind::GivenBack));
            }
            self.before.taken.remove(at);
            self.save()?;
        }
        Ok(done)
    }
}

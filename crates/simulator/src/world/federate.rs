//! What connections know of the paths, for those that begin after them.

use mp_policy::path_manager::{Known, Manage};

use super::World;

/// What those of one path manager on one client host knew.
pub(super) struct Remembered {
    manager: &'static str,
    client: String,
    /// By the paths of the scenario.
    paths: Vec<Known>,
}

impl World<'_> {
    /// A new connection hears in its handshake what those of the same path manager have seen of its links; of other hosts
    /// only what travels.
    pub(super) fn federate(&mut self, owner: u32) {
        let connection = &self.connections[owner as usize];
        if connection.driver.manager.export_state().is_none() {
            return;
        }
        let (plan, client) = self.plan_and_client(owner);
        let mut all = vec![Known::Nothing; self.path_links.len()];
        let mut join = |path: usize, known: Known, of: &str| {
            if of == client || known.travels() {
                all[path].join(known);
            }
        };
        let manager = plan.manager.name;
        for over in self.remembered.iter().filter(|r| r.manager == manager) {
            for (path, known) in over.paths.iter().enumerate() {
                join(path, known.clone(), &over.client);
            }
        }
        for &other in &self.telling {
            let (of, client) = self.plan_and_client(other);
            if of.manager.name == manager {
                let known = self.connections[other as usize]
                    .driver
                    .manager
                    .export_state();
                for (&path, known) in of.paths.iter().zip(known.into_iter().flatten()) {
                    join(path, known, client);
                }
            }
        }
        let known: Vec<Known> = plan.paths.iter().map(|&path| all[path].clone()).collect();
        let now_us = self.net.now / 1000;
        self.connections[owner as usize]
            .driver
            .manager
            .import_state(&known, now_us);
        self.telling.push(owner);
    }

    /// The connection is over.
    pub(super) fn remember(&mut self, owner: u32) {
        let Some(at) = self.telling.iter().position(|&other| other == owner) else {
            return;
        };
        self.telling.swap_remove(at);
        let (plan, client) = self.plan_and_client(owner);
        let (manager, client) = (plan.manager.name, client.to_owned());
        let paths = plan.paths.clone();
        let known = self.connections[owner as usize]
            .driver
            .manager
            .export_state();
        let same = |r: &Remembered| r.manager == manager && r.client == client;
        let at = self.remembered.iter().position(same).unwrap_or_else(|| {
            self.remembered.push(Remembered {
                manager,
                client,
                paths: vec![Known::Nothing; self.path_links.len()],
            });
            self.remembered.len() - 1
        });
        for (path, known) in paths.into_iter().zip(known.into_iter().flatten()) {
            self.remembered[at].paths[path].join(known);
        }
    }

    fn plan_and_client(&self, connection: u32) -> (&crate::mptcp::Plan, &str) {
        let plan = self.connections[connection as usize].plan;
        (&self.plans[plan], &self.scenario.connections[plan].client)
    }
}

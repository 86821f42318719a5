//! The two hosts, what carries packets between them, and the links that die.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mp_relay::flow::Observer;
use mp_relay::Transport;
use mp_scenario::{Change, Scenario};
use nix::net::if_::if_nametoindex;
use rattan_env::netns::NetNs;
use rattan_env::set_loopback_up_with_netns;
use rtnetlink::{LinkMessageBuilder, LinkUnspec};

use super::{Carrier, SERVER};
use crate::emulator::{Emulator, Impairments};
use crate::error::Context;
use crate::network::{block_on, inside, interface, netlink, refused, Network};
use crate::plan::{Device, Group, PathManagement};
use crate::relay::{self, Pair};
use crate::run::{shortcomings, Threads};
use crate::Error;

/// More than a busy machine needs to make a relay ready. Nobody waits for it: it is skipped.
const LEAD: Duration = Duration::from_secs(600);
/// So long after the last packet a host notices that its access point is gone, and takes the link down.
pub const NOTICED: Duration = Duration::from_secs(3);

pub struct Hosts {
    emulator: Emulator,
    network: Network,
    pair: Option<Pair>,
    mptcp: bool,
}

impl Hosts {
    pub fn new(scenario: &Scenario, carrier: &Carrier, seed: u64) -> Result<Hosts, Error> {
        let mptcp = *carrier == Carrier::Mptcp;
        let group = Group {
            client: "device".into(),
            paths: (0..scenario.paths.len()).collect(),
            management: match mptcp {
                true => PathManagement::Fullmesh,
                false => PathManagement::None,
            },
            initial_path: None,
            own: None,
            device: match *carrier {
                Carrier::Relay(scheduler) => Some(Device {
                    scheduler,
                    carrier: Transport::Tcp,
                    controller: (String::new(), false),
                    policy: None,
                }),
                _ => None,
            },
        };
        let groups = [group];
        let (network, ports) = Network::new(scenario, &groups)?;
        for host in [&network.server, &network.clients[0]] {
            set_loopback_up_with_netns(host.clone()).map_err(|e| Error::Network(e.to_string()))?;
        }
        inside(&network.server, || block_on(add_address(SERVER)))?;
        let later = relay::delayed(scenario, LEAD);
        let emulator =
            Emulator::start(&later, seed, &Impairments::default(), ports, Instant::now())
                .context("cannot start the emulator")?;
        Ok(Hosts {
            emulator,
            pair: Pair::new(scenario, 0, &groups[0], None, SERVER)?,
            network,
            mptcp,
        })
    }

    pub fn device(&self) -> Arc<NetNs> {
        self.network.clients[0].clone()
    }

    pub fn serve(&self, threads: &mut Threads, seed: u64) -> Result<(), Error> {
        let stop = threads.stop.subscribe();
        let server = super::server::start(self.network.server.clone(), self.mptcp, seed, stop)?;
        threads.others.push(server);
        Ok(())
    }

    /// Returns once the relay, if there is to be one, carries the device's packets.
    pub fn carry(&self, threads: &mut Threads) -> Result<(), Error> {
        let Some(pair) = &self.pair else {
            return Ok(());
        };
        let relay = pair.start_relay(
            self.network.server.clone(),
            Arc::new(Observer::default()),
            threads.stop.subscribe(),
        )?;
        threads.others.push(relay);
        let device = pair.start_capture(self.device(), threads.stop.subscribe())?;
        threads.others.push(device);
        Ok(())
    }

    /// The scenario's time begins.
    pub fn begin(&self) -> Instant {
        self.emulator.skip_to(LEAD).unwrap_or_else(Instant::now)
    }

    pub fn finish(self) -> Result<Vec<String>, Error> {
        let report = self.emulator.finish().context("the emulator failed")?;
        Ok(shortcomings(&report))
    }
}

/// Links that the device takes down, the next one first.
pub struct Faults(
    std::vec::IntoIter<(Duration, String)>,
    Option<(Duration, String)>,
);

impl Faults {
    pub fn of(scenario: &Scenario) -> Faults {
        let gone = scenario.events.iter().filter_map(|event| {
            let path = scenario.paths.get_index_of(&event.path)?;
            let down = matches!(event.change, Change::Down);
            down.then(|| (event.at + NOTICED, interface(scenario, path)))
        });
        let mut all = gone.collect::<Vec<_>>().into_iter();
        let first = all.next();
        Faults(all, first)
    }

    /// Those that are due are taken down.
    pub fn due(&mut self, elapsed: f64, hosts: &Hosts) -> Result<(), Error> {
        while let Some((_, link)) = self.1.take_if(|(at, _)| at.as_secs_f64() <= elapsed) {
            inside(&hosts.device(), || block_on(take_down(&link)))?;
            self.1 = self.0.next();
        }
        Ok(())
    }
}

fn index(name: &str) -> Result<u32, Error> {
    if_nametoindex(name).context(format!("no interface {name}"))
}

async fn add_address(address: Ipv4Addr) -> Result<(), Error> {
    let handle = netlink()?;
    let request = handle.address().add(index("lo")?, address.into(), 32);
    request
        .execute()
        .await
        .map_err(refused("cannot add the server's address"))
}

async fn take_down(link: &str) -> Result<(), Error> {
    let message = LinkMessageBuilder::<LinkUnspec>::new()
        .index(index(link)?)
        .down()
        .build();
    let handle = netlink()?;
    let down = handle.link().set(message).execute().await;
    down.map_err(refused("cannot take a link down"))
}

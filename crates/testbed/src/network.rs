//! The hosts: a network namespace for the server and one for each group of clients, joined to the emulator's namespace by
//! a veth pair per path.
//!
//! Clients that differ in their paths or their path manager get namespaces of their own, because MPTCP endpoints belong
//! to a namespace. A path is told by the client's address: `10.1.GROUP.PATH`, and the server has one address.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use mp_kernel::pm::{Endpoint, Flags, Limits, PathManager};
use mp_scenario::{Rule, Scenario};
use rattan_env::netns::NetNs;
use rattan_env::set_loopback_up_with_netns;
use rattan_env::veth::{VethCell, VethPair, VethPairBuilder};
use rtnetlink::packet_route::route::RouteScope;
use rtnetlink::packet_route::rule::RuleAction;
use rtnetlink::{LinkMessageBuilder, LinkUnspec, RouteMessageBuilder};

use crate::emulator::{Port, Role};
use crate::error::Context;
use crate::owner::Owner;
use crate::packet::{PacketSocket, LARGEST_PACKET};
use crate::plan::{Group, PathManagement};
use crate::Error;

pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 1);
/// Where programs on a client host reach its relay device.
pub const PROXY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1080);
/// Routing tables for packets from each path's address.
const FIRST_TABLE: u32 = 100;
/// The most that the kernel allows per connection (`MPTCP_PM_ADDR_MAX`).
const MOST_SUBFLOWS: u32 = 8;

/// IP and TCP (40), timestamps (12), MPTCP data sequence signal (28).
const HEADERS: u32 = 80;

/// Dropped in this order: interfaces, then namespaces, then the claim on their names.
pub struct Network {
    _pairs: Vec<Arc<VethPair>>,
    pub server: Arc<NetNs>,
    pub clients: Vec<Arc<NetNs>>,
    _middle: Arc<NetNs>,
    _owner: Owner,
}

/// Address of a client group on a path.
pub fn address(group: usize, path: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 1, group as u8 + 1, path as u8 + 1)
}

/// The path of a client's address.
pub fn path_of(address: IpAddr) -> Option<usize> {
    match address {
        IpAddr::V4(v4) if v4.octets()[..2] == [10, 1] => usize::from(v4.octets()[3]).checked_sub(1),
        _ => None,
    }
}

impl Network {
    pub fn new(scenario: &Scenario, groups: &[Group]) -> Result<(Network, Vec<Port>), Error> {
        let mtu = scenario.mss + HEADERS;
        if mtu as usize > LARGEST_PACKET {
            let most = LARGEST_PACKET as u32 - HEADERS;
            return Err(Error::Unsupported(format!(
                "mss = {}: the kernel world has segments of up to {most}",
                scenario.mss
            )));
        }
        let owner = Owner::new()?;
        let namespace =
            |what: &str| NetNs::new(owner.name(what)).map_err(|e| Error::Network(e.to_string()));
        let middle = namespace("middle")?;
        let server = namespace("server")?;
        let clients = (0..groups.len())
            .map(|g| namespace(&format!("client{g}")))
            .collect::<Result<Vec<_>, _>>()?;

        let mut pairs = Vec::new();
        let mut roles = vec![Role::Server];
        pairs.push(join(&middle, "server", &server, "eth0", SERVER)?);
        for (g, group) in groups.iter().enumerate() {
            for &path in &group.paths {
                let address = address(g, path);
                pairs.push(join(
                    &middle,
                    &format!("c{g}-{path}"),
                    &clients[g],
                    &interface(scenario, path),
                    address,
                )?);
                roles.push(Role::Client {
                    address: address.octets(),
                    path,
                });
            }
        }

        let cells = || pairs.iter().map(|p| p.left.clone()).collect::<Vec<_>>();
        let ports = inside(&middle, || {
            block_on(async {
                let handle = netlink()?;
                for cell in cells() {
                    quiet(&handle, cell.index, mtu).await?;
                }
                Ok(())
            })?;
            cells()
                .into_iter()
                .zip(&roles)
                .map(|(cell, role)| {
                    let socket =
                        PacketSocket::open(cell.index).context("cannot open a packet socket")?;
                    let (own, peer) = (cell.mac_addr.bytes(), cell.peer().mac_addr.bytes());
                    Ok(Port {
                        socket,
                        own,
                        peer,
                        role: *role,
                    })
                })
                .collect::<Result<Vec<_>, Error>>()
        })?;

        // A relay serves them; their programs reach it, and it the server, over loopback interfaces.
        let relayed = groups.iter().any(|g| g.device.is_some());
        let devices = clients.iter().zip(groups);
        let devices = devices.filter_map(|(client, g)| g.device.is_some().then_some(client));
        for host in devices.chain(relayed.then_some(&server)) {
            set_loopback_up_with_netns(host.clone()).map_err(|e| Error::Network(e.to_string()))?;
        }
        let mut ends = pairs.iter().map(|p| p.right.clone());
        let end = ends.next().expect("the server's interface is the first");
        inside(&server, || {
            settings(scenario, false)?;
            block_on(configure_server(&end, mtu))?;
            // A relay over TCP works without MPTCP in the kernel.
            let over_tcp = |g: &Group| g.management == PathManagement::None;
            if relayed && groups.iter().all(over_tcp) {
                return Ok(());
            }
            PathManager::new()?
                .set_limits(Limits {
                    subflows: MOST_SUBFLOWS,
                    add_addr_accepted: 0,
                })
                .map_err(Error::from)
        })?;
        for (g, group) in groups.iter().enumerate() {
            let ends: Vec<_> = ends.by_ref().take(group.paths.len()).collect();
            inside(&clients[g], || {
                settings(scenario, group.management == PathManagement::Userspace)?;
                block_on(configure_client(&ends, mtu))?;
                endpoints(scenario, g, group)
            })?;
        }
        Ok((
            Network {
                _pairs: pairs,
                server,
                clients,
                _middle: middle,
                _owner: owner,
            },
            ports,
        ))
    }
}

/// Runs `work` on a thread inside the namespace; the caller's thread stays where it is.
pub fn inside<T: Send>(
    namespace: &Arc<NetNs>,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            namespace
                .enter()
                .map_err(|e| Error::Network(e.to_string()))?;
            work()
        });
        thread
            .join()
            .unwrap_or_else(|_| Err(Error::Network("a set-up thread panicked".into())))
    })
}

/// A name that a program in the namespace can use: the path's own, as far as the kernel takes it (IFNAMSIZ).
pub fn interface(scenario: &Scenario, path: usize) -> String {
    let (name, _) = scenario
        .paths
        .get_index(path)
        .expect("a group's paths are the scenario's");
    let taken = ["lo", "all", "default"].contains(&name.as_str());
    let plain = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    match plain && !taken && name.len() < 16 {
        true => name.clone(),
        // No path's name has a dot.
        false => format!("path.{path}"),
    }
}

fn join(
    middle: &Arc<NetNs>,
    own: &str,
    host: &Arc<NetNs>,
    name: &str,
    address: Ipv4Addr,
) -> Result<Arc<VethPair>, Error> {
    let [_, b, c, d] = address.octets();
    // Locally administered; the last bytes are the address, so that a capture reads easily.
    let mac = |side: u8| [0x02, 0x6d, side, b, c, d].into();
    let build = || {
        VethPairBuilder::new()
            .name(format!("m-{own}"), name.into())
            .namespace(Some(middle.clone()), Some(host.clone()))
            .mac_addr(mac(1), mac(2))
            .ip_addr(
                (Ipv4Addr::new(10, 200 + b, c, d).into(), 32),
                (address.into(), 32),
            )
            .build(0)
            .map_err(|e| Error::Network(e.to_string()))
    };
    // Both ends are made where the thread is: in the middle, where no name of the host's can be in the way.
    inside(middle, build)
}

pub fn block_on<T>(work: impl std::future::Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    runtime.block_on(work)
}

pub fn netlink() -> Result<rtnetlink::Handle, Error> {
    let (connection, handle, _) =
        rtnetlink::new_connection().context("cannot open a netlink socket")?;
    tokio::spawn(connection);
    Ok(handle)
}

pub fn refused(what: &str) -> impl Fn(rtnetlink::Error) -> Error + '_ {
    move |e| Error::Network(format!("{what}: {e}"))
}

/// No neighbour resolution: the emulator addresses every frame itself.
async fn quiet(handle: &rtnetlink::Handle, index: u32, mtu: u32) -> Result<(), Error> {
    let message = LinkMessageBuilder::<LinkUnspec>::new()
        .index(index)
        .arp(false)
        .mtu(mtu)
        .up()
        .build();
    handle
        .link()
        .set(message)
        .execute()
        .await
        .map_err(refused("cannot configure an interface"))
}

async fn configure_server(end: &VethCell, mtu: u32) -> Result<(), Error> {
    let handle = netlink()?;
    quiet(&handle, end.index, mtu).await?;
    let route = RouteMessageBuilder::<Ipv4Addr>::new()
        .destination_prefix(Ipv4Addr::new(10, 1, 0, 0), 16)
        .output_interface(end.index)
        .scope(RouteScope::Link)
        .pref_source(SERVER)
        .build();
    handle
        .route()
        .add(route)
        .execute()
        .await
        .map_err(refused("cannot add the server's route"))
}

async fn configure_client(ends: &[Arc<VethCell>], mtu: u32) -> Result<(), Error> {
    let handle = netlink()?;
    for (i, end) in ends.iter().enumerate() {
        quiet(&handle, end.index, mtu).await?;
        let IpAddr::V4(own) = end.ip_addr.0 else {
            continue;
        };
        let route = || {
            RouteMessageBuilder::<Ipv4Addr>::new()
                .destination_prefix(Ipv4Addr::UNSPECIFIED, 0)
                .output_interface(end.index)
                .scope(RouteScope::Link)
                .pref_source(own)
        };
        let table = FIRST_TABLE + i as u32;
        // In the main table the first path is preferred: for programs that bind no address.
        for route in [
            route().table_id(table).build(),
            route().priority(i as u32 + 1).build(),
        ] {
            handle
                .route()
                .add(route)
                .execute()
                .await
                .map_err(refused("cannot add a client's route"))?;
        }
        handle
            .rule()
            .add()
            .v4()
            .source_prefix(own, 32)
            .table_id(table)
            .action(RuleAction::ToTable)
            .execute()
            .await
            .map_err(refused("cannot add a client's routing rule"))?;
    }
    Ok(())
}

fn endpoints(scenario: &Scenario, g: usize, group: &Group) -> Result<(), Error> {
    let flags = match group.management {
        PathManagement::Fullmesh => Flags {
            fullmesh: true,
            ..Flags::SUBFLOW
        },
        // As the daemon's own: with `fullmesh`, the kernel opens none in place of a connection's first subflow.
        PathManagement::Backup | PathManagement::Aware(..) => Flags::SUBFLOW,
        PathManagement::None | PathManagement::Userspace => return Ok(()),
    };
    let manager = PathManager::new()?;
    manager.set_limits(Limits {
        subflows: MOST_SUBFLOWS,
        add_addr_accepted: 0,
    })?;
    for (i, &path) in group.paths.iter().enumerate() {
        // What the user says of it holds from the first packet on.
        let rule = match group.management {
            PathManagement::Aware(..) => scenario.paths[path].rule,
            _ => Rule::None,
        };
        if rule == Rule::Untrusted {
            continue;
        }
        let backup = group.management == PathManagement::Backup && i > 0;
        let backup = backup || rule == Rule::Metered;
        manager.add_endpoint(&Endpoint::new(
            address(g, path).into(),
            Flags { backup, ..flags },
        ))?;
    }
    Ok(())
}

/// Settings of the namespace that the calling thread is in.
fn settings(scenario: &Scenario, userspace_path_manager: bool) -> Result<(), Error> {
    let buffers = &scenario.buffers;
    // Fixed buffers: minimum, default and maximum are one value.
    let three = |value: u64, default: u64| match buffers.autotune {
        true => format!("4096 {} {value}", default.min(value)),
        false => format!("{value} {value} {value}"),
    };
    let set = |key: &str, value: &str| {
        write_sysctl(key, value).context(format!("cannot set {key} to {value}"))
    };
    set("net.ipv4.tcp_rmem", &three(buffers.receive, 131_072))?;
    set("net.ipv4.tcp_wmem", &three(buffers.send, 16_384))?;
    set(
        "net.ipv4.tcp_moderate_rcvbuf",
        if buffers.autotune { "1" } else { "0" },
    )?;
    // No run may learn from the one before.
    set("net.ipv4.tcp_no_metrics_save", "1")?;
    set("net.ipv4.tcp_congestion_control", "reno")?;
    // Strict reverse-path filtering drops what comes back on a second path.
    set("net.ipv4.conf.all.rp_filter", "0")?;
    set("net.ipv4.conf.default.rp_filter", "0")?;
    let marks = scenario
        .paths
        .values()
        .chain(scenario.links.values())
        .any(|p| p.down.queue.ecn || p.up.queue.ecn);
    set("net.ipv4.tcp_ecn", if marks { "1" } else { "2" })?;
    // What lingers after a run dies with it.
    set("net.ipv4.tcp_fin_timeout", "1")?;
    set("net.ipv4.tcp_orphan_retries", "1")?;
    // The relay works on kernels without it.
    if fs::exists("/proc/sys/net/mptcp").unwrap_or(false) {
        set("net.mptcp.enabled", "1")?;
    }
    if userspace_path_manager {
        // Linux 6.15 gave it a name; before, it has a number.
        set("net.mptcp.path_manager", "userspace").or_else(|_| set("net.mptcp.pm_type", "1"))?;
    }
    Ok(())
}

fn write_sysctl(key: &str, value: &str) -> io::Result<()> {
    fs::write(format!("/proc/sys/{}", key.replace('.', "/")), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_whose_names_are_too_long_for_interfaces_get_names_that_no_other_has() {
        let path = |name: &str| format!("[paths.{name}]\nrate = '1Mbit'\ndelay = '1ms'\n");
        let text = path("path1") + &path("a-name-of-more-than-15");
        let scenario = crate::scenario(&text);
        let names = [0, 1].map(|path| interface(&scenario, path));
        assert_eq!(names, ["path1", "path.1"]);
    }
}

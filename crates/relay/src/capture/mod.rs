//! Every TCP connection, UDP flow and ping that programs of this host open to the outside, taken from a TUN and handed to the
//! device's end.
//!
//! [`translate`] decides and has neither I/O nor a clock, [`packet`] rewrites headers of TCP, [`udp`] and [`icmp`] read and
//! make packets, [`fragments`] joins them, `routes` are the rules that lead them into the TUN, `netlink` sets them, `follow` takes
//! care that they stand while the relay answers (`reach`), `bypass` are programs that stay direct, `resolved` is told whom to ask.

pub mod fragments;
pub mod icmp;
pub mod packet;
pub mod translate;
pub mod udp;

mod addresses;
mod answer;
mod busiest;
mod bypass;
mod firewall;
mod follow;
mod netlink;
mod out;
mod plan;
mod reach;
mod resolved;
mod resolvers;
mod routes;
mod transparent;
mod tun;
mod unserved;

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mp_kernel::interfaces::{self, Interface};
use mp_kernel::transparent::Transparent;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::{watch, Notify};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::datagram::device::{self as datagram, Lane};
use crate::device::{Device, LinkReport};
use crate::egress::Prefix;
use crate::links::TUN;
use crate::socket::raise_descriptors;
use crate::{is_captured, Error};

pub use busiest::{FlowReport, PathShare};
use bypass::Cgroups;
pub use bypass::{Cgroup, Refused, User};
use follow::Follow;
use netlink::Netlink;
use out::Out;
use plan::Plan;
use resolved::Resolved;
use routes::Caught;
pub use routes::MARK;
use translate::Translator;
use tun::{Counts, Shared};
use unserved::unserved;

/// Private (RFC 1918, RFC 4193), shared (RFC 6598), link-local, multicast and broadcast addresses, which a relay elsewhere
/// does not reach.
pub const DIRECT: [&str; 10] = [
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "169.254.0.0/16",
    "fc00::/7",
    "fe80::/10",
    "224.0.0.0/4",
    "255.255.255.255/32",
    "ff00::/8",
];
/// To be said where [`Capture::restored`] has changed.
pub const RESTORED: &str =
    "another program removed rules or routes of the relay: they are set again";
/// For applications that ask again whether their connection is really over.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// For the first path of the datagram lane, before the streams begin without it.
const LANE_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Beside [`DIRECT`] and the relay itself.
    pub direct: Vec<Prefix>,
    /// Whose programs stay direct.
    pub direct_users: Vec<User>,
    /// Programs in them stay direct.
    pub direct_cgroups: Vec<Cgroup>,
    /// Whether all stays cut off when this process dies without its last words, and while the relay is out of reach.
    pub block: bool,
    /// With it: all is cut off also where it cannot be started. Else it stays as it was.
    pub insists: bool,
    /// Resolvers in private ranges are asked themselves, and not the relay's in their place.
    pub direct_dns: bool,
    /// Interfaces whose hosts are served too: this one is their router.
    pub lans: Vec<String>,
}

/// What `status` says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// HOST:PORT
    pub relay: String,
    /// Of the host, as they are used now.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    pub scheduler: String,
    pub uptime_s: f64,
    /// `direct` or `block`
    pub leak: String,
    /// Open now.
    pub flows: u64,
    /// So far.
    pub opened: u64,
    /// Of them: those that the relay did not connect.
    pub refused: u64,
    pub links: Vec<LinkReport>,
    /// Why a connection to the relay could not be made last.
    pub failure: Option<String>,
    /// Protocols that go out directly.
    pub not_captured: Vec<String>,
    /// Of [`Settings::direct_cgroups`]: those that do not exist.
    pub absent_cgroups: Vec<String>,
    /// Of the same: those whose programs go to the relay all the same, because their sockets cannot be marked.
    pub refused_cgroups: Vec<Refused>,
    /// Interfaces whose hosts, as containers are, this host forwards for directly.
    #[serde(default)]
    pub unserved: Vec<String>,
    /// Resolvers that the relay answers for.
    pub resolvers: Vec<IpAddr>,
    /// Those that carry most, at most 20.
    pub busiest_flows: Vec<FlowReport>,
    /// UDP and ICMP.
    pub datagrams: datagram::Report,
}

/// Dropping it leaves rules behind, which lead nowhere; [`Capture::stop`] does not.
pub struct Capture {
    shared: Arc<Shared>,
    netlink: Netlink,
    tasks: JoinSet<()>,
    gone: watch::Receiver<()>,
    block: bool,
    lans: Vec<String>,
    index: u32,
    following: Option<JoinHandle<()>>,
    shortcut: Option<Transparent>,
    /// Why all connections are translated: there is no shortcut.
    translates: Option<String>,
    bypassed: Cgroups,
    restored: Arc<AtomicU64>,
}

/// Takes back what a process that was killed has left. Whether there was anything.
pub async fn clear() -> Result<bool, Error> {
    netlink::clear(&Netlink::open()?.handle).await
}

/// Whether a process that has ended has left connections cut off.
pub async fn is_blocked() -> bool {
    let Ok(netlink) = Netlink::open() else {
        return false;
    };
    !is_captured() && netlink::blocks(&netlink.handle).await
}

/// With [`Settings::block`], before it is known whether the relay answers: nothing goes anywhere but to these addresses of it
/// until [`Capture::start`], or until [`clear`].
pub async fn block(relay: &[IpAddr], settings: &Settings) -> Result<(), Error> {
    if is_captured() {
        // Another process's, whose rules these would be among.
        return Ok(());
    }
    let barrier = plan::block(relay, settings, &here()?)?;
    let set = netlink::set(&Netlink::open()?.handle, &barrier).await;
    set.map(drop)
}

fn here() -> Result<Vec<Interface>, Error> {
    interfaces::all().map_err(|e| Error::Failed(e.to_string()))
}

impl Capture {
    /// From now on new connections go to the device's relay.
    pub async fn start(device: Arc<Device>, settings: &Settings) -> Result<Capture, Error> {
        let here = here()?;
        let own = |ip: &IpAddr| ip.is_loopback() || here.iter().any(|i| i.addresses.contains(ip));
        if device.relay().iter().any(own) {
            return Err(Error::Usage("the relay is on this host: its own connections would come back to it; use run --relay LINE -- COMMAND".into()));
        }
        raise_descriptors();
        let file = match mp_kernel::tun::open(TUN) {
            // Another process's, whose rules stay.
            Err(e) if is_captured() => return Err(e.into()),
            file => file.map_err(Error::from),
        };
        let absent = |lan: &&String| nix::net::if_::if_nametoindex(lan.as_str()).is_err();
        let file = match settings.lans.iter().find(absent) {
            Some(lan) => Err(Error::Usage(format!(
                "--lan {lan}: there is no such interface"
            ))),
            None => file,
        };
        let plan = Plan::of(device, settings, &here)?;
        let netlink = Netlink::open()?;
        let handle = netlink.handle.clone();
        let stays = settings.block && settings.insists || netlink::blocks(&handle).await;
        let first = match settings.block {
            true => {
                let kept = netlink::resolvers(&handle).await;
                plan.catch.wanted(true, true, &kept)
            }
            false => Caught::default(),
        };
        let barrier = plan.barrier(&first);
        let stood = netlink::set(&handle, &barrier).await;
        let started = match stood.and(file) {
            Ok(file) => Self::begin(settings, file, netlink, plan, first).await,
            Err(e) => Err(e),
        };
        if started.is_err() {
            let handle = Netlink::open()?;
            match (stays, settings.block) {
                (true, true) => netlink::clear_but(&handle.handle, &barrier).await?,
                // Of a process before this one.
                (true, false) => false,
                (false, _) => netlink::clear(&handle.handle).await?,
            };
        }
        started
    }

    async fn begin(
        settings: &Settings,
        file: File,
        netlink: Netlink,
        plan: Plan,
        first: Caught,
    ) -> Result<Capture, Error> {
        let Plan {
            ends,
            catch,
            mut standing,
            relay,
        } = plan;
        let device = catch.device.clone();
        let bypassed = Cgroups::watch(&settings.direct_cgroups);
        let index = nix::net::if_::if_nametoindex(TUN).map_err(|e| Error::failed(TUN, e))?;
        netlink::furnish(&netlink.handle, index, &ends).await?;
        let shortcut = transparent::start(&netlink.handle, index, &ends).await;
        let mut listeners = Vec::new();
        for ends in &ends {
            listeners.push(addresses::listen(ends.host)?);
        }
        let local = |l: &TcpListener| l.local_addr().map_err(|e| Error::failed("listener", e));
        let translated: Result<Vec<translate::Ends>, Error> = ends
            .iter()
            .zip(&listeners)
            .map(|(ends, listener)| {
                Ok(translate::Ends {
                    listener: local(listener)?,
                    peer: ends.peer,
                    transparent: shortcut.is_ok().then_some(ends.host),
                })
            })
            .collect();
        let (shortcut, translates) = match shortcut {
            Ok(shortcut) => {
                standing.extend(routes::local(index, &ends)?);
                listeners.extend(shortcut.listeners);
                (Some(shortcut.programs), None)
            }
            Err(e) => (None, Some(e.to_string())),
        };
        standing.extend(routes::ways(index, &ends)?);
        let mut tasks = JoinSet::new();
        let out = Arc::new(Out {
            tun: file,
            peers: ends.iter().map(|ends| ends.peer).collect(),
        });
        let translated = translated?;
        if let Some(v4) = translated.iter().find(|ends| ends.peer.is_ipv4()) {
            firewall::check(&out, v4.peer, v4.listener).await?;
        }
        let reading = out.read().map_err(|e| Error::failed(TUN, e))?;
        let lane = Lane::start(device.datagrams(), out.clone(), &mut tasks);
        let (caught, is_caught) = watch::channel(first);
        let (reach, reached) = watch::channel(true);
        let doubts = Arc::new(Notify::new());
        let shared = Arc::new(Shared {
            device: device.clone(),
            out,
            last: reading.as_raw_fd(),
            lane: lane.clone(),
            runtime: runtime::Handle::current(),
            translator: Mutex::new(Translator::new(translated)),
            fragments: Mutex::default(),
            waiting: Mutex::default(),
            counts: Counts::default(),
            started: Instant::now(),
            caught: is_caught,
            doubts: doubts.clone(),
            over: watch::channel(false).0,
        });
        let (alive, gone) = watch::channel(());
        tasks.spawn(tun::pump(shared.clone(), reading, alive));
        tasks.spawn(tun::expire(shared.clone()));
        for listener in listeners {
            tasks.spawn(tun::accept(shared.clone(), listener));
        }
        let mut capture = Capture {
            shared,
            netlink,
            tasks,
            gone,
            block: settings.block,
            lans: settings.lans.clone(),
            index,
            following: None,
            shortcut,
            translates,
            bypassed: bypassed.clone(),
            restored: Arc::default(),
        };
        let handle = capture.netlink.handle.clone();
        let mut follow = Follow {
            handle: handle.clone(),
            index,
            ends: ends.clone(),
            resolved: catch
                .private
                .as_ref()
                .and(ends.first())
                .map(|ends| Resolved::watch(index, ends.peer)),
            catch,
            lane: lane.up(),
            reach: reached,
            caught,
            bypassed,
            standing,
            relay,
            place: device.place(),
            surplus: Vec::new(),
            restored: capture.restored.clone(),
        };
        let led = async {
            netlink::set(&handle, &follow.all()).await?;
            follow.update().await?;
            let mut up = lane.up();
            let _ = timeout(LANE_PATIENCE, up.wait_for(|up| *up)).await;
            follow.update().await?;
            // What is of a process before this one, whose block has stood until now, goes.
            follow.alone().await
        };
        if let Err(e) = led.await {
            let _ = capture.end(false).await;
            return Err(e);
        }
        capture
            .tasks
            .spawn(reach::follow(device, lane, doubts, reach));
        capture.following = Some(tokio::spawn(follow.run()));
        Ok(capture)
    }

    /// Connections are reset; new ones go out directly again.
    pub async fn stop(self) -> Result<(), Error> {
        self.end(true).await
    }

    /// As [`Capture::stop`], but with [`Settings::block`] new connections stay cut off.
    pub async fn leave(self) -> Result<(), Error> {
        let clear = !self.block;
        self.end(clear).await
    }

    async fn end(mut self, clear: bool) -> Result<(), Error> {
        if let Some(following) = self.following.take() {
            following.abort();
            let _ = following.await;
        }
        let resets = self.shared.translator().end();
        let last_words = !resets.is_empty();
        for packet in resets {
            self.shared.out.write(Some(packet));
        }
        self.shared.over.send_replace(true);
        let ended = async {
            while self.flows().0 > 0 {
                sleep(LAST_WORDS / 20).await;
            }
        };
        let _ = timeout(LAST_WORDS, ended).await;
        if last_words {
            sleep(LAST_WORDS).await;
        }
        drop(self.shortcut.take());
        let cleared = match clear {
            true => netlink::clear(&self.netlink.handle).await,
            false => Ok(false),
        };
        // Flows that have yet to end hold the file; the interface is not to wait for them.
        let removed = netlink::remove_link(&self.netlink.handle, self.index).await;
        self.tasks.shutdown().await;
        self.gone().await;
        cleared?;
        removed
    }

    /// Until somebody has removed the interface.
    pub async fn gone(&self) {
        let _ = self.gone.clone().wait_for(|()| false).await;
    }

    pub fn links(&self) -> Vec<LinkReport> {
        self.shared.links()
    }

    /// Cgroups whose programs were to stay direct and do not.
    pub fn refused_cgroups(&self) -> Vec<Refused> {
        self.bypassed.refused()
    }

    /// How often another program had removed rules or routes, which were set again.
    pub fn restored(&self) -> u64 {
        self.restored.load(Ordering::Relaxed)
    }

    /// Why packets of connections all go through the TUN, where they do.
    pub fn translates(&self) -> Option<&str> {
        self.translates.as_deref()
    }

    /// Open now, and so far.
    fn flows(&self) -> (u64, u64) {
        let counts = &self.shared.counts;
        // The other way round a flow might be counted as closed alone.
        let closed = counts.closed.load(Ordering::Relaxed);
        let opened = counts.opened.load(Ordering::Relaxed);
        (opened - closed, opened)
    }

    pub fn report(&self) -> Report {
        let device = &self.shared.device;
        let (flows, opened) = self.flows();
        let settings = device.settings();
        let mut datagrams = self.shared.lane.report();
        // Over UDP the relay does not answer a device that it does not know.
        if datagrams.paths.is_empty() && device.is_refused() {
            datagrams.failure = device.last_failure();
        }
        Report {
            relay: format!("{}:{}", settings.line.host, settings.line.port),
            addresses: device.relay(),
            scheduler: settings.scheduler.name.to_owned(),
            uptime_s: self.shared.started.elapsed().as_secs_f64(),
            leak: if self.block { "block" } else { "direct" }.to_owned(),
            flows,
            opened,
            refused: self.shared.counts.refused.load(Ordering::Relaxed),
            links: self.links(),
            failure: device.last_failure(),
            not_captured: {
                let caught = self.shared.caught.borrow();
                let datagrams = (!caught.datagrams).then_some(["UDP", "ICMP"]);
                let tcp = (!caught.tcp).then_some("TCP");
                let all = tcp.into_iter().chain(datagrams.into_iter().flatten());
                all.map(str::to_owned).collect()
            },
            absent_cgroups: self.bypassed.absent(),
            refused_cgroups: self.bypassed.refused(),
            unserved: unserved(&self.lans, &device.links()),
            resolvers: self.shared.caught.borrow().resolvers.clone(),
            busiest_flows: busiest::flows(device, &self.shared.lane),
            datagrams,
        }
    }
}

//! The links of the device: interfaces that are up and lead out, followed as they change.

use std::fmt;
use std::future::pending;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use mp_kernel::interfaces::{self, Interface};
use mp_policy::link::Priority;
use mp_policy::MAX_SUBFLOWS;
use rtnetlink::MulticastGroup;
use tokio::sync::watch;

use crate::Error;

/// How often the interfaces are listed where the kernel does not tell of changes.
const POLL: Duration = Duration::from_secs(2);
/// The interface of [`crate::capture`]. It is never a link, because its routes lead back to us. The daemon leaves it alone.
pub const TUN: &str = "tun-multipilot";

/// One that is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub name: String,
    /// The interface that sockets are bound to; none where the routes decide.
    pub device: Option<String>,
    pub addresses: Vec<IpAddr>,
    pub priority: Priority,
}

type Rule = dyn Fn(&str) -> Option<Priority> + Send + Sync;

/// What the user says of a link of this name; `None`: it is not used.
#[derive(Clone)]
pub struct Rules(Arc<Rule>);

impl Rules {
    pub fn new(rules: impl Fn(&str) -> Option<Priority> + Send + Sync + 'static) -> Rules {
        Rules(Arc::new(rules))
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rules")
    }
}

/// Whether the addresses are of one family.
/// What is to be said where the kernel drops what comes in by one link while its route to the sender leads over another
/// (RFC 3704, strict). Path connections go by their own routes, and the answers' source is looked for without these.
pub fn filtered(links: &[&str]) -> Option<String> {
    let filter = |of: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{of}/rp_filter"));
        text.map_or(0, |text| text.trim().parse::<u8>().unwrap_or(0))
    };
    let all = filter("all");
    let strict: Vec<&str> = (links.iter().copied())
        .filter(|link| filter(link).max(all) == 1)
        .collect();
    (links.len() > 1 && !strict.is_empty()).then(|| {
        let strict = strict.join(", ");
        format!("the kernel filters by reverse paths on {strict}, and drops the relay's answers over a link that is not the default route's: sysctl -w net.ipv4.conf.all.rp_filter=2")
    })
}

pub fn same_family(a: IpAddr, b: IpAddr) -> bool {
    a.is_ipv4() == b.is_ipv4()
}

/// Of the same family.
pub fn unspecified(as_of: IpAddr) -> IpAddr {
    match as_of {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

impl Link {
    /// Its address of the same family.
    pub fn source(&self, as_of: IpAddr) -> Option<IpAddr> {
        self.addresses
            .iter()
            .copied()
            .find(|a| same_family(*a, as_of))
    }

    /// Of the relay's addresses those of which it has the family.
    pub fn reachable<'a>(
        &'a self,
        relay: &'a [SocketAddr],
    ) -> impl Iterator<Item = SocketAddr> + Clone + 'a {
        let has = |relay: &SocketAddr| self.device.is_none() || self.source(relay.ip()).is_some();
        relay.iter().copied().filter(has)
    }

    /// The one of them whose turn it is.
    pub fn reaches(&self, relay: &[SocketAddr], turn: usize) -> io::Result<SocketAddr> {
        let reachable = self.reachable(relay);
        let count = reachable.clone().count();
        let found = reachable.cycle().nth(turn % count.max(1));
        found.ok_or_else(|| io::Error::other("the link has no address of the relay's family"))
    }

    /// No interface by itself: the routes decide.
    fn by_routes(name: &str) -> Link {
        Link {
            name: name.into(),
            device: None,
            addresses: Vec::new(),
            priority: Priority::Normal,
        }
    }

    fn of(interface: Interface) -> Link {
        Link {
            device: Some(interface.name.clone()),
            name: interface.name,
            addresses: interface.addresses,
            priority: Priority::Normal,
        }
    }
}

/// Whether connections of before go on: no address that they may have has gone. One more does nothing to them, and IPv6 has
/// another temporary one every day.
pub fn carry_on(before: Option<&Link>, now: Option<&Link>) -> bool {
    let (Some(before), Some(now)) = (before, now) else {
        return before.is_none() && now.is_none();
    };
    let stays = |address| now.addresses.contains(address);
    (&before.name, &before.device) == (&now.name, &now.device) && before.addresses.iter().all(stays)
}

/// Whether what could not connect before would fail in the same way: the link is as it was, but for its priority.
pub fn is_as_before(before: Option<&Link>, now: Option<&Link>) -> bool {
    carry_on(before, now) && carry_on(now, before)
}

/// By slot. A link keeps its slot while it is up, and while it is down until another needs the slot.
pub type Links = [Option<Link>; MAX_SUBFLOWS];

/// Which interfaces are used.
#[derive(Debug, Clone)]
pub enum Choose {
    /// Those with a default route.
    LeadingOut,
    Named(Vec<String>),
    /// No interface by itself: one path, as the routes say (a relay on this host).
    Routes,
}

/// Which link has which slot. Names come and go without end (docks, tethering), slots do not.
#[derive(Default)]
struct Slots {
    owners: [Option<Owner>; MAX_SUBFLOWS],
    /// Lists so far.
    turn: u64,
}

struct Owner {
    name: String,
    /// The last list that it was in.
    last: u64,
}

impl Slots {
    /// The next list.
    fn place(&mut self, wanted: Vec<Link>) -> Links {
        self.turn += 1;
        let mut links = Links::default();
        let mut new = Vec::new();
        // First those that have a slot: no other gets it.
        for link in wanted {
            let own = |owner: &Option<Owner>| owner.as_ref().is_some_and(|o| o.name == link.name);
            match self.owners.iter().position(own) {
                Some(slot) => self.give(slot, link, &mut links),
                None => new.push(link),
            }
        }
        for link in new {
            // More links than a connection has paths: the first ones are used.
            let Some(slot) = self.free() else { break };
            self.give(slot, link, &mut links);
        }
        links
    }

    /// One that nobody has had, or else that of the link that has been down longest.
    fn free(&self) -> Option<usize> {
        let last = |slot: &usize| self.owners[*slot].as_ref().map_or(0, |owner| owner.last);
        (0..MAX_SUBFLOWS)
            .filter(|slot| last(slot) < self.turn)
            .min_by_key(last)
    }

    fn give(&mut self, slot: usize, link: Link, links: &mut Links) {
        self.owners[slot] = Some(Owner {
            name: link.name.clone(),
            last: self.turn,
        });
        links[slot] = Some(link);
    }
}

struct Table {
    choose: Choose,
    rules: Option<watch::Receiver<Rules>>,
    slots: Slots,
}

impl Table {
    fn now(&mut self) -> Result<Links, Error> {
        let mut wanted: Vec<Link> = match &self.choose {
            Choose::Routes => {
                let mut links = Links::default();
                links[0] = Some(Link::by_routes("lo"));
                return Ok(links);
            }
            Choose::LeadingOut => all()?.filter(Interface::leads_out).map(Link::of).collect(),
            Choose::Named(names) => all()?
                .filter(|i| names.contains(&i.name))
                .map(Link::of)
                .collect(),
        };
        let rules = self.rules.as_mut().map(|r| r.borrow_and_update().clone());
        if let Some(rules) = rules {
            wanted.retain_mut(|link| {
                let priority = (rules.0)(&link.name);
                link.priority = priority.unwrap_or(link.priority);
                priority.is_some()
            });
        }
        Ok(self.slots.place(wanted))
    }

    /// Until the rules change.
    async fn changed(&mut self) {
        if let Some(rules) = &mut self.rules {
            if rules.changed().await.is_ok() {
                return;
            }
        }
        pending().await
    }
}

fn all() -> Result<impl Iterator<Item = Interface>, Error> {
    let all = interfaces::all().map_err(|e| Error::Failed(e.to_string()))?;
    Ok(all.into_iter().filter(|i| i.name != TUN))
}

/// The one path that MPTCP connections are to the streams; it never changes.
pub fn mptcp() -> watch::Receiver<Links> {
    let mut links = Links::default();
    links[0] = Some(Link::by_routes("mptcp"));
    watch::channel(links).1
}

/// The links from now on. The task ends with the last receiver.
pub fn watch(
    choose: Choose,
    rules: Option<watch::Receiver<Rules>>,
) -> Result<watch::Receiver<Links>, Error> {
    let mut table = Table {
        choose,
        rules,
        slots: Slots::default(),
    };
    let (sender, receiver) = watch::channel(table.now()?);
    if !matches!(table.choose, Choose::Routes) {
        tokio::spawn(follow(table, sender));
    }
    Ok(receiver)
}

async fn follow(mut table: Table, links: watch::Sender<Links>) {
    // Interface, address and default route: each may come last.
    let groups = [
        MulticastGroup::Link,
        MulticastGroup::Ipv4Ifaddr,
        MulticastGroup::Ipv6Ifaddr,
        MulticastGroup::Ipv4Route,
        MulticastGroup::Ipv6Route,
    ];
    let Ok((connection, _handle, mut messages)) = rtnetlink::new_multicast_connection(&groups)
    else {
        return poll(table, links).await;
    };
    let listening = tokio::spawn(connection);
    loop {
        // A list that was made before the first message could be heard is made again soon.
        if let Ok(now) = table.now() {
            links.send_if_modified(|known| std::mem::replace(known, now.clone()) != now);
        }
        tokio::select! {
            message = messages.next() => if message.is_none() { break },
            () = tokio::time::sleep(POLL) => {}
            () = table.changed() => {}
            () = links.closed() => break,
        }
    }
    listening.abort();
    if !links.is_closed() {
        poll(table, links).await;
    }
}

async fn poll(mut table: Table, links: watch::Sender<Links>) {
    while !links.is_closed() {
        if let Ok(now) = table.now() {
            links.send_if_modified(|known| std::mem::replace(known, now.clone()) != now);
        }
        tokio::time::sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str, addresses: &[&str]) -> Link {
        Link {
            name: name.into(),
            device: Some(name.into()),
            addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
            priority: Priority::Normal,
        }
    }

    /// The names by slot.
    fn place(slots: &mut Slots, names: &[&str]) -> Vec<(usize, String)> {
        let links = slots.place(names.iter().map(|name| link(name, &[])).collect());
        let up = links.into_iter().enumerate();
        up.filter_map(|(slot, link)| Some((slot, link?.name)))
            .collect()
    }

    #[test]
    fn the_ninth_name_gets_the_slot_that_has_been_free_longest() {
        let mut slots = Slots::default();
        for number in 0..MAX_SUBFLOWS {
            let name = format!("dock{number}");
            assert_eq!(place(&mut slots, &[&name]), [(number, name)]);
        }
        // The first is up again: the second has been down longest.
        assert_eq!(place(&mut slots, &["dock0"]), [(0, "dock0".into())]);
        assert_eq!(place(&mut slots, &[]), []);
        assert_eq!(place(&mut slots, &["dock8"]), [(1, "dock8".into())]);
        // The one whose slot that was comes like any other.
        let both = [(1, "dock8".into()), (2, "dock1".into())];
        assert_eq!(place(&mut slots, &["dock1", "dock8"]), both);
    }

    #[test]
    fn a_link_that_is_up_keeps_its_slot() {
        let mut slots = Slots::default();
        place(&mut slots, &["lte", "wifi"]);
        for number in 0..3 * MAX_SUBFLOWS {
            let dock = format!("dock{number}");
            let up = place(&mut slots, &[&dock, "wifi"]);
            assert!(up.contains(&(1, "wifi".into())), "{up:?}");
            assert_eq!(up.len(), 2, "{up:?}");
        }
        // More than there are slots: those that have one keep it, and one that is not used gets the next that is free.
        let mut slots = Slots::default();
        let names: Vec<String> = (0..=MAX_SUBFLOWS).map(|n| format!("eth{n}")).collect();
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        let before = place(&mut slots, &names);
        assert_eq!(before.len(), MAX_SUBFLOWS);
        names.reverse();
        assert_eq!(place(&mut slots, &names), before);
        names.retain(|name| *name != "eth3");
        assert!(place(&mut slots, &names).contains(&(3, "eth8".into())));
    }

    #[test]
    fn connections_go_on_while_no_address_goes() {
        let before = link("wifi", &["10.0.0.1", "2001:db8::1"]);
        let more = link("wifi", &["2001:db8::2", "10.0.0.1", "2001:db8::1"]);
        assert!(carry_on(Some(&before), Some(&more)));
        assert!(!carry_on(Some(&more), Some(&before)));
        assert!(!is_as_before(Some(&before), Some(&more)));
        let backup = Link {
            priority: Priority::Backup,
            ..before.clone()
        };
        assert!(is_as_before(Some(&before), Some(&backup)));
        let other = link("lte", &["10.0.0.1", "2001:db8::1"]);
        assert!(!carry_on(Some(&before), Some(&other)));
        assert!(!carry_on(Some(&before), None));
        assert!(!carry_on(None, Some(&before)));
        assert!(carry_on(None, None));
    }
}

//! The relay's addresses, which may change while flows go on. Those of a name are remembered, because with `leak = "block"` the
//! host's resolver may be out of reach until the relay is connected.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mp_policy::path_manager::Backoff;
use tokio::net::lookup_host;
use tokio::sync::watch;
use tokio::time::{sleep, timeout, Instant};

use super::pool::Pool;
use crate::links::same_family;
use crate::wire::Line;
use crate::Error;

const FILE: &str = "relay-addresses.toml";
/// A resolver on this host asks others that may be out of reach, and again …
const PATIENCE: Duration = Duration::from_secs(10);
/// … and so long it has where the addresses of before would do: with `leak = "block"` everything still goes out directly.
const PATIENCE_KNOWN: Duration = Duration::from_secs(2);
/// Between two questions to it: answers of a resolver are as old as its caches.
const AGAIN: Backoff = Backoff {
    first_us: 5_000_000,
    most_us: 30_000_000,
};

/// By HOST:PORT.
type Remembered = BTreeMap<String, Vec<IpAddr>>;

#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// One of each family at most: more may be those of several relays, and a flow is with one.
    pub addresses: Vec<SocketAddr>,
    /// Why these are the addresses of before.
    pub unresolved: Option<String>,
}

/// What the line calls the relay.
#[derive(Debug, Clone)]
pub struct Name {
    pub host: String,
    pub port: u16,
    /// Where its addresses are remembered.
    pub folder: PathBuf,
}

impl Name {
    /// Its addresses are remembered beside the device's key.
    pub fn of_line(line: &Line, identity: &Path) -> Name {
        Name {
            host: line.host.clone(),
            port: line.port,
            folder: identity.parent().unwrap_or(Path::new(".")).to_owned(),
        }
    }

    async fn resolve(&self, patience: Duration) -> Result<Vec<IpAddr>, String> {
        let asked = timeout(patience, lookup_host((self.host.as_str(), self.port)));
        match asked.await {
            Ok(Ok(found)) => Ok(found.map(|address| address.ip()).collect()),
            Ok(Err(e)) => Err(e.to_string()),
            Err(_) => Err(format!("no answer within {} s", patience.as_secs())),
        }
    }

    /// Without asking anybody: of an address it is that, of a name those at which the relay answered last.
    pub fn known(&self) -> Vec<IpAddr> {
        match self.host.parse() {
            Ok(ip) => vec![ip],
            Err(_) => (remembered(&self.folder).remove(&self.key())).unwrap_or_default(),
        }
    }

    /// What the host's resolver says; by the file in the folder, where the relay answered last, if it says nothing.
    pub async fn find(&self) -> Result<Place, Error> {
        let patience = match self.known().is_empty() {
            true => PATIENCE,
            false => PATIENCE_KNOWN,
        };
        self.of(self.resolve(patience).await)
    }

    fn of(&self, found: Result<Vec<IpAddr>, String>) -> Result<Place, Error> {
        let place = |ips: &[IpAddr], unresolved| Place {
            addresses: self.at(&kept(&[], ips)),
            unresolved,
        };
        let why = match found {
            Ok(ips) if !ips.is_empty() => return Ok(place(&ips, None)),
            Ok(_) => "it has no address".to_owned(),
            Err(why) => why,
        };
        let key = self.key();
        match self.known().as_slice() {
            [] => Err(Error::Failed(format!(
                "relay {key}: its name is not resolved ({why})"
            ))),
            ips => Ok(place(ips, Some(why))),
        }
    }

    /// For [`Name::find`], once the relay has answered there.
    fn remember(&self, addresses: &[SocketAddr]) {
        let (mut all, key) = (remembered(&self.folder), self.key());
        let ips: Vec<IpAddr> = addresses.iter().map(SocketAddr::ip).collect();
        if !self.is_address() && all.get(&key) != Some(&ips) {
            all.insert(key, ips);
            if let Ok(text) = toml::to_string(&all) {
                // The next start has the resolver, or waits for it as this one would have.
                let _ = mp_files::replace(&self.folder.join(FILE), text.as_bytes());
            }
        }
    }

    fn is_address(&self) -> bool {
        self.host.parse::<IpAddr>().is_ok()
    }

    fn key(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    fn at(&self, ips: &[IpAddr]) -> Vec<SocketAddr> {
        let at = |ip: &IpAddr| SocketAddr::new(*ip, self.port);
        ips.iter().map(at).collect()
    }
}

/// A file that cannot be read costs no more than the memory.
fn remembered(folder: &Path) -> Remembered {
    let text = fs::read_to_string(folder.join(FILE)).unwrap_or_default();
    toml::from_str(&text).unwrap_or_default()
}

/// One of each family that was found: the one that is used, or else the first.
fn kept(used: &[IpAddr], found: &[IpAddr]) -> Vec<IpAddr> {
    let mut kept: Vec<IpAddr> = Vec::new();
    let still = used.iter().filter(|ip| found.contains(ip));
    for ip in still.chain(found) {
        if !kept.iter().any(|other| same_family(*other, *ip)) {
            kept.push(*ip);
        }
    }
    kept
}

/// The same, with the next one in the place of each that is used.
fn next_of_each(used: &[IpAddr], found: &[IpAddr]) -> Vec<IpAddr> {
    let next = |ip: &IpAddr| {
        let family: Vec<_> = found.iter().filter(|f| same_family(**f, *ip)).collect();
        let at = family.iter().position(|f| *f == ip)?;
        Some(*family[(at + 1) % family.len()])
    };
    used.iter().filter_map(next).collect()
}

/// Where a relay that does not answer over some link may be.
#[derive(Debug, PartialEq)]
enum Candidate {
    /// The name leads to an address that is used, and to others: it is the same relay.
    Same(Vec<IpAddr>),
    /// It may be another relay, which knows no flow of this one.
    Other(Vec<IpAddr>),
}

/// Of the addresses `found`, where `used` are used. [`None`]: there are no others.
fn candidate(used: &[IpAddr], found: &[IpAddr]) -> Option<Candidate> {
    let kept = kept(used, found);
    let is_used = |ip: &IpAddr| used.contains(ip);
    if kept.iter().all(is_used) {
        let next = next_of_each(used, found);
        let others = !next.iter().all(is_used);
        return others.then_some(Candidate::Other(next));
    }
    Some(match kept.iter().any(is_used) {
        true => Candidate::Same(kept),
        false => Candidate::Other(kept),
    })
}

/// Remembers where the relay has answered. Where it does not answer over some link, resolves its name again, and goes where that
/// leads, if the relay answers there, and no more where it was. `moved` is told then.
pub async fn follow(
    name: Name,
    place: watch::Sender<Place>,
    pool: Arc<Pool>,
    moved: watch::Sender<()>,
) {
    let answered = async {
        // Not before: a captive portal has addresses for every name.
        if pool.first().await.is_ok() {
            name.remember(&place.borrow().addresses);
        }
    };
    let following = async {
        let mut tries = 0;
        while !name.is_address() {
            let since = Instant::now();
            pool.failed().await;
            let was_quiet = since.elapsed() > Duration::from_micros(AGAIN.most_us);
            if find_again(&name, &place, &pool, &moved).await || was_quiet {
                tries = 0;
            }
            sleep(Duration::from_micros(AGAIN.time(tries))).await;
            tries += 1;
        }
    };
    tokio::join!(answered, following);
}

/// Whether the relay was found elsewhere.
async fn find_again(
    name: &Name,
    place: &watch::Sender<Place>,
    pool: &Arc<Pool>,
    moved: &watch::Sender<()>,
) -> bool {
    let found = match name.resolve(PATIENCE).await {
        Ok(found) if !found.is_empty() => {
            place.send_if_modified(|place| place.unresolved.take().is_some());
            found
        }
        // What it led to last may be a captive portal, which has addresses for every name.
        _ => name.known(),
    };
    let addresses = place.borrow().addresses.clone();
    let used: Vec<IpAddr> = addresses.iter().map(SocketAddr::ip).collect();
    let (next, same) = match candidate(&used, &found) {
        Some(Candidate::Same(next)) => (name.at(&next), true),
        Some(Candidate::Other(next)) => (name.at(&next), false),
        None => return false,
    };
    // Path connections of a flow that reach different relays break it.
    if !same && pool.is_at(&addresses).await || !pool.is_at(&next).await {
        return false;
    }
    name.remember(&next);
    place.send_modify(|place| place.addresses = next);
    if !same {
        moved.send_replace(());
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_addresses_stand_in_for_a_resolver_that_does_not_answer() {
        let folder = tempfile::tempdir().unwrap();
        let name = |host: &str, port| Name {
            host: host.into(),
            port,
            folder: folder.path().into(),
        };
        let at = |host: &str, port, found: &[&str]| {
            let found: Vec<IpAddr> = found.iter().map(|ip| ip.parse().unwrap()).collect();
            let found = match found.as_slice() {
                [] => Err("no answer".to_owned()),
                found => Ok(found.to_vec()),
            };
            let name = name(host, port);
            let place = name.of(found).map_err(|e| e.to_string())?;
            name.remember(&place.addresses);
            Ok(place)
        };
        let place = |addresses: &[&str], unresolved: bool| {
            Ok(Place {
                addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
                unresolved: unresolved.then(|| "no answer".to_owned()),
            })
        };
        let unknown = "relay a.example:443: its name is not resolved (no answer)";
        assert_eq!(at("a.example", 443, &[]), Err(unknown.to_owned()));
        for ips in [["192.0.2.1", "2001:db8::1"], ["192.0.2.2", "2001:db8::2"]] {
            let whole = [format!("{}:443", ips[0]), format!("[{}]:443", ips[1])];
            let whole = [whole[0].as_str(), whole[1].as_str()];
            assert_eq!(at("a.example", 443, &ips), place(&whole, false));
            assert_eq!(at("a.example", 443, &[]), place(&whole, true));
        }
        // A place where no relay has answered.
        let wrong = Ok(vec!["10.0.0.1".parse().unwrap()]);
        assert!(name("a.example", 443).of(wrong).is_ok());
        at("b.example", 443, &["192.0.2.3"]).unwrap();
        let last = place(&["192.0.2.2:443", "[2001:db8::2]:443"], true);
        assert_eq!(at("a.example", 443, &[]), last);
        // Another relay on the same host may be elsewhere.
        assert!(at("a.example", 444, &[]).is_err());

        // An address needs no memory, and a broken file is none.
        at("192.0.2.9", 443, &["192.0.2.9"]).unwrap();
        let file = folder.path().join(FILE);
        assert!(!fs::read_to_string(&file).unwrap().contains("192.0.2.9"));
        fs::write(&file, "no list").unwrap();
        assert!(at("a.example", 443, &[]).is_err());
        at("a.example", 443, &["192.0.2.4"]).unwrap();
        assert_eq!(at("a.example", 443, &[]), place(&["192.0.2.4:443"], true));
    }

    fn ips(text: &[&str]) -> Vec<IpAddr> {
        text.iter().map(|ip| ip.parse().unwrap()).collect()
    }

    #[test]
    fn one_address_of_each_family_is_used_and_kept() {
        let kept = |used: &[&str], found: &[&str]| kept(&ips(used), &ips(found));
        let found = ["2001:db8::1", "192.0.2.1", "192.0.2.2", "2001:db8::2"];
        assert_eq!(kept(&[], &found), ips(&["2001:db8::1", "192.0.2.1"]));
        let used = ["192.0.2.2", "2001:db8::2"];
        assert_eq!(kept(&used, &found), ips(&used));
        assert_eq!(
            kept(&["192.0.2.9", "2001:db8::2"], &found),
            ips(&["2001:db8::2", "192.0.2.1"])
        );
        assert_eq!(kept(&used, &["192.0.2.1"]), ips(&["192.0.2.1"]));
    }

    #[test]
    fn a_name_leads_on_only_where_it_has_other_addresses() {
        let candidate = |used: &[&str], found: &[&str]| candidate(&ips(used), &ips(found));
        let same = |next: &[&str]| Some(Candidate::Same(ips(next)));
        let other = |next: &[&str]| Some(Candidate::Other(ips(next)));
        let both = ["192.0.2.1", "2001:db8::1"];
        assert_eq!(candidate(&both, &["2001:db8::1", "192.0.2.1"]), None);
        assert_eq!(candidate(&both, &[]), None);
        assert_eq!(candidate(&both, &["192.0.2.1"]), None);
        // Dynamic DNS: one of the addresses, or all.
        let prefix = ["2001:db8:7::1", "192.0.2.1"];
        assert_eq!(
            candidate(&both, &prefix),
            same(&["192.0.2.1", "2001:db8:7::1"])
        );
        assert_eq!(
            candidate(&["192.0.2.1"], &both),
            same(&["192.0.2.1", "2001:db8::1"])
        );
        assert_eq!(candidate(&both, &["192.0.2.7"]), other(&["192.0.2.7"]));
        // Several at once: each has its turn.
        let three = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
        for (used, next) in [(0, 1), (1, 2), (2, 0)] {
            assert_eq!(candidate(&[three[used]], &three), other(&[three[next]]));
        }
    }
}

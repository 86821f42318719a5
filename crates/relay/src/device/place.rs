//! The relay's addresses. Those of a name are remembered, because with `leak = "block"` the host's resolver may be out of
//! reach until the relay is connected.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::timeout;

use crate::Error;

const FILE: &str = "relay-addresses.toml";
/// A resolver on this host asks others that may be out of reach, and again.
const PATIENCE: Duration = Duration::from_secs(10);

/// By HOST:PORT.
type Remembered = BTreeMap<String, Vec<IpAddr>>;

#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    pub addresses: Vec<SocketAddr>,
    /// Why these are the addresses of before.
    pub unresolved: Option<String>,
}

/// What the host's resolver says; by the file in `folder`, where the relay answered last, if it says nothing.
pub async fn find(host: &str, port: u16, folder: &Path) -> Result<Place, Error> {
    let found = match timeout(PATIENCE, lookup_host((host, port))).await {
        Ok(Ok(found)) => Ok(found.map(|address| address.ip()).collect()),
        Ok(Err(e)) => Err(e.to_string()),
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    };
    of(host, port, folder, found)
}

fn of(
    host: &str,
    port: u16,
    folder: &Path,
    found: Result<Vec<IpAddr>, String>,
) -> Result<Place, Error> {
    let place = |ips: &[IpAddr], unresolved| Place {
        addresses: ips.iter().map(|ip| SocketAddr::new(*ip, port)).collect(),
        unresolved,
    };
    let why = match found {
        Ok(ips) if !ips.is_empty() => return Ok(place(&ips, None)),
        Ok(_) => "it has no address".to_owned(),
        Err(why) => why,
    };
    let key = key(host, port);
    match remembered(folder).get(&key) {
        Some(ips) if !ips.is_empty() => Ok(place(ips, Some(why))),
        _ => Err(Error::Failed(format!(
            "relay {key}: its name is not resolved ({why})"
        ))),
    }
}

/// For [`find`], once the relay has answered there.
pub fn remember(host: &str, port: u16, folder: &Path, place: &Place) {
    let (mut all, key) = (remembered(folder), key(host, port));
    let ips: Vec<IpAddr> = place.addresses.iter().map(SocketAddr::ip).collect();
    let is_name = host.parse::<IpAddr>().is_err();
    if is_name && all.get(&key) != Some(&ips) {
        all.insert(key, ips);
        if let Ok(text) = toml::to_string(&all) {
            // The next start has the resolver, or waits for it as this one would have.
            let _ = mp_files::replace(&folder.join(FILE), text.as_bytes());
        }
    }
}

fn key(host: &str, port: u16) -> String {
    format!("{host}:{port}")
}

/// A file that cannot be read costs no more than the memory.
fn remembered(folder: &Path) -> Remembered {
    let text = fs::read_to_string(folder.join(FILE)).unwrap_or_default();
    toml::from_str(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_addresses_stand_in_for_a_resolver_that_does_not_answer() {
        let folder = tempfile::tempdir().unwrap();
        let at = |host: &str, port, found: &[&str]| {
            let found: Vec<IpAddr> = found.iter().map(|ip| ip.parse().unwrap()).collect();
            let found = match found.as_slice() {
                [] => Err("no answer".to_owned()),
                found => Ok(found.to_vec()),
            };
            let place = of(host, port, folder.path(), found).map_err(|e| e.to_string())?;
            remember(host, port, folder.path(), &place);
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
        assert!(of("a.example", 443, folder.path(), wrong).is_ok());
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
}

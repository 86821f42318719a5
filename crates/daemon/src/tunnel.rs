//! A tunnel that carries all of this host's traffic, as a VPN does.

use std::net::IpAddr;

use mp_kernel::interfaces::{source, Interface};
use mp_relay::links::TUN;

use crate::config::Config;

/// The ignored interface by which the routing table reaches strangers. The relay's own does not count.
pub fn in_use(config: &Config, all: &[Interface]) -> Option<String> {
    let sources = [true, false].into_iter().filter_map(|v4| source(None, v4));
    ignored(config, all, &sources.collect::<Vec<_>>())
}

fn ignored(config: &Config, all: &[Interface], sources: &[IpAddr]) -> Option<String> {
    let of = |i: &&Interface| i.addresses.iter().any(|a| sources.contains(a));
    let mut used = all.iter().filter(of).map(|i| &i.name);
    let tunnel = used.find(|name| *name != TUN && config.paths.ignores(name));
    tunnel.cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_and_leads_out_is_a_tunnel() {
        let config = Config::parse("daemon.toml", "").unwrap();
        let on = |name: &str, host| Interface {
            name: name.into(),
            index: 1,
            addresses: vec![[10, 0, 0, host].into()],
            networks: Vec::new(),
        };
        let all = [on("wlan0", 1), on("wg0", 2), on(TUN, 3), on("docker0", 4)];
        let found = |host| ignored(&config, &all, &[[10, 0, 0, host].into()]);
        assert_eq!(found(2).as_deref(), Some("wg0"));
        assert_eq!([found(1), found(3), found(9)], [None, None, None]);
    }
}

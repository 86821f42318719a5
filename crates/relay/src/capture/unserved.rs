//! For whom this host forwards without the relay.

use std::fs;

use mp_kernel::interfaces::{self, Interface};

use super::TUN;

/// Interfaces from which this host forwards directly, as those of containers are: neither links of the relay nor among
/// [`super::Settings::lans`], and no default route leads there.
pub fn unserved(lans: &[String], links: &[String]) -> Vec<String> {
    let is_known = |name: &String| name == "lo" || name == TUN || links.contains(name);
    let is_behind = |i: &Interface| {
        !is_known(&i.name) && !lans.contains(&i.name) && forwards(i) && !i.leads_out()
    };
    let all = interfaces::all().unwrap_or_default();
    all.into_iter().filter(is_behind).map(|i| i.name).collect()
}

fn forwards(interface: &Interface) -> bool {
    let is_set = |family: &str| {
        let file = format!("/proc/sys/net/{family}/conf/{}/forwarding", interface.name);
        fs::read_to_string(file).is_ok_and(|text| text.trim() == "1")
    };
    interface.v4().is_some() && is_set("ipv4") || interface.v6().is_some() && is_set("ipv6")
}

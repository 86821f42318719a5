//! MPTCP data that receivers dropped beyond the window they had announced. The kernel counts them by network namespace, not
//! by connection.

use std::fs;
use std::sync::Arc;

use mp_record::Transfer;
use rattan_env::netns::NetNs;

use crate::network::{inside, Network};
use crate::plan::Plan;
use crate::Error;

/// Of each host; `None` where the kernel lacks the counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overruns {
    server: Option<u64>,
    /// By group of the plan.
    clients: Vec<Option<u64>>,
}

impl Overruns {
    /// So far. The namespaces were made for the run, so that their counters began at 0.
    pub fn read(network: &Network) -> Result<Overruns, Error> {
        let of = |host: &Arc<NetNs>| {
            inside(host, || {
                // Not /proc/net: that is the namespace of the process' first thread.
                let text = fs::read_to_string("/proc/thread-self/net/netstat");
                Ok(text.ok().and_then(|t| counter(&t, "NoDSSInWindow")))
            })
        };
        Ok(Overruns {
            server: of(&network.server)?,
            clients: network.clients.iter().map(of).collect::<Result<_, _>>()?,
        })
    }

    pub fn total(&self) -> Option<u64> {
        let clients = self.clients.iter().copied().sum::<Option<u64>>();
        Some(self.server? + clients?)
    }

    /// Tells each transfer its own, where that is known: its host counted none, or it alone received MPTCP data there.
    pub fn attribute(&self, plan: &Plan, transfers: &mut [Transfer]) {
        // Host of the receiver: `None` is the server.
        let receiver = |t: &Transfer| {
            let flow = plan.flows.iter().find(|f| f.name == t.connection)?;
            (!flow.upload).then_some(flow.group)
        };
        let hosts: Vec<Option<usize>> = transfers.iter().map(receiver).collect();
        let multipath: Vec<bool> = transfers.iter().map(|t| t.multipath).collect();
        for (i, transfer) in transfers.iter_mut().enumerate() {
            let counted = match hosts[i] {
                Some(group) => self.clients.get(group).copied().flatten(),
                None => self.server,
            };
            let like = |k: &usize| multipath[*k] && hosts[*k] == hosts[i];
            let alone = (0..hosts.len()).filter(like).count() == 1;
            transfer.window_overruns = match multipath[i] {
                true => counted.filter(|count| alone || *count == 0),
                false => Some(0),
            };
        }
    }
}

/// A counter of MPTCP in /proc/net/netstat, whose lines come in pairs: names, then values, each behind the protocol's name.
fn counter(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|l| l.strip_prefix("MPTcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|n| n == name)?;
    values.split_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::plan::Multipath;

    #[test]
    fn a_counter_is_found_by_its_name() {
        let text =
            "TcpExt: SyncookiesSent NoDSSInWindow\nTcpExt: 1 2\nIpExt: InNoRoutes\nIpExt: 3\n\
                    MPTcpExt: MPCapableSYNRX NoDSSInWindow DuplicateData\nMPTcpExt: 4 1500 6\n";
        assert_eq!(counter(text, "NoDSSInWindow"), Some(1500));
        assert_eq!(counter(text, "MPCapableSYNRX"), Some(4));
        assert_eq!(counter(text, "SyncookiesSent"), None);
        assert_eq!(counter("TcpExt: A\nTcpExt: 1\n", "NoDSSInWindow"), None);
    }

    const PATHS: &str = "[paths.a]\nrate = '9Mbit'\n[paths.b]\nrate = '9Mbit'\n";

    /// What each transfer of these connections is told, one transfer a connection.
    fn told(connections: &str, counted: &Overruns) -> Vec<Option<u64>> {
        let scenario = crate::scenario(&format!("{PATHS}{connections}"));
        let plan =
            Plan::new(&scenario, &scenario.variants[0], 1, Multipath::Mptcp).expect("a plan");
        assert_eq!(plan.groups.len(), counted.clients.len());
        let mut transfers: Vec<Transfer> = plan
            .flows
            .iter()
            .map(|f| Transfer {
                connection: f.name.clone(),
                multipath: f.is_multipath(),
                ..Transfer::default()
            })
            .collect();
        counted.attribute(&plan, &mut transfers);
        transfers.iter().map(|t| t.window_overruns).collect()
    }

    fn counted(server: u64, clients: &[u64]) -> Overruns {
        Overruns {
            server: Some(server),
            clients: clients.iter().copied().map(Some).collect(),
        }
    }

    #[test]
    fn one_transfer_on_a_host_has_all_that_the_host_counted() {
        assert_eq!(told("", &counted(0, &[7])), [Some(7)]);
        let upload = "[[connections]]\ndirection = 'upload'\n";
        assert_eq!(told(upload, &counted(5, &[7])), [Some(5)]);
        let both = format!("{upload}[[connections]]\n");
        assert_eq!(told(&both, &counted(5, &[7])), [Some(5), Some(7)]);
    }

    #[test]
    fn several_share_what_nobody_can_tell_apart() {
        let two = "[[connections]]\nname = 'x'\n[[connections]]\nname = 'y'\n";
        assert_eq!(told(two, &counted(0, &[7])), [None, None]);
        assert_eq!(told(two, &counted(3, &[0])), [Some(0), Some(0)]);
        assert_eq!(counted(3, &[7, 1]).total(), Some(11));
    }

    #[test]
    fn plain_tcp_has_no_such_window_and_an_old_kernel_no_such_counter() {
        let tcp = "[[connections]]\n[[connections]]\nprotocol = 'tcp'\npaths = ['a']\n";
        assert_eq!(told(tcp, &counted(0, &[7, 0])), [Some(7), Some(0)]);
        let unknown = Overruns {
            server: None,
            clients: vec![None],
        };
        assert_eq!(told("", &unknown), [None]);
        assert_eq!(unknown.total(), None);
    }
}

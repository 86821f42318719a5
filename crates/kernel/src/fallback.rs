//! Connections that a program asked to be MPTCP and that are plain TCP (RFC 8684, section 3.7): which there are now is
//! [`crate::diag::Diag::fallbacks`]' business, how many there were the kernel's counters say.

use std::fs;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::error::{Context, Error};

/// As far as this end can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The SYN/ACK, or the ACK of it, had no MP_CAPABLE: the peer has no MPTCP, or a middlebox removed the option.
    NoAnswer,
    /// SYNs with MP_CAPABLE were lost time and again, and one without was not; for a while the kernel asks no more.
    SynLost,
    /// After a handshake in MPTCP: the options of data were removed, or the data changed.
    OptionsLost,
}

impl Why {
    pub fn describe(self) -> &'static str {
        match self {
            Why::NoAnswer => "the peer has no MPTCP, or a middlebox removes the option",
            Why::SynLost => {
                "SYNs with MP_CAPABLE are lost: a middlebox drops them, or the peer is down"
            }
            Why::OptionsLost => "a middlebox removes or changes MPTCP options after the handshake",
        }
    }
}

/// A connection that fell back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub why: Why,
}

/// Connections of a network namespace, opened here or from elsewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Those that stayed MPTCP.
    pub mptcp: u64,
    pub no_answer: u64,
    pub syn_lost: u64,
    /// Linux 6.1 counts few of these.
    pub options_lost: u64,
}

/// `MPTcpExt` in `/proc/net/netstat` (net/mptcp/mib.c). The kernel counts each fallback once.
const HANDSHAKES: &[&str] = &["MPCapableSYNACKRX", "MPCapableACKRX"];
const NO_ANSWER: &[&str] = &["MPCapableFallbackSYNACK", "MPCapableFallbackACK"];
const SYN_LOST: &[&str] = &["MPCapableSYNTXDrop", "MPCapableSYNTXDisabled"];
const OPTIONS_LOST: &[&str] = &[
    "MPCapableDataFallback",
    "DssFallback",
    "DSSCorruptionFallback",
    "InfiniteMapTx",
    "MD5SigFallback",
    "SimultConnectFallback",
];

impl Counts {
    /// Since the calling thread's network namespace began.
    pub fn read() -> Result<Counts, Error> {
        const FILE: &str = "/proc/thread-self/net/netstat";
        Ok(Counts::parse(&fs::read_to_string(FILE).context(FILE)?))
    }

    fn parse(text: &str) -> Counts {
        let mut lines = text.lines().filter_map(|l| l.strip_prefix("MPTcpExt: "));
        let names = lines.next().unwrap_or_default().split(' ');
        let values = lines.next().unwrap_or_default().split(' ');
        let all: Vec<(&str, u64)> = names.zip(values.map(|v| v.parse().unwrap_or(0))).collect();
        // A kernel that does not know a counter has none.
        let sum = |wanted: &[&str]| -> u64 {
            let counted = all.iter().filter(|(name, _)| wanted.contains(name));
            counted.map(|(_, value)| value).sum()
        };
        let options_lost = sum(OPTIONS_LOST);
        Counts {
            mptcp: sum(HANDSHAKES).saturating_sub(options_lost),
            no_answer: sum(NO_ANSWER),
            syn_lost: sum(SYN_LOST),
            options_lost,
        }
    }

    pub fn since(self, before: Counts) -> Counts {
        Counts {
            mptcp: self.mptcp.saturating_sub(before.mptcp),
            no_answer: self.no_answer.saturating_sub(before.no_answer),
            syn_lost: self.syn_lost.saturating_sub(before.syn_lost),
            options_lost: self.options_lost.saturating_sub(before.options_lost),
        }
    }

    pub fn fell_back(self) -> u64 {
        self.no_answer + self.syn_lost + self.options_lost
    }

    /// For people, most frequent first: `2 × the peer has no MPTCP, …; 1 × …`.
    pub fn reasons(self) -> String {
        let mut of = [
            (self.no_answer, Why::NoAnswer),
            (self.syn_lost, Why::SynLost),
            (self.options_lost, Why::OptionsLost),
        ];
        of.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let shown = of.iter().filter(|(count, _)| *count > 0);
        let shown = shown.map(|(count, why)| format!("{count} × {}", why.describe()));
        shown.collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name_and_each_connection_counts_once() {
        let text = "TcpExt: A B\nTcpExt: 7 7\n\
                    MPTcpExt: MPCapableSYNTX MPCapableSYNACKRX MPCapableACKRX MPCapableFallbackSYNACK MPCapableSYNTXDrop DssFallback\n\
                    MPTcpExt: 9 4 2 3 1 1\n";
        let counts = Counts::parse(text);
        let expected = Counts {
            mptcp: 5,
            no_answer: 3,
            syn_lost: 1,
            options_lost: 1,
        };
        assert_eq!((counts, counts.fell_back()), (expected, 5));
        assert!(counts.reasons().starts_with("3 × the peer has no MPTCP"));
        assert_eq!(counts.since(counts), Counts::default());
        assert_eq!(Counts::default().reasons(), "");
        assert_eq!(Counts::parse(""), Counts::default());
    }
}

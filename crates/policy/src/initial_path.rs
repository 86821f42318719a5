//! The initial path: over which of its paths a connection is opened. An axis of its own beside congestion controller, path
//! manager and scheduler; the path manager opens further subflows whatever the initial path is.

use crate::bandit::{Explore, Policy, Threshold};
use crate::registry::{self, World, EVERYWHERE};
use crate::view::Rule;

/// A way to choose the initial path. It builds the bandit's policy, or `None` where nothing is learnt.
pub type Entry = registry::Entry<Option<Policy>>;

/// Every way to choose the initial path; the first is what stock Linux does, the second is the bandit of hosts.
pub fn all() -> &'static [Entry] {
    ALL
}

pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

/// What a path manager's name stands for now: each choice of the initial path used to be one, `bandit` or `bandit-NAME`.
pub fn former(path_manager: &str) -> Option<&'static Entry> {
    let rest = path_manager.strip_prefix("bandit")?;
    match rest {
        "" => ALL.get(1),
        _ => find(rest.strip_prefix('-')?),
    }
}

/// Paths that connections may be opened over, by what the user says of each: the metered ones only if there are no others.
pub fn candidates(rules: &[Rule]) -> Vec<usize> {
    let of = |fits: fn(Rule) -> bool| -> Vec<usize> {
        let all = rules.iter().enumerate();
        all.filter(|(_, rule)| fits(**rule))
            .map(|(i, _)| i)
            .collect()
    };
    let free = of(|rule| matches!(rule, Rule::None | Rule::Preferred));
    match free.is_empty() {
        true => of(|rule| rule == Rule::Metered),
        false => free,
    }
}

macro_rules! learnt {
    ($($name:literal, $summary:literal, $source:literal, [$($world:ident),*], $policy:expr;)*) => {
        impl Policy {
            /// Every policy under its name. The first is the default one.
            pub const NAMED: &'static [(&'static str, Policy)] = &[$(($name, $policy)),*];

            pub fn named(name: &str) -> Option<Policy> {
                let mut all = Self::NAMED.iter();
                all.find(|(n, _)| *n == name).map(|(_, policy)| *policy)
            }
        }

        static ALL: &[Entry] = &[
            Entry {
                name: "first",
                summary: "The connection's first path; on a host, the one that the routing table has",
                source: "Linux net/ipv4/route.c",
                worlds: &EVERYWHERE,
                parameters: &[],
                build: || None,
            },
            $(Entry {
                name: $name,
                summary: $summary,
                source: $source,
                worlds: &[$(World::$world),*],
                parameters: &[],
                build: || Some($policy),
            },)*
        ];
    };
}

learnt! {
    "lin-ucb", "A bandit that takes the upper bound of a linear model",
        "Li et al., WWW 2010",
        [Sim, Kernel, Run, Daemon],
        Policy::LinUcb {
            alpha: 0.5,
            ridge: 1.0,
        };
    "active-explorer", "A bandit that explores where it would learn most",
        "Alzadjali et al., \"A contextual bi-armed bandit approach for MPTCP path management\", algorithm 1",
        [Sim, Kernel],
        Policy::ActiveExplorer {
            exploit: 0.85,
            decay: 0.9997,
            by: Explore::Active,
        };
    "epsilon-greedy", "A bandit that explores at random",
        "Alzadjali et al. (epsilon-greedy)",
        [Sim, Kernel],
        Policy::EpsilonGreedy {
            epsilon: 0.2,
            decay: 0.9999,
            until: None,
        };
    "bootstrapped-ucb", "A bandit that takes an upper bound from bootstraps",
        "Alzadjali et al. (bootstrapped UCB)",
        [Sim, Kernel],
        Policy::BootstrappedUcb {
            samples: 10,
            percentile: 80.0,
        };
    "adaptive-greedy", "A bandit that explores if its best prediction is low",
        "Alzadjali et al. (adaptive greedy)",
        [Sim, Kernel],
        Policy::AdaptiveGreedy {
            threshold: Threshold::Percentile {
                start: 0.75,
                window: 500,
                percentile: 35.0,
                decay: 0.9998,
            },
            otherwise: Explore::Random,
        };
    "explore-first", "A bandit that explores first",
        "Alzadjali et al. (explore first)",
        [Sim, Kernel],
        Policy::ExploreFirst { rounds: 500 };
    "adaptive-active-greedy", "A bandit that explores where it would learn most if its best prediction is low",
        "Alzadjali et al. (adaptive active greedy)",
        [Sim, Kernel],
        Policy::AdaptiveGreedy {
            threshold: Threshold::Percentile {
                start: 0.75,
                window: 500,
                percentile: 30.0,
                decay: 0.9998,
            },
            otherwise: Explore::Active,
        };
    "thompson", "A bandit that draws from the posterior of a linear model",
        "Agrawal and Goyal, ICML 2013",
        [Sim, Kernel],
        Policy::Thompson {
            scale: 0.25,
            ridge: 1.0,
        };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_start_on_metered_paths_only_where_there_is_no_other_and_never_on_untrusted_ones()
    {
        let (any, metered, untrusted) = (Rule::None, Rule::Metered, Rule::Untrusted);
        assert_eq!(
            candidates(&[metered, any, untrusted, Rule::Preferred]),
            [1, 3]
        );
        assert_eq!(candidates(&[untrusted, metered]), [1]);
        assert_eq!(candidates(&[untrusted]), [0; 0]);
    }
}

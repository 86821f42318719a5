//! How a relay's paths use each link of a host, by what its user says of it. MPTCP's paths obey the same rules in
//! [`crate::path_manager`].

use serde::{Deserialize, Serialize};

use crate::view::Rule;

/// How schedulers treat a path. The names of RFC 8684 section 3.3.8, but for the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    /// Others carry data only while it is full.
    Preferred,
    #[default]
    Normal,
    /// Carries data only while no path that is no backup works.
    Backup,
}

/// What is known of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Link {
    pub rule: Rule,
    /// The user has it left alone.
    pub ignored: bool,
    /// Its radio signal is below the user's threshold.
    pub weak: bool,
    /// It has carried what it may carry this month.
    pub exhausted: bool,
    /// A path manager has it in backup.
    pub unchosen: bool,
}

/// Why a link is not used as every other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    Ignored,
    Untrusted,
    Limit,
    Metered,
    Signal,
    Unchosen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// `None`: the link is not used.
    pub priority: Option<Priority>,
    /// `None`: as every other link, or as a preferred one.
    pub reason: Option<Reason>,
}

/// A rule that excludes a link goes before one that sets it to backup, and that before a preference.
pub fn decide(link: &Link) -> Decision {
    let (priority, reason) = match () {
        () if link.ignored => (None, Some(Reason::Ignored)),
        () if link.rule == Rule::Untrusted => (None, Some(Reason::Untrusted)),
        () if link.exhausted => (None, Some(Reason::Limit)),
        () if link.rule == Rule::Metered => (Some(Priority::Backup), Some(Reason::Metered)),
        () if link.weak => (Some(Priority::Backup), Some(Reason::Signal)),
        () if link.unchosen => (Some(Priority::Backup), Some(Reason::Unchosen)),
        () if link.rule == Rule::Preferred => (Some(Priority::Preferred), None),
        () => (Some(Priority::Normal), None),
    };
    Decision { priority, reason }
}

/// Bytes that a link has carried in a calendar month, as "2026-11".
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    month: String,
    bytes: u64,
}

impl Usage {
    /// So many bytes more, in this month. A clock that goes back does not give a month again.
    pub fn count(&mut self, bytes: u64, month: &str) {
        if month > self.month.as_str() {
            (self.month, self.bytes) = (month.to_owned(), 0);
        }
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Of the latest month.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn exhausts(&self, limit: Option<u64>) -> bool {
        limit.is_some_and(|limit| self.bytes >= limit)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_rule_has_its_effect() {
        let of = |rule| {
            decide(&Link {
                rule,
                ..Link::default()
            })
        };
        let found = |rule| (of(rule).priority, of(rule).reason);
        assert_eq!(found(Rule::None), (Some(Priority::Normal), None));
        assert_eq!(found(Rule::Preferred), (Some(Priority::Preferred), None));
        assert_eq!(
            found(Rule::Metered),
            (Some(Priority::Backup), Some(Reason::Metered))
        );
        assert_eq!(found(Rule::Untrusted), (None, Some(Reason::Untrusted)));
        let weak = decide(&Link {
            weak: true,
            ..Link::default()
        });
        assert_eq!(
            (weak.priority, weak.reason),
            (Some(Priority::Backup), Some(Reason::Signal))
        );
    }

    fn any_link() -> impl Strategy<Value = Link> {
        let rules = [Rule::None, Rule::Preferred, Rule::Metered, Rule::Untrusted];
        let rule = prop::sample::select(rules.to_vec());
        (rule, any::<[bool; 4]>()).prop_map(|(rule, [ignored, weak, exhausted, unchosen])| Link {
            rule,
            ignored,
            weak,
            exhausted,
            unchosen,
        })
    }

    proptest! {
        #[test]
        fn a_link_is_worse_off_only_for_a_reason_and_never_better_for_a_fault(link in any_link()) {
            let rank = |d: Decision| d.priority.map_or(3, |p| p as u8);
            let decision = decide(&link);
            prop_assert_eq!(decision.reason.is_some(), rank(decision) > Priority::Normal as u8);
            for worse in [
                Link { ignored: true, ..link },
                Link { weak: true, ..link },
                Link { exhausted: true, ..link },
                Link { unchosen: true, ..link },
            ] {
                prop_assert!(rank(decide(&worse)) >= rank(decision));
            }
            // Whatever else is known of them, these carry nothing.
            if link.ignored || link.exhausted || link.rule == Rule::Untrusted {
                prop_assert_eq!(decision.priority, None);
            }
        }

        #[test]
        fn a_month_has_what_came_in_it_or_with_an_earlier_clock(
            counts in prop::collection::vec((0u32..40, 0u64..1 << 40), 1..50), limit in 0u64..1 << 42,
        ) {
            let name = |month: u32| format!("{}-{:02}", 2026 + month / 12, 1 + month % 12);
            let mut usage = Usage::default();
            let (mut latest, mut sum) = (None, 0);
            for (month, bytes) in counts {
                let before = usage.clone();
                usage.count(bytes, &name(month));
                if latest.is_none_or(|known| month > known) {
                    (latest, sum) = (Some(month), 0);
                } else {
                    prop_assert!(!before.exhausts(Some(limit)) || usage.exhausts(Some(limit)));
                }
                sum += bytes;
                prop_assert_eq!(usage.bytes(), sum);
                prop_assert_eq!(usage.exhausts(Some(limit)), sum >= limit);
                prop_assert!(!usage.exhausts(None));
                // A process that begins with what another one wrote goes on alike.
                let text = serde_json::to_string(&usage).unwrap();
                prop_assert_eq!(serde_json::from_str::<Usage>(&text).unwrap(), usage.clone());
            }
        }
    }
}

//! MPTCP on its first path alone: what it costs to have the options and nothing more.

use super::{Action, Event, Manage, View};

#[derive(Debug, Clone, Default)]
pub struct Single;

impl Manage for Single {
    fn observe(&mut self, _: Event, _: &View<'_>, _: &mut Vec<Action>) {}
}

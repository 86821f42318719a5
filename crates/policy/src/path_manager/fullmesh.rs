//! A subflow on every path that is up, opened once the connection stands and again when a path comes back.
//!
//! A subflow that was refused or died on a path that stayed up is not opened again: so does the in-kernel path manager,
//! which takes up an address anew only when it is added anew (net/mptcp/pm_kernel.c).

use super::{Action, Event, Manage, View};

#[derive(Debug, Clone, Default)]
pub struct Fullmesh;

/// Opens one subflow on each path that is up and has none.
pub(super) fn cover(view: &View<'_>, backup: bool, actions: &mut Vec<Action>) {
    for (path, p) in view.paths.iter().enumerate() {
        open(view, path, p.up, backup, actions);
    }
}

pub(super) fn open(
    view: &View<'_>,
    path: usize,
    up: bool,
    backup: bool,
    actions: &mut Vec<Action>,
) {
    if up && view.subflows_on(path) == 0 {
        actions.push(Action::Open { path, backup });
    }
}

impl Manage for Fullmesh {
    fn observe(&mut self, event: Event, view: &View<'_>, actions: &mut Vec<Action>) {
        match event {
            Event::Established => cover(view, false, actions),
            Event::PathUp(path) => open(view, path, view.paths[path].up, false, actions),
            _ => {}
        }
    }
}

//! A subflow on every path, all but the initial one's as backup: they carry data only while no normal subflow lives
//! (RFC 8684 section 3.3.8; Paasch et al. 2012, "backup mode").

use super::fullmesh::{cover, open};
use super::{Action, Event, Manage, View};

#[derive(Debug, Clone, Default)]
pub struct Backup;

impl Manage for Backup {
    fn observe(&mut self, event: Event, view: &View<'_>, actions: &mut Vec<Action>) {
        match event {
            Event::Established => cover(view, true, actions),
            Event::PathUp(path) => {
                let p = view.paths[path];
                open(view, path, p.up, p.initial != Some(true), actions);
            }
            _ => {}
        }
    }
}

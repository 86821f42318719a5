use proptest::prelude::*;

use super::fixture::{carry_out, established, view};
use super::*;

/// A connection and its paths; actions take effect at once.
struct World {
    manager: PathManager,
    paths: Vec<Path>,
    subflows: Vec<Subflow>,
    actions: Vec<Action>,
}

impl World {
    fn new(name: &str, paths: usize) -> World {
        World {
            manager: find(name).expect(name).build(),
            paths: fixture::paths(paths),
            subflows: vec![established(0)],
            actions: Vec::new(),
        }
    }

    fn on(&mut self, event: Event) -> &[Action] {
        self.actions.clear();
        let view = view(0, &self.paths, &self.subflows);
        self.manager.observe(event, &view, &mut self.actions);
        for action in &self.actions {
            carry_out(*action, &mut self.subflows);
        }
        &self.actions
    }

    fn up(&mut self, path: usize, up: bool) -> Vec<Action> {
        self.paths[path].up = up;
        if !up {
            for s in self.subflows.iter_mut().filter(|s| s.path == path) {
                s.state = State::Closed;
            }
        }
        self.on(if up {
            Event::PathUp(path)
        } else {
            Event::PathDown(path)
        })
        .to_vec()
    }
}

fn open(path: usize, backup: bool) -> Action {
    Action::Open { path, backup }
}

#[test]
fn every_name_is_found_once() {
    for e in all() {
        assert!(std::ptr::eq(find(e.name).unwrap(), e), "{} twice", e.name);
    }
    assert!(find("no-such").is_none());
}

#[test]
fn fullmesh_opens_the_other_paths_and_reopens_one_that_returns() {
    let mut w = World::new("fullmesh", 3);
    w.paths[2].up = false;
    assert_eq!(w.on(Event::Established), [open(1, false)]);
    assert_eq!(w.up(2, true), [open(2, false)]);
    assert_eq!(w.up(0, false), []);
    assert_eq!(w.up(0, true), [open(0, false)]);
}

#[test]
fn backup_keeps_all_but_the_initial_path_in_reserve() {
    let mut w = World::new("backup", 2);
    assert_eq!(w.on(Event::Established), [open(1, true)]);
    w.up(0, false);
    assert_eq!(w.up(0, true), [open(0, false)]);
    w.up(1, false);
    assert_eq!(w.up(1, true), [open(1, true)]);
}

#[test]
fn ndiffports_stays_on_the_initial_path() {
    let mut w = World::new("ndiffports", 2);
    assert_eq!(w.on(Event::Established), [open(0, false)]);
    assert_eq!(w.up(1, true), []);
    w.up(0, false);
    assert_eq!(w.up(0, true).len(), 2);
}

#[test]
fn single_does_nothing() {
    let mut w = World::new("single", 2);
    assert_eq!(w.on(Event::Established), []);
    assert_eq!(w.up(1, true), []);
}

proptest! {
    /// However paths come and go, nobody opens a subflow on a path that is down, nor one too many on any.
    #[test]
    fn opens_only_what_is_missing(
        paths in 1usize..5, steps in prop::collection::vec((0usize..5, any::<bool>()), 0..40), name in 0..all().len(),
    ) {
        let name = all()[name].name;
        let most = if name == "ndiffports" { 2 } else { 1 };
        let mut w = World::new(name, paths);
        w.on(Event::Established);
        for (path, up) in steps {
            let path = path % paths;
            if w.paths[path].up == up {
                continue;
            }
            for action in w.up(path, up) {
                if let Action::Open { path, .. } = action {
                    prop_assert!(w.paths[path].up);
                }
            }
            for p in 0..paths {
                let n = w.subflows.iter().filter(|s| s.state != State::Closed && s.path == p).count();
                prop_assert!(n <= most);
            }
        }
    }
}

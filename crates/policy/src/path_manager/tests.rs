use proptest::prelude::*;

use super::*;

/// A connection and its paths; actions take effect at once, unless `refuse` makes them fail.
struct World {
    manager: PathManager,
    paths: Vec<Path>,
    subflows: Vec<Subflow>,
    client: bool,
    actions: Vec<Action>,
}

impl World {
    fn new(name: &str, paths: usize) -> World {
        let path = |i: usize| Path {
            local: i as u8,
            remote: i as u8,
            up: true,
            primary: i == 0,
            ..Path::default()
        };
        World {
            manager: find(name).expect(name).build(),
            paths: (0..paths).map(path).collect(),
            subflows: vec![Subflow {
                state: State::Established,
                ..Subflow::default()
            }],
            client: true,
            actions: Vec::new(),
        }
    }

    fn on(&mut self, event: Event) -> &[Action] {
        self.actions.clear();
        let view = View {
            now_us: 0,
            paths: &self.paths,
            subflows: &self.subflows,
            bytes: 0,
            role: Role::Sender,
            connections: 1,
            began_us: None,
            client: self.client,
        };
        self.manager.observe(event, &view, &mut self.actions);
        for action in &self.actions {
            match *action {
                Action::Open { path, backup } => {
                    self.subflows.push(Subflow {
                        state: State::Established,
                        path,
                        backup,
                        ..Subflow::default()
                    });
                }
                Action::Close { slot } => self.subflows[slot].state = State::Closed,
                Action::SetBackup { slot, backup } => self.subflows[slot].backup = backup,
                Action::Probe { .. } | Action::Announce { .. } | Action::Wake { .. } => {}
            }
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
    assert_eq!(
        w.on(Event::Established),
        [Action::Open {
            path: 1,
            backup: false
        }]
    );
    assert_eq!(
        w.up(2, true),
        [Action::Open {
            path: 2,
            backup: false
        }]
    );
    assert_eq!(w.up(0, false), []);
    assert_eq!(
        w.up(0, true),
        [Action::Open {
            path: 0,
            backup: false
        }]
    );
}

#[test]
fn backup_keeps_all_but_the_primary_in_reserve() {
    let mut w = World::new("backup", 2);
    assert_eq!(
        w.on(Event::Established),
        [Action::Open {
            path: 1,
            backup: true
        }]
    );
    w.up(0, false);
    assert_eq!(
        w.up(0, true),
        [Action::Open {
            path: 0,
            backup: false
        }]
    );
    w.up(1, false);
    assert_eq!(
        w.up(1, true),
        [Action::Open {
            path: 1,
            backup: true
        }]
    );
}

#[test]
fn ndiffports_stays_on_the_primary_path() {
    let mut w = World::new("ndiffports", 2);
    assert_eq!(
        w.on(Event::Established),
        [Action::Open {
            path: 0,
            backup: false
        }]
    );
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

#[test]
fn a_server_opens_nothing() {
    for e in all() {
        let mut w = World::new(e.name, 3);
        w.client = false;
        assert_eq!(w.on(Event::Established), [], "{}", e.name);
        assert_eq!(w.up(1, true), [], "{}", e.name);
    }
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

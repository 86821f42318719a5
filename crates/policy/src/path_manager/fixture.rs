//! Paths, subflows and views for the tests of path managers.

use super::{Action, Path, Role, State, Subflow, View};

/// All up, each between addresses of its own; the first is the initial one.
pub fn paths(count: usize) -> Vec<Path> {
    let path = |i: usize| Path {
        up: true,
        initial: Some(i == 0),
        ..Path::default()
    };
    (0..count).map(path).collect()
}

pub fn established(path: usize) -> Subflow {
    Subflow {
        state: State::Established,
        path,
        ..Subflow::default()
    }
}

/// An upload of one connection that this end opened.
pub fn view<'a>(now_us: u64, paths: &'a [Path], subflows: &'a [Subflow]) -> View<'a> {
    View {
        now_us,
        role: Role::Sender,
        paths,
        subflows,
        bytes: 0,
        began_us: None,
    }
}

/// What an action does to the subflows, at once and without fail.
pub fn carry_out(action: Action, subflows: &mut Vec<Subflow>) {
    match action {
        Action::Open { path, backup } => subflows.push(Subflow {
            backup,
            ..established(path)
        }),
        Action::Close { slot } => subflows[slot].state = State::Closed,
        Action::SetBackup { slot, backup } => subflows[slot].backup = backup,
        Action::Probe { .. } | Action::Wake { .. } => {}
    }
}

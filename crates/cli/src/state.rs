//! The folder of what a user's commands keep: `$XDG_STATE_HOME/multipilot`.

use std::io::ErrorKind;
use std::path::PathBuf;

use crate::outcome::{Failure, Outcome};

/// [`path`], made if it does not exist.
pub fn folder() -> Outcome<PathBuf> {
    let folder = path()?;
    std::fs::create_dir_all(&folder).map_err(|e| match e.kind() {
        ErrorKind::PermissionDenied => Failure::Usage(format!(
            "{}: this user may not write there: give it a folder of its own in XDG_STATE_HOME",
            folder.display()
        )),
        _ => Failure::Run(format!("{}: {e}", folder.display())),
    })?;
    Ok(folder)
}

/// As the XDG base directory specification has it; it need not exist.
pub fn path() -> Outcome<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    let state = state.ok_or_else(|| {
        Failure::Usage("neither XDG_STATE_HOME nor HOME says where state is kept".into())
    })?;
    Ok(state.join("multipilot"))
}

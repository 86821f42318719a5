//! `report` of the Python package: it draws the record of a run.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::external;
use crate::outcome::print;

/// How to draw what lies in a folder.
pub fn hint(folder: &Path) -> String {
    let lacks = match external::find("report") {
        Some(_) => "",
        None => {
            "there is no multipilot-report on the PATH; the wheel brings it, or make python, then "
        }
    };
    format!("report: {lacks}multipilot report {}\n", folder.display())
}

/// Has the Python package draw what lies in a folder.
pub fn draw(folder: &Path) {
    let page = folder.join("report.html");
    let Some(program) = external::find("report") else {
        print(&hint(folder));
        return;
    };
    let done = Command::new(program)
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    match done {
        Ok(status) if status.success() && page.is_file() => {
            print(&format!("report: {}\n", page.display()))
        }
        _ => print(&format!(
            "report: multipilot report {} did not work; the record is complete without it\n",
            folder.display()
        )),
    }
}

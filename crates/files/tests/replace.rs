use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use mp_files::{replace, replace_durably, replace_private};

/// Where the child process below writes, again and again.
const WRITER: &str = "MP_FILES_TEST_WRITER";

/// Larger than one write of the kernel's, and alike all through.
fn content(round: u8) -> Vec<u8> {
    vec![round; 3 << 20]
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn the_new_content_stands_in_its_place_and_nothing_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    for (write, text) in [
        (replace as fn(&Path, &[u8]) -> _, "first"),
        (replace_durably, "second"),
        (replace, "third"),
    ] {
        write(&path, text.as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(names(folder.path()), ["state.json"]);
    }
    // As any file that is created here.
    let plain = folder.path().join("plain");
    fs::write(&plain, "").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&path), mode(&plain));
}

#[test]
fn what_cannot_be_replaced_stays_and_nothing_is_left_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taken");
    fs::create_dir_all(path.join("in use")).unwrap();
    assert!(replace(&path, b"new").is_err());
    assert!(replace_durably(&path, b"new").is_err());
    assert_eq!(names(folder.path()), ["taken"]);
    assert!(replace(&folder.path().join("not there").join("file"), b"new").is_err());
}

#[test]
fn a_private_file_is_its_owners_alone_and_stays_as_it_was_where_filling_it_fails() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    fs::write(&path, "old").unwrap();
    let failed = replace_private(&path, |fresh| {
        fresh.write_all(b"half")?;
        Err(std::io::Error::other("no more"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "no more");
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    replace_private(&path, |fresh| fresh.write_all(b"new")).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(names(folder.path()), ["keys"]);
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Not a test of its own: the process that the next one kills.
#[test]
fn writer() {
    let Some(path) = std::env::var_os(WRITER) else {
        return;
    };
    for round in (0..u8::MAX).cycle() {
        replace(Path::new(&path), &content(round)).unwrap();
        replace_durably(Path::new(&path), &content(round)).unwrap();
    }
}

#[test]
fn a_kill_in_mid_write_leaves_one_or_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    replace(&path, &content(0)).unwrap();
    for round in 0..12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["writer", "--exact"])
            .env(WRITER, &path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(40 + 7 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let found = fs::read(&path).unwrap();
        assert_eq!(found, content(found[0]));
    }
}

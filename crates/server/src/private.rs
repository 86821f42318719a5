//! What others on the host may not read: outcomes say where devices were, and tokens' hashes who they are.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::Error;

const OTHERS: u32 = 0o077;
/// One of them makes a folder this server's own.
const OURS: &[&str] = &["experience.db", "tokens"];

fn failed(path: &Path, e: &std::io::Error) -> Error {
    match e.kind() {
        std::io::ErrorKind::PermissionDenied => Error::Usage(format!(
            "{}: this user may not write there: run it as root, or give the server a folder of its own (--data)",
            path.display()
        )),
        _ => Error::Failed(format!("{}: {e}", path.display())),
    }
}

/// Makes the folder, or takes it from others where it is this server's or empty.
pub fn folder(path: &Path) -> Result<(), Error> {
    match fs::metadata(path) {
        Ok(meta) if !meta.is_dir() || is_closed(path) => return Ok(()),
        Ok(_) => {}
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let parents = path.parent().map_or(Ok(()), fs::create_dir_all);
            let made = parents.and_then(|()| DirBuilder::new().mode(0o700).create(path));
            return match made {
                Err(e) if !is_closed(path) => Err(failed(path, &e)),
                _ => Ok(()),
            };
        }
        Err(e) => return Err(failed(path, &e)),
    }
    let mut entries = fs::read_dir(path).map_err(|e| failed(path, &e))?;
    let ours = OURS.iter().any(|name| path.join(name).exists()) || entries.next().is_none();
    if ours && fs::set_permissions(path, Permissions::from_mode(0o700)).is_ok() {
        tracing::warn!("{}: others could look into it: closed", path.display());
        return Ok(());
    }
    // Another process closes the folder before it puts anything there: it may have done both since.
    if is_closed(path) {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{0}: others can look into it: chmod 700 {0}, or give the server a folder of its own (--data)",
        path.display()
    )))
}

/// A folder that others cannot look into.
fn is_closed(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_dir() && meta.permissions().mode() & OTHERS == 0)
}

/// Opens the file, made where it is missing, and takes it from others.
pub fn file(path: &Path, options: &mut OpenOptions) -> Result<File, Error> {
    let file = options.create(true).mode(0o600).open(path);
    let file = file.map_err(|e| failed(path, &e))?;
    close(path)?;
    Ok(file)
}

/// Takes a file, where there is one, from others.
pub fn close(path: &Path) -> Result<(), Error> {
    let open = |m: fs::Metadata| m.permissions().mode() & OTHERS != 0;
    if !fs::metadata(path).is_ok_and(open) {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(|e| {
        Error::Usage(format!(
            "{}: others can read it, and that cannot be changed: {e}",
            path.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn opened(path: &Path) {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_folder_that_several_take_at_once_is_theirs() {
        let parent = tempfile::tempdir().unwrap();
        for i in 0..200 {
            let path = parent.path().join(i.to_string());
            if i % 2 == 0 {
                fs::create_dir(&path).unwrap();
                opened(&path);
            }
            let start = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        start.wait();
                        folder(&path).unwrap();
                        fs::write(path.join("tokens"), "").unwrap();
                    });
                }
            });
            assert_eq!(mode(&path), 0o700);
        }
    }

    #[test]
    fn a_folder_is_made_private_and_made_private_again() {
        let parent = tempfile::tempdir().unwrap();
        let data = parent.path().join("a/b");
        folder(&data).unwrap();
        assert_eq!(mode(&data), 0o700);
        opened(&data);
        folder(&data).unwrap();
        assert_eq!(mode(&data), 0o700, "an empty one");
        fs::write(data.join("experience.db"), "").unwrap();
        fs::write(data.join("notes"), "").unwrap();
        opened(&data);
        folder(&data).unwrap();
        assert_eq!(mode(&data), 0o700, "one of a former version");
    }

    #[test]
    fn a_folder_of_somebody_elses_files_is_left_as_it_is() {
        let parent = tempfile::tempdir().unwrap();
        fs::write(parent.path().join("notes"), "").unwrap();
        opened(parent.path());
        let error = folder(parent.path()).unwrap_err().to_string();
        assert!(
            error.contains("chmod 700") && error.contains("--data"),
            "{error}"
        );
        assert_eq!(mode(parent.path()), 0o755);
    }

    #[test]
    fn a_file_that_others_could_read_is_closed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("experience.db");
        fs::write(&path, "kept").unwrap();
        opened(&path);
        file(&path, OpenOptions::new().write(true)).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(fs::read(&path).unwrap(), b"kept");
        close(&parent.path().join("nothing")).unwrap();
    }
}

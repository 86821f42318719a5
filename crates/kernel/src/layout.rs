//! For tests: clang compares the layout of structs in Rust with that of their originals in `controllers/bpf`.

use std::path::Path;
use std::process::Command;

/// Size in bytes, and each member with its place in bytes.
pub type Layout = (usize, Vec<(&'static str, usize)>);

/// `layout_of!(Type: field, …)`
macro_rules! layout_of {
    ($of:ty: $($field:ident),* $(,)?) => {
        (
            std::mem::size_of::<$of>(),
            vec![$((stringify!($field), std::mem::offset_of!($of, $field))),*],
        )
    };
}
pub(crate) use layout_of;

/// `sources` are files of `controllers/bpf` or of the kernel's headers for programs, in the order that C needs them; structs
/// are named as there.
pub fn assert_matches(sources: &[&str], structs: &[(&str, Layout)]) {
    let mut text = String::new();
    for source in sources {
        text += &format!("#include \"{source}\"\n");
    }
    for (name, (size, members)) in structs {
        text += &format!("_Static_assert(sizeof(struct {name}) == {size}, \"{name}\");\n");
        for (member, at) in members {
            text += &format!(
                "_Static_assert(__builtin_offsetof(struct {name}, {member}) == {at}, \"{name}.{member}\");\n"
            );
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("layout.bpf.c");
    std::fs::write(&file, text).unwrap();
    let headers = Path::new(mp_controllers::DIR).join("bpf");
    let output = Command::new(std::env::var("CLANG").unwrap_or_else(|_| "clang".into()))
        .args([
            "-target",
            "bpf",
            "-mcpu=v3",
            "-fsyntax-only",
            "-D__TARGET_ARCH_x86",
            "-I",
        ])
        .arg(headers)
        .args(["-I", env!("MP_BPF_INCLUDE")])
        // The compiler does not look there for the headers that a processor has of its own.
        .arg(format!(
            "-idirafter/usr/include/{}-linux-gnu",
            std::env::consts::ARCH
        ))
        .arg(file)
        .output()
        .expect("clang built this crate");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

//! Another program that registers a congestion controller of its own under a name that multipilot wants.

use std::fs;
use std::path::Path;
use std::process::Command;

use libbpf_rs::{Link, MapCore, Object, ObjectBuilder};

const SOURCE: &str = r#"
#define SEC(name) __attribute__((section(name), used))
struct sock;
struct tcp_congestion_ops {
    char name[16];
    unsigned (*ssthresh)(struct sock *);
    void (*cong_avoid)(struct sock *, unsigned, unsigned);
    unsigned (*undo_cwnd)(struct sock *);
};
char LICENSE[] SEC("license") = "GPL";
SEC("struct_ops") int theirs_ssthresh(unsigned long long *context) { return 2; }
SEC("struct_ops") int theirs_avoid(unsigned long long *context) { return 0; }
SEC("struct_ops") int theirs_undo(unsigned long long *context) { return 2; }
SEC(".struct_ops") struct tcp_congestion_ops theirs = {
    .name = NAME,
    .ssthresh = (void *)theirs_ssthresh,
    .cong_avoid = (void *)theirs_avoid,
    .undo_cwnd = (void *)theirs_undo,
};
"#;

/// Unregistered when dropped.
pub struct Foreign {
    name: String,
    _link: Link,
    _object: Object,
}

impl Foreign {
    pub fn register(name: &str) -> Foreign {
        let folder = tempfile::tempdir().unwrap();
        let (source, object) = (
            folder.path().join("theirs.c"),
            folder.path().join("theirs.o"),
        );
        fs::write(&source, SOURCE).unwrap();
        let status = Command::new("clang")
            .args(["-target", "bpf", "-O2", "-g", "-c"])
            .arg(format!("-DNAME=\"{name}\""))
            .arg(&source)
            .arg("-o")
            .arg(&object)
            .status();
        assert!(status.unwrap().success());
        let object = ObjectBuilder::default().open_file(&object).unwrap();
        let mut object = object.load().unwrap();
        let mut theirs = object
            .maps_mut()
            .find(|map| map.name() == "theirs")
            .unwrap();
        let link = theirs.attach_struct_ops().unwrap();
        Foreign {
            name: name.to_owned(),
            _link: link,
            _object: object,
        }
    }

    /// What multipilot has to say of it.
    pub fn complaint(&self) -> String {
        format!(
            "a congestion controller named {} is registered already, and not by multipilot: unregister it, or unload its module",
            self.name
        )
    }

    /// It is still there, and nothing of multipilot's under its name.
    #[track_caller]
    pub fn is_left_alone(&self) {
        let names =
            fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
        assert!(
            names.split_whitespace().any(|name| name == self.name),
            "{names}"
        );
        for folder in ["/run/multipilot/controllers", "/sys/fs/bpf/multipilot"] {
            let left = Path::new(folder).join(&self.name);
            assert!(!left.exists(), "{}", left.display());
        }
    }
}

//! The recipe of the OpenWrt package, as far as it can be tried without OpenWrt's build system: stand-ins take the place of
//! its make files and of procd.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::*;

fn recipe() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("packaging/openwrt/multipilot")
        .canonicalize()
        .unwrap()
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_recipe_installs_command_init_script_and_configuration() {
    let work = tempfile::tempdir().unwrap();
    let top = work.path();
    let make_file = |name: &str, text: &str| {
        let file = top.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    make_file(
        "rules.mk",
        "INCLUDE_DIR:=$(TOPDIR)/include\nPKG_INSTALL_DIR:=$(TOPDIR)/built\n\
         INSTALL_DIR:=install -d\nINSTALL_BIN:=install -m 755\nINSTALL_CONF:=install -m 600\n\
         SED:=sed -i -e\n",
    );
    make_file("include/package.mk", "");
    make_file("include/bpf.mk", "CLANG:=clang-for-bpf\n");
    make_file(
        "feeds/packages/lang/rust/rust-package.mk",
        "define Build/Compile/Cargo\ncompile $(1) with $(CARGO_PKG_VARS)\nendef\n\
         define BuildPackage\n\
         install:\n\t$$(call Package/$(1)/install,$$(TOPDIR)/root)\n\
         say:\n\t@echo '$(PKG_NAME) $(PKG_VERSION): $$(strip $$(Build/Compile))'\nendef\n",
    );
    make_file("built/bin/multipilot", "the command");
    let make = |target: &str| {
        let mut make = Command::new("make");
        make.arg("--silent").arg("-C").arg(recipe());
        make.arg(format!("TOPDIR={}", top.display()));
        output(make.arg("TARGET_CC_NOCACHE=gcc-for-router").arg(target))
    };
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        make("say").trim(),
        format!("multipilot {version}: compile crates/cli with CLANG=clang-for-bpf PRELOAD_CC=gcc-for-router")
    );
    assert!(recipe().join("../../../crates/cli/Cargo.toml").is_file());
    make("install");
    for (file, mode) in [
        ("usr/bin/multipilot", 0o755),
        ("etc/init.d/multipilot", 0o755),
        ("etc/multipilot/daemon.toml", 0o600),
    ] {
        let there = fs::metadata(top.join("root").join(file)).unwrap();
        assert_eq!(there.permissions().mode() & 0o777, mode, "{file}");
    }
    let config = top.join("root/etc/multipilot/daemon.toml");
    let common = fs::read_to_string(recipe().join("../../daemon.toml")).unwrap();
    let state = "[relay]\n# /var is lost in a reboot, and with it the key that the relay knows this router by.\n\
                 state = \"/etc/multipilot/state\"\n";
    let expected = common.replace("# [relay]\n", state);
    assert_ne!(expected, common);
    assert_eq!(fs::read_to_string(&config).unwrap(), expected);
    let mut check = Command::new(env!("CARGO_BIN_EXE_multipilot"));
    output(check.args(["daemon", "--check"]).arg(config));
}

#[test]
fn the_init_script_starts_the_daemon_in_the_foreground() {
    let script = recipe().join("files/multipilot.init");
    output(Command::new("sh").arg("-n").arg(&script));
    let say = "procd_open_instance() { :; }; procd_close_instance() { :; }
         procd_set_param() { echo \"$@\"; }
         procd_send_signal() { echo \"signal $*\"; }";
    let run = |what: &str| {
        let script = format!("{say}\n. {}\n{what}", script.display());
        output(Command::new("sh").args(["-euc", &script]))
    };
    let started = run("start_service; echo \"$USE_PROCD $START\"");
    assert!(started.ends_with("1 95\n"), "{started}");
    let line = |key: &str| {
        let lines = started.lines();
        let mut found = lines.filter_map(|l| l.strip_prefix(key));
        found.next().unwrap_or_else(|| panic!("{key}: {started}"))
    };
    // What it starts, and that the command has it.
    let words: Vec<&str> = line("command /usr/bin/multipilot ")
        .split_whitespace()
        .collect();
    assert_eq!(words, ["daemon"]);
    let reply = call(&[&words[..], &["--help"]].concat());
    assert_eq!(reply.code, 0, "{}", reply.err);
    let makefile = fs::read_to_string(recipe().join("Makefile")).unwrap();
    let kept = makefile.split("/conffiles\n").nth(1).unwrap();
    let kept: Vec<&str> = kept.lines().take_while(|l| *l != "endef").collect();
    assert!(kept.contains(&line("file ")), "{kept:?}");
    assert_eq!(run("reload_service"), "signal multipilot\n");
}

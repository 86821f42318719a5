//! Compiles every controller header for the kernel, and the preload shim, so that the binary carries them all.

#[path = "../controllers/src/entries.rs"]
#[allow(dead_code)]
mod entries;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

fn main() {
    let headers = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../controllers");
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    println!("cargo:rerun-if-changed={}", headers.display());
    println!("cargo:rerun-if-changed=../controllers/src/entries.rs");
    println!("cargo:rerun-if-changed=src/preload.c");
    println!("cargo:rerun-if-env-changed=CLANG");
    println!("cargo:rerun-if-env-changed=PRELOAD_CC");
    // For the tests that compare layouts.
    println!("cargo:rustc-env=MP_BPF_INCLUDE={}", bpf_headers());

    let mut names = Vec::new();
    let mut jobs = Vec::new();
    for entry in entries::ENTRIES {
        let name = entry.header();
        let mut defines = vec![
            format!("-DMP_HEADER=\"../{name}.h\""),
            format!("-DMP_NAME={name}"),
        ];
        if entry.kind == entries::Kind::Rate {
            defines.push("-DMP_RATE_BASED".into());
        }
        for source in ["glue", "proof"] {
            jobs.push(bpf(
                &headers,
                source,
                &defines,
                &out.join(format!("{name}.{source}.o")),
            ));
        }
        names.push(name);
    }
    for (object, define) in [
        ("contention", "-DMP_CAS"),
        ("contention-without-cas", "-DMP_NO_CAS"),
    ] {
        jobs.push(bpf(
            &headers,
            "contention",
            &[define.into()],
            &out.join(format!("{object}.o")),
        ));
    }
    for source in ["initial_path", "mark", "mptcpify", "transparent"] {
        jobs.push(bpf(&headers, source, &[], &out.join(format!("{source}.o"))));
    }
    jobs.push(shim(&out.join("preload.so")));
    for (what, mut job) in jobs {
        if !job.wait().is_ok_and(|status| status.success()) {
            fail(&format!(
                "clang could not compile {what}; its own messages are above"
            ));
        }
    }

    let table = |constant: &str, kind: &str| {
        let rows: String = names
            .iter()
            .map(|name| {
                let path = out.join(format!("{name}.{kind}.o"));
                format!(
                    "    ({:?}, include_bytes!({:?})),\n",
                    name.replace('_', "-"),
                    path
                )
            })
            .collect();
        format!("pub static {constant}: &[(&str, &[u8])] = &[\n{rows}];\n")
    };
    fs::write(out.join("objects.rs"), table("OBJECTS", "glue")).unwrap();
    fs::write(out.join("proofs.rs"), table("PROOFS", "proof")).unwrap();
}

fn bpf(headers: &Path, source: &str, defines: &[String], object: &Path) -> (String, Child) {
    let arch = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => "arm64",
        Ok("riscv64") => "riscv",
        _ => "x86",
    };
    let mut command = clang();
    // v3 of the instruction set (Linux 5.12) has the atomic operations that return what they saw.
    command
        .args([
            "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra",
        ])
        .args(strict())
        .args([
            "-Wno-unused-function",
            "-Wno-unused-parameter",
            "-Wno-sign-compare",
        ])
        .arg(format!("-D__TARGET_ARCH_{arch}"))
        .arg(format!(
            "-fdebug-prefix-map={}=controllers",
            headers.display()
        ))
        // libbpf's own headers, as unpacked by the build of libbpf-sys
        .arg(format!("-I{}", bpf_headers()))
        .args(defines)
        .arg("-c")
        .arg(headers.join(format!("bpf/{source}.bpf.c")))
        .arg("-o")
        .arg(object);
    (
        format!("controllers/bpf/{source}.bpf.c {}", defines.join(" ")),
        spawn(command),
    )
}

fn bpf_headers() -> String {
    env::var("DEP_BPF_INCLUDE").expect("libbpf-sys is a direct dependency")
}

fn shim(library: &Path) -> (String, Child) {
    // A clang may be for BPF alone, as OpenWrt's is.
    let mut command = match env::var("PRELOAD_CC") {
        Ok(compiler) => Command::new(compiler),
        Err(_) => {
            let mut clang = clang();
            clang.arg(format!("--target={}", env::var("TARGET").unwrap()));
            clang
        }
    };
    command
        .args([
            "-shared",
            "-fPIC",
            "-O2",
            "-Wall",
            "-Wextra",
            "-s",
            "src/preload.c",
            "-o",
        ])
        .arg(library)
        .args(strict());
    ("crates/kernel/src/preload.c".into(), spawn(command))
}

/// What a newer compiler warns of is for those who run the tests, and no reason not to build.
fn strict() -> Option<&'static str> {
    (env::var("PROFILE").as_deref() == Ok("debug")).then_some("-Werror")
}

fn clang() -> Command {
    Command::new(env::var("CLANG").unwrap_or_else(|_| "clang".into()))
}

fn spawn(mut command: Command) -> Child {
    command.spawn().unwrap_or_else(|error| {
        let program = command.get_program().to_string_lossy().into_owned();
        fail(&format!(
            "cannot run {program} ({error}): install clang 14 or later (apt-get install clang), or name it in CLANG"
        ))
    })
}

/// One line instead of a panic with its backtrace.
fn fail(message: &str) -> ! {
    eprintln!("error: {message}");
    std::process::exit(1)
}

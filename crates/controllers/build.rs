use std::env;
use std::path::Path;

fn main() {
    let headers = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../controllers");
    println!("cargo:rerun-if-changed=src/native.c");
    println!("cargo:rerun-if-changed={}", headers.display());
    cc::Build::new()
        .file("src/native.c")
        .include(headers)
        .opt_level(2) // the simulator calls these per ACK, in debug builds too
        .flag("-fno-strict-aliasing")
        .flag("-fwrapv") // as BPF wraps: both builds must agree on any words whatever
        .flag("-Wall")
        .flag("-Wextra")
        .flag("-Werror")
        .compile("mp_controllers");
}

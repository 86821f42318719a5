//! One hash over the sources that decide what the kernel world measures.

#[path = "../sources.rs"]
mod sources;

fn main() -> std::io::Result<()> {
    sources::export(&[
        "controllers",
        "crates/controllers/src",
        "crates/host/src",
        "crates/kernel/src",
        "crates/links/src",
        "crates/policy/actors",
        "crates/policy/src",
        "crates/record/src",
        "crates/scenario/src",
        "crates/testbed/src",
        "crates/wireless/src",
    ])
}

//! One hash over the sources that decide what the worlds of kernel and relay measure.

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
        "crates/relay/src",
        "crates/scenario/src",
        "crates/testbed/src",
        "crates/wireless/src",
    ])
}

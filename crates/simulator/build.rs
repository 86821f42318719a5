//! One hash over the sources that decide what the simulator measures.

#[path = "../sources.rs"]
mod sources;

fn main() -> std::io::Result<()> {
    sources::export(&[
        "controllers",
        "crates/controllers/src",
        "crates/links/src",
        "crates/policy/actors",
        "crates/policy/src",
        "crates/record/src",
        "crates/scenario/src",
        "crates/simulator/src",
        "crates/wireless/src",
    ])
}

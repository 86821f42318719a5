"""The Rust crates, bound. Use the functions of :mod:`multipilot`, which document these."""

__version__: str

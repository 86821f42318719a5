#![forbid(unsafe_code)]
//! The edge server.

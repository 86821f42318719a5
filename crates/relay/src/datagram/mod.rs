//! The datagram lane: UDP and ICMP echo as QUIC datagrams (RFC 9221), over one QUIC connection a link.
//!
//! [`packet`], [`parts`], [`echo`], [`flow`], [`meter`], [`window`], [`queue`], [`deal`], [`repeat`], [`order`] and [`repair`] have neither
//! I/O nor a clock. Flows that send little are copied on every path, and the copies dropped by their sequence number at the other end. The
//! packets of others, bulk, go where a scheduler says, and wait while all paths are full. Flows that mind the order get it back, and what a
//! path has lost is sent again once.

pub mod deal;
pub mod device;
pub mod echo;
pub mod flow;
pub mod meter;
pub mod order;
pub mod packet;
pub mod parts;
pub mod queue;
pub mod repair;
pub mod repeat;
pub mod window;

mod inbox;
mod outlet;
mod paths;
mod ping;
mod quic;
pub(crate) mod relay;

pub(crate) use quic::Endpoint;

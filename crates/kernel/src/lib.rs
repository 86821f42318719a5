pub mod mptcp_info;
pub mod pm;

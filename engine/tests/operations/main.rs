//! What the engine computes, by every way in.

mod curves;
mod devices;
mod ed25519;
mod fn_dsa;
mod hss;
mod identity;
mod many;
mod parallel;
mod single;
mod stateful_hss;
mod stateful_xmss;
mod verdicts;
mod x25519;
mod xmss;

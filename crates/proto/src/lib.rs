//! Tollgate's own gRPC service: messages, client and server, and the descriptors that reflection shows.
//!
//! What is in `generated` comes of `proto/` and is committed, so that a build needs neither `protoc` nor a build
//! script: users compile four small files less, and editors find the code. `tests/generated.rs` makes it anew and
//! compares; with `TOLLGATE_BLESS=1` it writes it.

/// The service `tollgate.v1.RateLimiter`.
pub mod v1 {
    #![allow(
        missing_docs,
        clippy::pedantic,
        reason = "generated; the comments of the .proto file say what is what"
    )]
    include!("generated/tollgate.v1.rs");
}

/// What all messages are.
pub use prost::Message;

/// The service as a `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/tollgate.v1.bin");

/// Envoy's services that are served beside it, as a `FileDescriptorSet`.
pub const ENVOY_DESCRIPTORS: &[u8] = include_bytes!("generated/envoy.bin");

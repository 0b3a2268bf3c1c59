//! What is committed is what the .proto file says.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use prost::Message;

#[test]
fn the_generated_files_are_those_of_the_proto_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let descriptors = protox::compile(["tollgate/v1/rate_limiter.proto"], [root.join("proto")]).unwrap();
    let made = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .build_transport(false)
        .out_dir(made.path())
        .compile_fds(descriptors.clone())
        .unwrap();
    std::fs::write(made.path().join("tollgate.v1.bin"), descriptors.encode_to_vec()).unwrap();
    for name in ["tollgate.v1.rs", "tollgate.v1.bin"] {
        let made = std::fs::read(made.path().join(name)).unwrap();
        let kept = root.join("src/generated").join(name);
        if std::env::var_os("TOLLGATE_BLESS").is_some() {
            std::fs::write(kept, made).unwrap();
        } else {
            assert!(
                std::fs::read(&kept).unwrap() == made,
                "{name} is not what proto/ says: run with TOLLGATE_BLESS=1"
            );
        }
    }
}

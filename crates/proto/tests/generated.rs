//! What is committed is what the .proto files say.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use prost::Message;

#[test]
fn the_generated_files_are_those_of_the_proto_file() {
    let descriptors = protox::compile(["tollgate/v1/rate_limiter.proto"], [root().join("proto")]).unwrap();
    let made = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .build_transport(false)
        .out_dir(made.path())
        .compile_fds(descriptors.clone())
        .unwrap();
    compare("tollgate.v1.bin", &descriptors.encode_to_vec());
    compare(
        "tollgate.v1.rs",
        &std::fs::read(made.path().join("tollgate.v1.rs")).unwrap(),
    );
}

#[test]
fn the_descriptors_of_envoys_services_are_those_of_its_proto_files() {
    let protos = envoy_types().join("proto");
    let includes = ["data-plane-api", "googleapis", "protoc-gen-validate", "xds"].map(|dir| protos.join(dir));
    let services = [
        "envoy/service/ratelimit/v3/rls.proto",
        "envoy/service/auth/v3/external_auth.proto",
        "envoy/service/rate_limit_quota/v3/rlqs.proto",
    ];
    let descriptors = protox::Compiler::new(includes)
        .unwrap()
        .include_imports(true)
        .open_files(services)
        .unwrap()
        .encode_file_descriptor_set();
    compare("envoy.bin", &descriptors);
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where the crate lies that has Envoy's messages, and the files that they are made of.
fn envoy_types() -> PathBuf {
    // Crates for other platforms were never fetched where only this one's are built.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", &platform])
        .current_dir(root())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let manifest = text
        .split('"')
        .find(|text| text.contains("/envoy-types-") && text.ends_with("/Cargo.toml"));
    Path::new(manifest.unwrap()).parent().unwrap().to_owned()
}

#[track_caller]
fn compare(name: &str, made: &[u8]) {
    let kept = root().join("src/generated").join(name);
    if std::env::var_os("TOLLGATE_BLESS").is_some() {
        std::fs::write(kept, made).unwrap();
    } else {
        assert!(
            std::fs::read(&kept).unwrap() == made,
            "{name} is not what the .proto files say: run with TOLLGATE_BLESS=1"
        );
    }
}

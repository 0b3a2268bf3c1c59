//! The worked example, replayed whole: twenty apps of a hundred requests a second use up a million a day after
//! exactly 500 seconds, and not one request before is denied.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::process::Stdio;

use common::process::program;
use tempfile::TempDir;

const POLICIES: &str = "tiers: [{tier: Enterprise}]
orgs: [{orgId: acme, tier: Enterprise}]
policies:
  - {id: enterprise-org-day, orgTier: Enterprise, scope: org, algorithm: quota, limit: 1000000, window: day}
  - {id: app-rate, scope: app, algorithm: token_bucket, limit: 100, burst: 200, window: 1s}
";

/// 2024-07-15T09:00:00Z.
const START: u64 = 1_721_034_000_000;
const SECONDS: u64 = 501;
const APPS: u64 = 20;

/// Every app once in ten milliseconds: a hundred a second.
fn record(file: &mut impl std::io::Write) {
    let mut lines = String::new();
    for at in (START..START + SECONDS * 1_000).step_by(10) {
        lines.clear();
        for app in 0..APPS {
            let _ = writeln!(
                lines,
                "{{\"at\":{at},\"orgId\":\"acme\",\"appId\":\"app-{app}\"}}"
            );
        }
        file.write_all(lines.as_bytes())
            .expect("a file that can be written");
    }
}

#[test]
fn a_million_a_day_lasts_500_seconds_and_then_the_quota_denies() {
    let dir = TempDir::new().unwrap();
    let (policies, requests) = (
        dir.path().join("policies.yaml"),
        dir.path().join("requests.jsonl"),
    );
    std::fs::write(&policies, POLICIES).unwrap();
    let mut file = std::io::BufWriter::new(std::fs::File::create(&requests).unwrap());
    record(&mut file);
    file.flush().unwrap();
    let mut child = program(&["simulate", "--policies"])
        .arg(&policies)
        .arg("--requests")
        .arg(&requests)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = BufReader::with_capacity(1 << 18, child.stdout.take().unwrap());
    let (mut count, mut denied, mut first_denial) = (0_u64, 0_u64, None);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).unwrap() > 0 {
        // Parsing a million answers would take longer than making them; the denied ones are looked at.
        let allowed = line.windows(14).take(64).any(|part| part == b"\"allowed\":true");
        if !allowed {
            denied += 1;
            first_denial.get_or_insert_with(|| (count, String::from_utf8(line.clone()).unwrap()));
        }
        count += 1;
        line.clear();
    }
    let output = child.wait_with_output().unwrap();
    let summary = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{summary}");
    assert_eq!(count, SECONDS * 1_000 / 10 * APPS);
    let (before, denial) = first_denial.expect("a denial");
    assert_eq!(before, 1_000_000, "all before are allowed");
    assert_eq!(denied, count - before, "and none after");
    let denial: serde_json::Value = serde_json::from_str(&denial).unwrap();
    assert_eq!(denial["allowed"], false);
    assert_eq!(denial["policyId"], "enterprise-org-day");
    assert_eq!(denial["scope"], "org");
    assert_eq!(denial["at"], START + 500_000);
    assert_eq!(denial["retryAfterMs"], 15 * 3_600_000 - 500_000, "until midnight");
    assert!(
        summary.contains("enterprise-org-day binds first, after 8 min 20 s (at 2024-07-15T09:08:20Z)"),
        "{summary}"
    );
}

//! PostgreSQL over TLS: a server that takes nothing else, with a certificate of an authority of the test's own.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tollgate_catalog::repository::{Kind, Repository};

use crate::database::{put, write};
use crate::postgres::Postgres;

/// An authority.
type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A server whose certificate is for this name only.
fn server(authority: &Authority, name: &str) -> Postgres {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new([name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    Postgres::start_secure(&certificate.pem(), &key.serialize_pem())
}

/// An authority's certificate in a file, as `sslrootcert` wants it.
fn file(directory: &TempDir, name: &str, authority: &Authority) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::write(&path, authority.pem()).unwrap();
    path
}

/// Opens, writes and reads; the error is what the database's driver says.
async fn used(url: &str) -> Result<(), String> {
    let repository = Repository::open(url).await.map_err(|error| error.to_string())?;
    let revision = repository.head().await.map_err(|error| error.to_string())?;
    assert!(write(&repository, &[put(Kind::Tier, "", "gold", "{}")]).await > revision);
    repository.close().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_sslmode_means_what_it_says() {
    let directory = TempDir::new().unwrap();
    let (ours, another) = (authority("ours"), authority("another"));
    let (good, bad) = (
        file(&directory, "ours.pem", &ours),
        file(&directory, "another.pem", &another),
    );
    let (good, bad) = (good.display(), bad.display());
    let right = server(&ours, "127.0.0.1");
    let database = right.create();
    for (options, works) in [
        ("sslmode=disable".to_owned(), false),
        (String::new(), true),
        ("sslmode=prefer".to_owned(), true),
        ("sslmode=require".to_owned(), true),
        (format!("sslmode=verify-ca&sslrootcert={good}"), true),
        (format!("sslmode=verify-ca&sslrootcert={bad}"), false),
        ("sslmode=verify-ca".to_owned(), false),
        (format!("sslmode=verify-full&sslrootcert={good}"), true),
        (format!("sslmode=verify-full&sslrootcert={bad}"), false),
        ("sslmode=verify-full".to_owned(), false),
        ("sslmode=verify-full&sslrootcert=/no/such/file".to_owned(), false),
    ] {
        let used = used(&format!("{database}?{options}")).await;
        assert_eq!(used.is_ok(), works, "{options}: {used:?}");
    }
    let elsewhere = server(&ours, "db.example");
    let database = elsewhere.create();
    for (mode, works) in [("verify-ca", true), ("verify-full", false)] {
        let used = used(&format!("{database}?sslmode={mode}&sslrootcert={good}")).await;
        assert_eq!(
            used.is_ok(),
            works,
            "{mode} with another host's certificate: {used:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn news_of_changes_come_over_tls_too() {
    let directory = TempDir::new().unwrap();
    let ours = authority("ours");
    let root = file(&directory, "ours.pem", &ours);
    let server = server(&ours, "127.0.0.1");
    let url = format!(
        "{}?sslmode=verify-full&sslrootcert={}",
        server.create(),
        root.display()
    );
    let (one, other) = (
        Repository::open(&url).await.unwrap(),
        Repository::open(&url).await.unwrap(),
    );
    let mut changes = other.changes().await.unwrap();
    write(&one, &[put(Kind::Tier, "", "gold", "{}")]).await;
    let patience = std::time::Duration::from_secs(20);
    tokio::time::timeout(patience, changes.next())
        .await
        .expect("news of the change");
    let question = "SELECT COUNT(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
         WHERE ssl AND query LIKE 'LISTEN %'";
    let count: u32 = server
        .sql(url.split('?').next().unwrap(), question)
        .parse()
        .unwrap();
    assert_eq!(count, 1);
}

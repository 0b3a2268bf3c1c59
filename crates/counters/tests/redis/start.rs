//! Connecting: what is refused, and in which words; and starting without Redis.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tollgate_counters::redis::{Redis, Settings, StartError, Trouble, Value, Why, tag_of_slot};

use crate::node::{connect, count, impatient, not_run, refused, settings, until, until_counted};
use crate::servers::{Cluster, Identity, Server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_would_forget_counters_is_refused_unless_it_is_allowed() {
    for policy in ["allkeys-lru", "volatile-ttl"] {
        let server = Server::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", policy]);
        let error = refused(settings(&server.url())).await;
        assert_eq!(
            error.to_string(),
            format!(
                "Redis at {} has maxmemory-policy {policy}, by which it forgets counters and lets too much through; \
                 set it to noeviction, or allow eviction",
                server.address()
            )
        );
        assert!(!error.may_pass());
        let mut allowing = settings(&server.url());
        allowing.allow_eviction = true;
        let redis = Redis::connect(allowing).await.unwrap();
        assert_eq!(count(&redis, "a").await, Ok(Value::Int(1)));
    }
    let server = Server::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "noeviction"]);
    connect(&server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_and_passwords_have_to_be_right_and_are_never_shown() {
    let server = Server::start_with(&["--requirepass", "secret"]);
    let client = |words: &[&str]| server.run(&[&["--pass", "secret", "--no-auth-warning"], words].concat());
    let rules = ["on", ">hidden", "~*", "+@all"];
    assert_eq!(
        client(&[&["ACL", "SETUSER", "tollgate"], &rules[..]].concat()),
        "OK"
    );
    assert_eq!(
        client(&[&["ACL", "SETUSER", "nobody"], &rules[..], &["-info"]].concat()),
        "OK"
    );
    let at = server.address();
    for login in [":secret@", "default:secret@", "tollgate:hidden@"] {
        let redis = connect(&format!("redis://{login}{at}")).await;
        assert!(count(&redis, "a").await.is_ok(), "{login}");
    }
    for (login, what) in [
        ("", "NOAUTH"),
        (":hidden@", "WRONGPASS"),
        ("tollgate:secret@", "WRONGPASS"),
        ("nobody:hidden@", "INFO"),
    ] {
        let settings = settings(&format!("redis://{login}{at}"));
        let shown = format!("{settings:?}");
        let error = refused(settings).await;
        assert!(
            matches!(
                &error,
                StartError::Server {
                    trouble: Trouble::Refused(_),
                    ..
                }
            ),
            "{error:?}"
        );
        assert!(!error.may_pass());
        let text = format!("{error} {error:?} {shown}");
        assert!(text.contains(what) && text.contains(&at), "{text}");
        assert!(!text.contains("secret") && !text.contains("hidden"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_and_the_wrong_kind_of_address_are_refused() {
    let server = Server::start();
    let alone = refused(settings(&server.url().replace("redis://", "redis-cluster://"))).await;
    assert!(
        alone
            .to_string()
            .ends_with("is not part of a Cluster; its URL must begin with redis://"),
        "{alone}"
    );
    let member = Server::start_with(&["--cluster-enabled", "yes"]);
    let wrong = refused(settings(&member.url())).await;
    assert!(
        wrong
            .to_string()
            .contains("is part of a Cluster; its URL must begin with redis-cluster://"),
        "{wrong}"
    );
    server.ok(&["REPLICAOF", "127.0.0.1", "1"]);
    let replica = refused(settings(&server.url())).await;
    assert!(
        replica.to_string().ends_with("is a replica, not a primary") && replica.may_pass(),
        "{replica}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_or_silent_is_reported_and_connected_to_later() {
    let mut server = Server::start();
    server.pause();
    let mut hasty = impatient(&server.url());
    hasty.connect_timeout = std::time::Duration::from_millis(50);
    let silent = refused(hasty).await;
    assert!(
        silent.to_string().ends_with("does not answer in time") && silent.may_pass(),
        "{silent}"
    );
    server.kill();
    let away = refused(settings(&server.url())).await;
    assert!(
        away.to_string().contains("can't be reached: Connection refused") && away.may_pass(),
        "{away}"
    );
    let redis = Redis::later(settings(&server.url())).unwrap();
    let early = count(&redis, "a").await;
    assert!(
        [not_run(Why::NotConnected), not_run(Why::Open)].contains(&early),
        "{early:?}"
    );
    server.start_again();
    assert_eq!(until_counted(&redis, "a").await, Value::Int(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_to_another_database_stay_there() {
    let server = Server::start();
    let redis = connect(&format!("{}/3", server.url())).await;
    assert!(count(&redis, "a").await.is_ok());
    assert_eq!(server.run(&["EXISTS", "a"]), "0");
    assert_eq!(server.run(&["-n", "3", "GET", "a"]), "1");
    let error = refused(settings(&format!("{}/99", server.url()))).await;
    assert!(error.to_string().contains("SELECT"), "{error}");
}

/// An authority's certificate, and one of it for this machine.
fn identity() -> Identity {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    Identity {
        authority: authority.pem(),
        certificate: server.signed_by(&key, &authority).unwrap().pem(),
        key: key.serialize_pem(),
    }
}

/// Settings that trust an identity's authority.
fn trusting(url: &str, identity: &Identity) -> Settings {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(identity.authority.as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut settings = settings(url);
    settings.tls = Some(Arc::new(config));
    settings
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_spoken_with_servers_whose_authority_is_trusted() {
    let ours = identity();
    let server = Server::start_secure(&ours, &[]);
    let redis = Redis::connect(trusting(&server.url(), &ours)).await.unwrap();
    assert_eq!(count(&redis, "a").await, Ok(Value::Int(1)));
    assert_eq!(server.run(&["GET", "a"]), "1");
    let error = refused(trusting(&server.url(), &identity())).await;
    assert!(error.to_string().contains("certificate"), "{error}");
    let error = refused(settings(&server.url())).await;
    assert!(
        error.to_string().contains("certificate") || matches!(error, StartError::Tls(_)),
        "{error}"
    );
    // Without TLS it is no Redis.
    let plain = refused(settings(&server.url().replace("rediss", "redis"))).await;
    assert!(plain.to_string().contains(&server.address()), "{plain}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_spoken_with_every_server_of_a_cluster() {
    let ours = identity();
    let cluster = Cluster::start_secure(&ours);
    let redis = Redis::connect(trusting(&cluster.url(), &ours)).await.unwrap();
    for slot in [0, 8000, 16000] {
        let key = format!("{{{}}}", tag_of_slot(slot));
        assert_eq!(count(&redis, &key).await, Ok(Value::Int(1)));
    }
    cluster.begin_to_move(0, 0, 1);
    cluster.end_move(0, 0, 1);
    let key = format!("{{{}}}", tag_of_slot(0));
    assert_eq!(
        count(&redis, &key).await,
        Ok(Value::Int(2)),
        "redirects lead to ports of TLS too"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_a_client_that_is_dropped() {
    let server = Server::start();
    let redis = connect(&server.url()).await;
    assert_eq!(server.info("connected_clients"), "2");
    drop(redis);
    until("the connection to be closed", async || {
        server.info("connected_clients") == "1"
    })
    .await;
}

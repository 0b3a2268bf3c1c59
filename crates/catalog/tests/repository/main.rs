//! The catalogue's database: every case runs on SQLite and on a real PostgreSQL server.
#![allow(clippy::unwrap_used, clippy::expect_used)] // The cases are not themselves marked as tests.

mod address;
mod changes;
mod concurrency;
mod database;
mod entries;
mod idempotency;
mod journal;
mod ledger;
mod migrations;
mod postgres;
mod tls;
mod verify;

/// Makes a test of each case on SQLite, and one of all of them on PostgreSQL, where a server is started for the
/// test and a database made for the case.
macro_rules! cases {
    ($($case:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::$case(crate::database::Database::sqlite()).await;
                }
            )+
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn postgres() {
            let server = crate::postgres::Postgres::start();
            $(
                println!("{}", stringify!($case));
                $case(crate::database::Database::postgres(&server)).await;
            )+
        }
    };
}
use cases;

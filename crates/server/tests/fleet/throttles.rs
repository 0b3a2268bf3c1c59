//! `CL.THROTTLE` on several nodes: one bucket for all of them.

use crate::common::{Server, file_of};
use crate::servers;

fn throttle(node: &Server, key: &str, numbers: &[i64]) -> (i64, i64, i64, i64, i64) {
    let url = format!("redis://{}", node.resp.unwrap());
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let mut command = redis::cmd("CL.THROTTLE");
    command.arg(key).arg(numbers).query(&mut connection).unwrap()
}

#[test]
fn nodes_share_a_keys_bucket_and_go_on_alone_without_redis() {
    let redis = servers::Server::start();
    let node = || {
        let flags = ["--redis", &redis.url(), "--resp", "127.0.0.1:0"];
        Server::start(&file_of(&[]), &flags)
    };
    let nodes = [node(), node(), node()];
    let ask = |place: usize, key: &str| throttle(&nodes[place % 3], key, &[99, 1, 3600]);
    let says: Vec<_> = (0..300).map(|place| ask(place, "user")).collect();
    let allowed = says.iter().filter(|says| says.0 == 0).count();
    // What lies on lease with one node can't be spent by another, but nothing is spent twice.
    assert!((80..=100).contains(&allowed), "{allowed}");
    for (limited, limit, _, retry, reset) in says {
        assert_eq!(limit, 100);
        assert_eq!(limited == 1, retry >= 0, "{retry}");
        assert!(reset <= 360_000, "{reset}");
    }
    // Another key has a bucket of its own.
    assert_eq!(ask(0, "another").0, 0);
    // More than it holds is never let through, and no wait is told.
    let (limited, _, _, retry, _) = throttle(&nodes[0], "user", &[99, 1, 3600, 101]);
    assert_eq!((limited, retry), (1, -1));
    drop(redis);
    let alone = ask(0, "a key that nobody knows yet");
    assert_eq!((alone.0, alone.1), (0, 100));
}

//! Reserving and settling, as somebody does who has work to do.

use serde_json::{Value, json};

use crate::common::http::Ask;
use crate::common::{Answer, Server};

impl Server {
    pub fn post(&self, route: &str, body: &Value) -> Answer {
        self.ask("POST", route).body(body.to_string()).send()
    }

    pub fn post_keyed(&self, route: &str, key: &str, body: &Value) -> Answer {
        self.ask_keyed(route, key, body).send()
    }

    pub fn ask_keyed(&self, route: &str, key: &str, body: &Value) -> Ask {
        let ask = self.ask("POST", route).header("Idempotency-Key", key);
        ask.body(body.to_string())
    }

    /// Reserves what must be allowed, and says its name.
    pub fn reserve(&self, body: &Value) -> String {
        let reserved = self.post("/v1/reserve", body).expect(200);
        assert_eq!(reserved["allowed"], true, "{reserved}");
        reserved["reservationId"].as_str().unwrap().to_owned()
    }

    pub fn settle(&self, name: &str, cost: u64) -> Answer {
        self.post("/v1/settle", &json!({"reservationId": name, "actualCost": cost}))
    }
}

//! An org that asks: each answer is held against its book. After a wrong one the org asks no more.

use serde_json::{Value, json};

use crate::book::{Book, Charge, Fault, Quota, Scope, Sums};
use crate::calendar::text;
use crate::common::DEADLINE;
use crate::world::World;

/// How long a reservation may stay open: the most there is.
const TTL_MS: i64 = 3_600_000;

/// An org.
pub struct Org {
    pub id: String,
    pub book: Book,
    /// What is reserved, by its name, and what was so until it expired.
    reserved: Vec<(String, Charge)>,
    expired: Vec<(String, Charge)>,
    /// Checks that can be refunded, by their key.
    keyed: Vec<(String, Charge)>,
    keys: usize,
    history: Vec<String>,
    pub fault: Option<Fault>,
    /// The server was killed: what it had not told is in no statement.
    pub killed: bool,
    /// Another process than the one that reserved may settle it.
    pub moved: bool,
}

impl Org {
    pub fn new(id: &str, book: Book) -> Self {
        Self {
            id: id.to_owned(),
            book,
            reserved: Vec::new(),
            expired: Vec::new(),
            keyed: Vec::new(),
            keys: 0,
            history: Vec::new(),
            fault: None,
            killed: false,
            moved: false,
        }
    }

    /// The org, as a line of a policy file. It is alone in its tier.
    pub fn line(&self) -> String {
        let calendar = &self.book.calendar;
        let (zone, anchor) = (calendar.zone.name, calendar.anchor());
        format!(
            "{{orgId: {0}, tier: {0}, timezone: {zone}, billingAnchor: \"{anchor}\"}}",
            self.id
        )
    }

    /// Its quotas, as lines of a policy file.
    pub fn policies(&self) -> Vec<String> {
        let line = |quota: &Quota| {
            let (scope, window) = (quota.scope.word(), quota.window.word());
            let exact = if quota.exact { ", accuracy: exact" } else { "" };
            format!(
                "{{id: {}, orgTier: {}, scope: {scope}, algorithm: quota, window: {window}, timezone: org, \
                 limit: {}, mode: {}{exact}}}",
                quota.id, self.id, quota.limit, quota.mode
            )
        };
        self.book.quotas.iter().map(line).collect()
    }

    fn body(&self, caller: usize, cost: u64) -> Value {
        json!({
            "orgId": self.id,
            "appId": format!("app-{caller}"),
            "keyId": format!("key-{caller}"),
            "userId": format!("user-{caller}"),
            "cost": cost,
        })
    }

    /// Does something unless an answer was wrong before, and notes what came of it.
    fn step(&mut self, world: &World, what: &str, step: impl FnOnce(&mut Self) -> Result<(), Fault>) {
        if self.fault.is_some() {
            return;
        }
        let now = world.clock.now();
        self.history
            .push(format!("{}.{:03} {what}", text(now / 1_000), now % 1_000));
        if let Err(fault) = step(self) {
            let calendar = &self.book.calendar;
            let steps = self.history.join("\n  ");
            self.fault = Some(format!(
                "{} ({}, billed on the {} at {}) was told wrong:\n  {steps}\n  {fault}",
                self.id, calendar.zone.name, calendar.day, calendar.time
            ));
        }
    }

    /// Asks for a decision; a cost of 0 only looks.
    pub fn check(&mut self, world: &World, caller: usize, cost: u64) {
        self.step(world, &format!("caller {caller} takes {cost}"), |org| {
            let timed = world.post("/v1/check", None, &org.body(caller, cost));
            org.book.decided(caller, cost, &timed).map(|_| ())
        });
    }

    /// Asks for a decision that can be refunded.
    pub fn check_keyed(&mut self, world: &World, caller: usize, cost: u64) {
        self.step(
            world,
            &format!("caller {caller} takes {cost}, with a key"),
            |org| {
                org.keys += 1;
                let key = format!("{}-{}", org.id, org.keys);
                let timed = world.post("/v1/check", Some(&key), &org.body(caller, cost));
                let charge = org.book.decided(caller, cost, &timed)?;
                org.keyed.extend(charge.map(|charge| (key, charge)));
                Ok(())
            },
        );
    }

    /// Refunds all checks that can be: for an hour.
    pub fn refund(&mut self, world: &World) {
        for (key, charge) in std::mem::take(&mut self.keyed) {
            self.step(world, &format!("refunds {}", charge.cost), |org| {
                let body = json!({"orgId": org.id, "idempotencyKey": key});
                let timed = world.post("/v1/refund", None, &body);
                match timed.answer.status {
                    200 if timed.sent - charge.at < TTL_MS => {
                        org.book.give_back(&charge, charge.cost, timed.heard);
                    }
                    404 if timed.sent - charge.at > TTL_MS => {}
                    status => return Err(format!("{status}: {}", timed.answer.text())),
                }
                Ok(())
            });
        }
    }

    /// Reserves something.
    pub fn reserve(&mut self, world: &World, caller: usize, cost: u64) {
        self.step(world, &format!("caller {caller} reserves {cost}"), |org| {
            let mut body = org.body(caller, cost);
            body["ttlMs"] = TTL_MS.into();
            let timed = world.post("/v1/reserve", None, &body);
            let Some(charge) = org.book.decided(caller, cost, &timed)? else {
                return Ok(());
            };
            let name = timed.answer.json()["reservationId"].as_str().map(str::to_owned);
            let name = name.ok_or_else(|| format!("no name: {}", timed.answer.text()))?;
            org.book.reserve(&charge, true);
            org.reserved.push((name, charge));
            Ok(())
        });
    }

    /// Settles all that is reserved: a part of it was used. What has expired is charged in full.
    pub fn settle(&mut self, world: &World) {
        self.expire(world);
        for (name, charge) in std::mem::take(&mut self.reserved) {
            let used = charge.cost / 3;
            self.step(world, &format!("settles {used} of {}", charge.cost), |org| {
                let body = json!({"reservationId": name, "actualCost": used});
                let timed = world.post("/v1/settle", None, &body);
                org.book.reserve(&charge, false);
                org.book.give_back(&charge, charge.cost - used, timed.heard);
                let settled = &timed.answer;
                (settled.status == 200)
                    .then_some(())
                    .ok_or_else(|| settled.text().to_owned())
            });
        }
        for (name, charge) in std::mem::take(&mut self.expired) {
            self.step(world, &format!("settles {}, too late", charge.cost), |_| {
                let body = json!({"reservationId": name, "actualCost": 0});
                let settled = world.post("/v1/settle", None, &body).answer;
                (settled.status == 410)
                    .then_some(())
                    .ok_or_else(|| settled.text().to_owned())
            });
        }
    }

    /// What was reserved for too long is charged in full.
    fn expire(&mut self, world: &World) {
        let now = world.clock.now();
        let over = |(_, charge): &mut (String, Charge)| now - charge.at > TTL_MS;
        let expired: Vec<(String, Charge)> = self.reserved.extract_if(.., over).collect();
        for (_, charge) in &expired {
            self.book.reserve(charge, false);
        }
        self.expired.extend(expired);
    }

    /// What is reserved on a node that ends is charged in full, and no longer reserved.
    pub fn forget_reserved(&mut self) {
        for (_, charge) in &self.reserved {
            self.book.reserve(charge, false);
        }
        self.reserved.clear();
        self.keyed.clear();
    }

    /// Corrects what was used of a quota by the first caller.
    pub fn correct(&mut self, world: &World, quota: usize, used: u64) {
        let place = self.book.place(quota, 0);
        self.step(
            world,
            &format!("{}: {used} was used", self.book.quotas[quota].id),
            |org| {
                let items = org.shown(world)?;
                let item = org
                    .item(&items, quota, 0)
                    .ok_or_else(|| format!("not shown: {items:?}"))?;
                let id = item["quotaId"].as_str().ok_or_else(|| format!("no id: {item}"))?;
                let target = format!("/v1/orgs/{}/quotas/{id}/corrections", org.id);
                let correction = json!({"used": used, "reason": "time travel"});
                let answer = world.server.platform_admin().post(&target, &correction);
                if answer.status != 200 {
                    return Err(format!("{}: {}", answer.status, answer.text()));
                }
                let count = org.book.counts.entry(place).or_default();
                count.used = used + count.reserved;
                Ok(())
            },
        );
    }

    fn shown(&self, world: &World) -> Result<Vec<Value>, Fault> {
        let answer = world
            .server
            .platform_admin()
            .get(&format!("/v1/orgs/{}/quotas", self.id));
        match answer.json()["items"].as_array() {
            Some(items) => Ok(items.clone()),
            None => Err(answer.text().to_owned()),
        }
    }

    fn item<'i>(&self, items: &'i [Value], quota: usize, caller: usize) -> Option<&'i Value> {
        let quota = &self.book.quotas[quota];
        let name = quota.scope.word();
        let is_callers = |item: &Value| {
            quota.scope == Scope::Org || item[format!("{name}Id")] == format!("{name}-{caller}")
        };
        items
            .iter()
            .find(|item| item["policyId"] == quota.id.as_str() && is_callers(item))
    }

    /// Looks at what is shown of the quotas.
    pub fn look_at_quotas(&mut self, world: &World) {
        if !world.stores.has_ledger() {
            return;
        }
        self.expire(world);
        self.step(world, "looks at its quotas", |org| org.hold_against_quotas(world));
    }

    /// Looks at what is shown of the quotas until it is right: what another node reserved comes back with the next exchange.
    pub fn wait_for_quotas(&mut self, world: &World) {
        if !world.stores.has_ledger() {
            return;
        }
        self.expire(world);
        let begun = std::time::Instant::now();
        self.step(world, "waits for its quotas", |org| {
            loop {
                match org.hold_against_quotas(world) {
                    Err(_) if begun.elapsed() < DEADLINE / 2 => {
                        world.clock.wait_until(world.clock.now() + 20);
                    }
                    seen => return seen,
                }
            }
        });
    }

    fn hold_against_quotas(&mut self, world: &World) -> Result<(), Fault> {
        let sent = world.clock.now();
        let items = self.shown(world)?;
        let times = (sent, world.clock.now());
        for (quota, rule) in self.book.quotas.iter().enumerate() {
            for caller in 0..if rule.scope == Scope::Org { 1 } else { 2 } {
                let Some(item) = self.item(&items, quota, caller) else {
                    let used = self.book.count((quota, caller), times.1).used;
                    if used == 0 && rule.scope != Scope::Org {
                        continue;
                    }
                    return Err(format!("{} of caller {caller} is not shown: {items:?}", rule.id));
                };
                let count = self.book.told((quota, caller), times, &item["periodEnd"]);
                let count = count.map_err(|fault| format!("{fault}: {item}"))?;
                let used = count.used - count.reserved;
                let left = rule.limit.saturating_sub(count.used);
                let numbers = [("used", used), ("reserved", count.reserved), ("remaining", left)];
                let numbers = numbers.map(|(name, number)| (name, json!(number)));
                let times = [("periodStart", count.start), ("nextReset", count.end)];
                let times = times.map(|(name, time)| (name, json!(text(time))));
                for (name, right) in numbers.into_iter().chain(times) {
                    if item[name] != right {
                        return Err(format!("{}: {name} should be {right}: {item}", rule.id));
                    }
                }
            }
        }
        Ok(())
    }

    /// Looks at the statements of all months in which it asked.
    pub fn look_at_statements(&mut self, world: &World) {
        if !world.stores.has_ledger() || self.book.vague || self.killed {
            return;
        }
        let months: Vec<((u32, u32), Sums)> = self
            .book
            .months
            .iter()
            .map(|(month, sums)| (*month, *sums))
            .collect();
        for ((year, month), sums) in months {
            self.step(
                world,
                &format!("reads the statement of {year}-{month:02}"),
                |org| {
                    let target = format!("/v1/orgs/{}/statement?month={year}-{month:02}", org.id);
                    let number = |statement: &Value, name: &str| statement[name].as_u64().unwrap_or(u64::MAX);
                    let begun = std::time::Instant::now();
                    // It is told every second.
                    loop {
                        let statement = world.server.platform_admin().get(&target).json();
                        let told = Sums {
                            allowed: number(&statement, "allowed"),
                            denied: number(&statement, "denied"),
                            cost: number(&statement, "cost"),
                        };
                        if told == sums {
                            return Ok(());
                        }
                        if begun.elapsed() > DEADLINE / 2 {
                            return Err(format!("the statement should come to {sums:?}: {statement}"));
                        }
                        world.clock.wait_until(world.clock.now() + 50);
                    }
                },
            );
        }
    }
}

//! Requests that the store does not answer.

use tollgate_core::Decision;
use tollgate_counters::shared::node::{Asked, Fallback};

use crate::world::World;

impl World {
    /// A request has waited for long enough.
    pub(crate) fn give_up(&mut self, number: usize) {
        if self.requests[number].over {
            return;
        }
        let life = self.requests[number].life;
        let machine = &self.machines[life.machine];
        let runs = machine.up && machine.life == life.number && machine.asleep <= self.now;
        if runs {
            self.fall_back(number);
        } else {
            self.leave_unanswered(number);
        }
    }

    fn leave_unanswered(&mut self, number: usize) {
        self.requests[number].over = true;
        self.tally.away += 1;
        self.note(|_| format!("request {number} gets no answer"));
    }

    /// The store does not answer: a node decides by what it holds, and else as each limit says.
    pub(crate) fn fall_back(&mut self, number: usize) {
        // What was lent to it goes back, and has decided nothing.
        self.requests[number].lent.clear();
        let request = &self.requests[number];
        request.gone.set(true);
        if self.scenario.calm {
            let broken = format!("request {number} got no answer, and nothing was wrong");
            self.history.broken.push((self.now, broken));
        }
        let (levels, formers) = (request.stack(), request.formers());
        let asked = Asked {
            levels: &levels,
            formers: &formers,
            revision: request.policies.revision,
            commit: request.commit,
            refused: false,
            charges: None,
            details: request,
        };
        let machine = &self.machines[request.life.machine];
        let fail = |place: usize| request.policies.list[request.stack[place].policy].fail;
        let mut clock = || machine.clock.read(self.now);
        let mut decision = Decision::pending();
        let fallback = machine
            .node
            .decide_away(&asked, &fail, &machine.local, &mut clock, &mut decision);
        match fallback {
            Ok(Fallback::Decided { without, .. }) => {
                self.tally.fallback += u64::from(!without.is_empty());
                self.requests[number].without = without.to_vec();
                self.conclude_locally(number, &decision, self.now);
            }
            Ok(Fallback::Closed) => self.leave_unanswered(number),
            Err(full) => self.history.broken.push((self.now, full.to_string())),
        }
    }
}

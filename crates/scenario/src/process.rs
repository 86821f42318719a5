//! A direction as the state machines that both worlds run.

use mp_links::{nanos, Aqm, Capacity, CoDel, Jitter, Opportunities, Red, Schedule, TokenBucket};

use crate::{Direction, Discipline, Loss, Policer, Rate, Step, TraceKind};

impl Direction {
    /// What it can carry over time.
    pub fn capacity(&self) -> Schedule<Capacity> {
        let trace = match &self.rate {
            Rate::Unlimited => return Schedule::new(Capacity::Unlimited),
            Rate::Constant(bits) => return Schedule::new(Capacity::Constant(*bits)),
            Rate::Trace(trace) => trace,
        };
        match &trace.kind {
            TraceKind::Opportunities { times, .. } => {
                let times = times.iter().copied().map(nanos).collect();
                let trace = Opportunities::new(times).map(Capacity::Opportunities);
                Schedule::new(trace.unwrap_or(Capacity::Constant(0)))
            }
            TraceKind::Steps(_) => {
                self.stepwise(Capacity::Constant(0), |step| Capacity::Constant(step.rate))
            }
            // A world begins with a scenario whose radio was run.
            TraceKind::Radio(_) => Schedule::new(Capacity::Constant(0)),
        }
    }

    /// Propagation delay over time, ns.
    pub fn delays(&self) -> Schedule<u64> {
        let own = nanos(self.delay);
        self.stepwise(own, |step| step.delay.map_or(own, nanos))
    }

    /// Random loss over time.
    pub fn losses(&self) -> Schedule<mp_links::Loss> {
        let own = self.loss.process();
        self.stepwise(own.clone(), |step| match step.loss {
            Some(p) => mp_links::Loss::bernoulli(p),
            None => own.clone(),
        })
    }

    pub fn jitter(&self) -> Option<Jitter> {
        let jitter = |(low, high)| Jitter {
            low: nanos(low),
            high: nanos(high),
        };
        self.jitter.map(jitter)
    }

    /// `own` without a trace of steps; changes only, since most columns of a trace hold one value.
    fn stepwise<T: PartialEq>(&self, own: T, value: impl Fn(&Step) -> T) -> Schedule<T> {
        let steps = match &self.rate {
            Rate::Trace(trace) => match &trace.kind {
                TraceKind::Steps(steps) => steps.as_slice(),
                TraceKind::Opportunities { .. } | TraceKind::Radio(_) => &[],
            },
            Rate::Unlimited | Rate::Constant(_) => &[],
        };
        let Some((first, later)) = steps.split_first() else {
            return Schedule::new(own);
        };
        // Before its first line a trace is what that line says.
        let mut schedule = Schedule::new(value(first));
        for step in later {
            let at = nanos(step.at);
            let next = value(step);
            if *schedule.at(at) != next {
                schedule.set(at, next);
            }
        }
        schedule
    }
}

impl Loss {
    pub fn process(&self) -> mp_links::Loss {
        match *self {
            Loss::None => mp_links::Loss::None,
            Loss::Bernoulli(p) => mp_links::Loss::bernoulli(p),
            Loss::GilbertElliott { p, r, good, bad } => {
                mp_links::Loss::gilbert_elliott(p, r, good, bad)
            }
        }
    }
}

impl Discipline {
    pub fn process(&self) -> Aqm {
        match *self {
            Discipline::DropTail => Aqm::DropTail,
            Discipline::CoDel { target, interval } => {
                Aqm::CoDel(CoDel::new(nanos(target), nanos(interval)))
            }
            Discipline::Red {
                min,
                max,
                probability,
            } => Aqm::Red(Red::new(min, max, probability)),
        }
    }
}

impl Policer {
    pub fn bucket(&self) -> TokenBucket {
        TokenBucket::new(self.rate, self.burst)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::{Queue, QueueLimit, Trace};

    const MS: u64 = 1_000_000;

    fn traced(csv: &str) -> Direction {
        let kind = crate::trace::parse("t.csv", csv.as_bytes()).expect("a good trace");
        Direction {
            rate: Rate::Trace(Arc::new(Trace {
                file: "t.csv".into(),
                kind,
            })),
            delay: Duration::from_millis(7),
            jitter: None,
            reorder: false,
            loss: Loss::Bernoulli(0.25),
            policer: None,
            queue: Queue {
                limit: QueueLimit::Packets(10),
                discipline: Discipline::DropTail,
                ecn: false,
            },
        }
    }

    #[test]
    fn an_empty_cell_is_the_paths_own_value_whatever_the_line_before_says() {
        let d = traced("0,10,5,0.5\n1,20\n2,0,,1\n3,0,9,\n");
        let at = [0, 1000, 2000, 3000].map(|ms| ms * MS);
        assert_eq!(at.map(|t| *d.delays().at(t) / MS), [5, 7, 7, 9]);
        let loss = [0.5, 0.25, 1.0, 0.25].map(mp_links::Loss::bernoulli);
        assert_eq!(at.map(|t| d.losses().at(t).clone()), loss);
        let rate = [10_000_000, 20_000_000, 0, 0].map(Capacity::Constant);
        assert_eq!(at.map(|t| d.capacity().at(t).clone()), rate);
    }

    #[test]
    fn a_column_of_one_value_is_constant() {
        let d = traced("0,10,5\n1,20,5\n2,30,5\n");
        assert!(d.delays().is_constant() && d.losses().is_constant());
        assert!(!d.capacity().is_constant());
    }
}

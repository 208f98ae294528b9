//! How a run ended, and what it has to say.

use crate::coverage::Coverage;
use crate::decisions::Tally;
use crate::queue::Micros;
use crate::rng::mix;
use crate::violation::Violation;

/// How a run ended, from the best to the worst; of several domains, the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Everything came to rest, and a stop frame ended it.
    Clean,
    /// A stop frame came in the middle of everything.
    Stopped,
    /// A rank or its scheduler died, and the others noticed.
    Crashed,
    /// A load-back failed after commit, and all ranks were told.
    Fatal,
    /// A caller lied about the order of requests, and was found out.
    Detected,
}

impl End {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Clean, Self::Stopped, Self::Crashed, Self::Fatal, Self::Detected];
}

/// What a run has to say.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How it ended, or what was wrong.
    pub result: Result<End, Violation>,
    /// The hash chain over the whole history.
    pub history: u64,
    /// Steps of all ranks.
    pub rank_steps: u64,
    /// The leaders' steps.
    pub steps: u64,
    /// The fewest steps of a leader.
    pub steps_min: u64,
    /// Operations issued.
    pub operations: u64,
    /// Votes.
    pub votes: u64,
    /// Events of the simulation.
    pub events: u64,
    /// Virtual time.
    pub time_us: Micros,
    /// Steps that were held against the reference model.
    pub modelled: u64,
    /// Which transitions happened under which faults.
    pub coverage: Coverage,
    /// What was asked and decided, in a run with decisions.
    pub tally: Tally,
    /// What the leaders' ranks did, line by line, if that was asked for.
    pub trace: Vec<String>,
}

impl Outcome {
    /// Nothing has happened.
    pub(crate) fn nothing(result: Result<End, Violation>) -> Self {
        Self {
            result,
            history: 0,
            rank_steps: 0,
            steps: 0,
            steps_min: 0,
            operations: 0,
            votes: 0,
            events: 0,
            time_us: 0,
            modelled: 0,
            coverage: Coverage::default(),
            tally: Tally::default(),
            trace: Vec::new(),
        }
    }

    /// Adds another domain of the same run.
    pub(crate) fn join(&mut self, other: Self) {
        self.result = match (self.result.clone(), other.result) {
            (Ok(end), Ok(another)) => Ok(end.max(another)),
            (Err(violation), _) | (_, Err(violation)) => Err(violation),
        };
        self.history = mix(self.history, other.history);
        self.rank_steps += other.rank_steps;
        self.steps += other.steps;
        self.steps_min = self.steps_min.min(other.steps_min);
        self.operations += other.operations;
        self.votes += other.votes;
        self.events += other.events;
        self.time_us = self.time_us.max(other.time_us);
        self.modelled += other.modelled;
        self.coverage.merge(&other.coverage);
        self.tally.join(&other.tally);
        self.trace.extend(other.trace);
    }
}

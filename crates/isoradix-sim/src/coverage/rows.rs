//! The transitions that frames can bring about.

use isoradix_core::host::Backing;
use isoradix_core::operation::{Effect, Event, Kind, Pools, State, transition};

/// A transition for one kind, state and event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) kind: Kind,
    pub(crate) state: State,
    pub(crate) event: Event,
}

impl Row {
    /// Its place in a dense table.
    pub(crate) fn place(self) -> usize {
        (self.kind as usize * State::ALL.len() + self.state as usize) * Event::ALL.len() + self.event as usize
    }
}

/// Places of a dense table.
pub(crate) const PLACES: usize = Kind::ALL.len() * State::ALL.len() * Event::ALL.len();

/// All rows that frames can bring about with these pools, by kind, state and event.
///
/// Fewer than the table has, which is also made for pools that are backed otherwise, and for being told the same thing twice.
pub(crate) fn reachable(pools: Pools) -> Vec<Row> {
    let mut rows = Vec::new();
    for kind in Kind::ALL {
        let states = states(kind, pools);
        for state in State::ALL.into_iter().filter(|state| states.contains(state)) {
            let events = Event::ALL.into_iter().map(|event| Row { kind, state, event });
            rows.extend(events.filter(|row| happens(*row, pools)));
        }
    }
    rows
}

/// The states that an operation of the kind comes to.
fn states(kind: Kind, pools: Pools) -> Vec<State> {
    let mut states = vec![State::first(kind, pools)];
    let mut at = 0;
    while at < states.len() {
        for event in Event::ALL {
            let row = Row { kind, state: states[at], event };
            let to = transition(kind, row.state, event).filter(|_| happens(row, pools)).map(|row| row.to);
            states.extend(to.filter(|to| !states.contains(to)));
        }
        at += 1;
    }
    states
}

fn happens(row: Row, pools: Pools) -> bool {
    let Row { kind, state, event } = row;
    let voting = pools.of(kind) == Some(Backing::Voting);
    let asked = match event {
        Event::Granted | Event::Short => voting,
        Event::Hit | Event::Miss => kind == Kind::Prefetch,
        _ => true,
    };
    let Some(found) = transition(kind, state, event) else { return false };
    asked && found.action != Effect::Fatal && !is_too_late(row) && !is_never_alone(row)
}

/// A rank votes hit and pages of a prefetch in one breath, and the pages of a backup as it issues it. So no frame finds a prefetch
/// between the two, and no copy fails before its pages are known.
fn is_never_alone(Row { kind, state, event }: Row) -> bool {
    match (kind, state) {
        (Kind::Prefetch, State::Issued) => matches!(event, Event::Granted | Event::Short | Event::Failed),
        (Kind::Prefetch, State::Queried) => !matches!(event, Event::Granted | Event::Short),
        (Kind::Backup, State::Issued) => event == Event::Failed,
        _ => false,
    }
}

/// What is over is not voted on any more, and a watermark passes an operation once.
fn is_too_late(Row { state, event, .. }: Row) -> bool {
    let decided = matches!(event, Event::Terminate | Event::TimeOut | Event::Abort);
    match state {
        State::Done => !decided && event != Event::Passed,
        State::Aborted => !decided,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_back_of_a_fixed_pool_neither_waits_for_pages_nor_drains() {
        let rows = reachable(Pools::USUAL);
        let of = |kind| rows.iter().filter(move |row| row.kind == kind);
        let states: Vec<State> = of(Kind::LoadBack).map(|row| row.state).collect();
        assert!(
            !states.is_empty()
                && states.iter().all(|state| matches!(state, State::Committed | State::Copying | State::Done))
        );
        assert!(of(Kind::Prefetch).any(|row| row.state == State::Draining && row.event == Event::Hit));
        assert!(of(Kind::Store).next().is_some() && of(Kind::Store).all(|row| row.state != State::Issued));
        assert!(rows.is_sorted() && rows.iter().all(|row| row.place() < PLACES));
    }
}

//! The life of an operation, as a table.
//!
//! States and events are about what *all* ranks know. A rank's own query, reservation and copy run ahead of them, as soon as the
//! operation is issued: so a copy may touch pages in any state but the last two, and whatever ends early drains first.

use super::kind::{Kind, Pools};
use crate::host::Backing;

/// How far an operation has come, in agreed terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum State {
    /// It has an ordinal; nothing about it is agreed.
    Issued = 0,
    /// Its hit length is agreed, its pages are not.
    Queried = 1,
    /// Its pages are agreed, its hit length is not.
    Reserved = 2,
    /// What it will deliver at most is agreed, and that is all it keeps.
    Committed = 3,
    /// Every rank has reported progress.
    Copying = 4,
    /// It has ended early; a copy may still touch its pages, which stay occupied.
    Draining = 5,
    /// It ended well; terminal.
    Done = 6,
    /// It ended early and no copy touches its pages any more; terminal.
    Aborted = 7,
}

impl State {
    /// All states.
    pub const ALL: [Self; 8] = [
        Self::Issued,
        Self::Queried,
        Self::Reserved,
        Self::Committed,
        Self::Copying,
        Self::Draining,
        Self::Done,
        Self::Aborted,
    ];

    /// The state's name in lower case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Issued => "issued",
            Self::Queried => "queried",
            Self::Reserved => "reserved",
            Self::Committed => "committed",
            Self::Copying => "copying",
            Self::Draining => "draining",
            Self::Done => "done",
            Self::Aborted => "aborted",
        }
    }

    /// Whether the operation is over.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Done | Self::Aborted)
    }

    /// Whether votes still count: neither has it ended nor has it been given up.
    #[must_use]
    pub fn is_counting(self) -> bool {
        !matches!(self, Self::Draining | Self::Done | Self::Aborted)
    }

    /// Where an operation begins: what needs no vote is behind it already.
    #[must_use]
    pub fn first(kind: Kind, pools: Pools) -> Self {
        match (kind, pools.of(kind)) {
            (_, Some(Backing::Voting)) => Self::Issued,
            (Kind::Prefetch, _) => Self::Reserved,
            _ => Self::Committed,
        }
    }
}

/// What can happen to an operation, once its numbers are compared with what it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Event {
    /// Vote: the hit length that every rank found is worth loading.
    Hit = 0,
    /// Vote: it is not.
    Miss = 1,
    /// Vote: every rank has reserved enough pages.
    Granted = 2,
    /// Vote: some rank has not.
    Short = 3,
    /// Vote: this much has arrived on every rank.
    Progress = 4,
    /// Vote: the copy has ended well on every rank.
    Succeeded = 5,
    /// Vote: the copy has ended on every rank, and failed on some.
    Failed = 6,
    /// Vote: the finished watermark has passed it; no rank's copy touches its pages from here on.
    Passed = 7,
    /// Leader: no more of it is wanted, keep what has arrived.
    Terminate = 8,
    /// Leader: its deadline is over.
    TimeOut = 9,
    /// Leader: nothing of it is wanted.
    Abort = 10,
}

impl Event {
    /// All events.
    pub const ALL: [Self; 11] = [
        Self::Hit,
        Self::Miss,
        Self::Granted,
        Self::Short,
        Self::Progress,
        Self::Succeeded,
        Self::Failed,
        Self::Passed,
        Self::Terminate,
        Self::TimeOut,
        Self::Abort,
    ];

    /// Those that can end an operation early.
    pub const ENDINGS: [Self; 6] = [Self::Short, Self::Miss, Self::Failed, Self::Terminate, Self::TimeOut, Self::Abort];

    /// The event's name in lower case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Granted => "granted",
            Self::Short => "short",
            Self::Progress => "progress",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Passed => "passed",
            Self::Terminate => "terminate",
            Self::TimeOut => "time_out",
            Self::Abort => "abort",
        }
    }
}

/// What a transition asks for; [`Action`](super::Action) is the same with its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// Keep exactly the agreed pages.
    Commit,
    /// Deliver what was committed (of a prefetch: what has arrived), return the rest, drop the locks.
    Finish,
    /// Stop the copy; every page stays where it is.
    Cancel,
    /// Deliver what has arrived, then stop the copy.
    Keep,
    /// Return every page that was not delivered, drop the locks.
    Return,
    /// No way on: the call is refused with an error that names the operation.
    Fatal,
}

impl Effect {
    /// The effect's name in lower case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Commit => "commit",
            Self::Finish => "finish",
            Self::Cancel => "cancel",
            Self::Keep => "keep, cancel",
            Self::Return => "return",
            Self::Fatal => "fatal",
        }
    }
}

/// One row: in any of these states, any of these events does this to an operation of any of these kinds.
#[derive(Debug)]
pub struct Transition {
    /// Before.
    pub from: &'static [State],
    /// What happens.
    pub event: &'static [Event],
    /// After.
    pub to: State,
    /// For which kinds.
    pub kinds: &'static [Kind],
    /// What it asks for.
    pub action: Effect,
}

/// Every transition there is. What is not in here is refused.
pub const TABLE: &[Transition] = {
    use Effect::{Cancel, Commit, Fatal, Finish, Keep, Nothing, Return};
    use Event::{Abort, Failed, Granted, Hit, Miss, Passed, Progress, Short, Succeeded, Terminate, TimeOut};
    use Kind::{Backup, LoadBack, Prefetch, Store};
    use State::{Aborted, Committed, Copying, Done, Draining, Issued, Queried, Reserved};

    const EVERY: &[Kind] = &Kind::ALL;
    const FRONT: &[State] = &[Issued, Queried, Reserved];
    const MOVING: &[State] = &[Committed, Copying];
    const QUERY: &[Event] = &[Hit, Miss, Terminate];
    const PAGES: &[Event] = &[Granted, Short];
    const COPY: &[Event] = &[Progress, Succeeded, Failed, TimeOut, Abort];
    const PAGED: &[Kind] = &[Backup, LoadBack, Prefetch];

    const fn row(
        from: &'static [State],
        event: &'static [Event],
        to: State,
        kinds: &'static [Kind],
        action: Effect,
    ) -> Transition {
        Transition { from, event, to, kinds, action }
    }

    &[
        // What and how much. Only a prefetch asks what there is; that and its pages are agreed in either order.
        row(&[Issued], &[Hit], Queried, &[Prefetch], Nothing),
        row(&[Issued], &[Granted], Reserved, &[Prefetch], Nothing),
        row(&[Queried], &[Granted], Committed, &[Prefetch], Commit),
        row(&[Reserved], &[Hit], Committed, &[Prefetch], Commit),
        row(&[Issued], &[Granted], Committed, &[Backup, LoadBack], Commit),
        // The copy.
        row(MOVING, &[Progress], Copying, EVERY, Nothing),
        row(MOVING, &[Succeeded], Done, EVERY, Finish),
        // Early ends. The smallest vote may say "nothing" while another rank's copy runs: so even these drain.
        row(&[Issued, Reserved], &[Miss], Draining, &[Prefetch], Cancel),
        row(&[Issued], &[Short], Draining, PAGED, Cancel),
        row(&[Queried], &[Short], Draining, &[Prefetch], Cancel),
        row(&[Issued], &[Failed, TimeOut, Abort], Draining, &[Backup, LoadBack], Cancel),
        row(FRONT, &[Failed, Terminate, TimeOut, Abort], Draining, &[Prefetch], Cancel),
        row(MOVING, &[Terminate, TimeOut, Failed], Draining, &[Prefetch], Keep),
        row(MOVING, &[Abort], Draining, &[Prefetch], Cancel),
        row(MOVING, &[Failed, TimeOut, Abort], Draining, &[Backup, Store], Cancel),
        row(&[Draining], &[Passed], Aborted, EVERY, Return),
        // The tokens of a committed load-back are promised: it runs to its end, or the server does.
        row(&[Committed], &[TimeOut, Abort], Committed, &[LoadBack], Nothing),
        row(&[Copying], &[TimeOut, Abort], Copying, &[LoadBack], Nothing),
        row(MOVING, &[Failed], Committed, &[LoadBack], Fatal),
        // Too late to count: votes go on repeating what they say, and the leader may decide on what has just ended.
        row(&[Draining], QUERY, Draining, &[Prefetch], Nothing),
        row(&[Draining], PAGES, Draining, PAGED, Nothing),
        row(&[Draining], COPY, Draining, EVERY, Nothing),
        row(&[Done], QUERY, Done, &[Prefetch], Nothing),
        row(&[Done], PAGES, Done, PAGED, Nothing),
        row(&[Done], COPY, Done, EVERY, Nothing),
        row(&[Done], &[Passed], Done, EVERY, Nothing),
        row(&[Aborted], QUERY, Aborted, &[Prefetch], Nothing),
        row(&[Aborted], PAGES, Aborted, PAGED, Nothing),
        row(&[Aborted], COPY, Aborted, EVERY, Nothing),
        row(&[Aborted], &[Passed], Aborted, EVERY, Nothing),
    ]
};

const NO_ROW: u8 = u8::MAX;

type Index = [[[u8; Event::ALL.len()]; State::ALL.len()]; Kind::ALL.len()];

/// The row of each (kind, state, event). Two rows for one of them do not compile.
static INDEX: Index = index();

#[expect(clippy::cast_possible_truncation, reason = "far fewer rows than 255, as asserted")]
const fn index() -> Index {
    assert!(TABLE.len() < NO_ROW as usize);
    let mut index = [[[NO_ROW; Event::ALL.len()]; State::ALL.len()]; Kind::ALL.len()];
    let (mut row, mut cell) = (0, 0);
    while row < TABLE.len() {
        let Transition { from, event, kinds, .. } = &TABLE[row];
        while cell < from.len() * event.len() * kinds.len() {
            let kind = kinds[cell % kinds.len()] as usize;
            let state = from[cell / kinds.len() % from.len()] as usize;
            let event = event[cell / kinds.len() / from.len()] as usize;
            assert!(index[kind][state][event] == NO_ROW, "two rows for one state and event");
            index[kind][state][event] = row as u8;
            cell += 1;
        }
        (row, cell) = (row + 1, 0);
    }
    index
}

/// The row for an event that meets an operation in a state; `None` if the event is refused.
#[inline]
#[must_use]
pub fn transition(kind: Kind, state: State, event: Event) -> Option<&'static Transition> {
    TABLE.get(INDEX[kind as usize][state as usize][event as usize] as usize)
}

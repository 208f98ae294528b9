//! Every kind in every state meets every event.

use super::*;

/// The life of an operation again, as rules instead of rows. `None`: refused, also for a load-back that fails after commit.
fn rule(kind: Kind, state: State, event: Event) -> Option<State> {
    use Event::{Abort, Failed, Granted, Hit, Miss, Passed, Progress, Short, Succeeded, Terminate, TimeOut};
    use State::{Aborted, Committed, Copying, Draining, Issued, Queried, Reserved};
    let prefetch = kind == Kind::Prefetch;
    if matches!(event, Hit | Miss | Terminate) && !prefetch || matches!(event, Granted | Short) && kind == Kind::Store {
        return None;
    }
    if matches!(state, Queried | Reserved) && !prefetch || state == Issued && kind == Kind::Store {
        return None; // it has no such state
    }
    let (moving, front) = (matches!(state, Committed | Copying), matches!(state, Issued | Queried | Reserved));
    match event {
        Passed if state == Draining => Some(Aborted),
        Passed => state.is_terminal().then_some(state),
        _ if !moving && !front => Some(state),
        Hit if state == Issued => Some(Queried),
        Hit => (state == Reserved).then_some(Committed),
        Miss => matches!(state, Issued | Reserved).then_some(Draining),
        Granted if state == Issued => Some(if prefetch { Reserved } else { Committed }),
        Granted => (state == Queried).then_some(Committed),
        Short => matches!(state, Issued | Queried).then_some(Draining),
        Progress => moving.then_some(Copying),
        Succeeded => moving.then_some(State::Done),
        Failed if moving && kind == Kind::LoadBack => None,
        TimeOut | Abort if moving && kind == Kind::LoadBack => Some(state),
        Failed | Terminate | TimeOut | Abort => Some(Draining),
    }
}

#[test]
fn the_table_is_the_rules() {
    for kind in Kind::ALL {
        for state in State::ALL {
            for event in Event::ALL {
                let row = transition(kind, state, event).filter(|row| row.action != Effect::Fatal);
                let (expected, what) = (rule(kind, state, event), (kind, state, event));
                assert_eq!(row.map(|row| row.to), expected, "{what:?}");
            }
        }
    }
}

/// The event as it comes with a frame, for operation 0 of two pages.
fn concrete(kind: Kind, event: Event) -> AgreedEvent {
    let k = Ordinal(0);
    match event {
        Event::Hit => hit(k, 2 * PAGE),
        Event::Miss => hit(k, if kind == Kind::Prefetch { PAGE - 1 } else { 0 }),
        Event::Granted => granted(k, if kind == Kind::Store { 0 } else { 2 }),
        Event::Short => granted(k, u32::from(matches!(kind, Kind::Backup | Kind::LoadBack))),
        Event::Progress => progress(k, 2 * PAGE),
        Event::Succeeded => ready(k, true),
        Event::Failed => ready(k, false),
        Event::Passed => finished(kind, 1),
        Event::Terminate => terminate(k),
        Event::TimeOut => time_out(k),
        Event::Abort => abort(k),
    }
}

#[test]
fn every_state_takes_an_event_as_the_table_says_or_refuses_it_by_name() {
    let (mut taken, mut refusals) = (0, 0);
    for (kind, pools) in Kind::ALL.into_iter().flat_map(|kind| [(kind, VOTING), (kind, FIXED)]) {
        for state in State::ALL {
            let Some(before) = at(kind, pools, state) else { continue };
            for event in Event::ALL {
                let (mut table, agreed) = (before.clone(), concrete(kind, event));
                let row = transition(kind, state, event).filter(|row| row.action != Effect::Fatal);
                let cannot_come = match event {
                    Event::Passed => state == State::Aborted, // its FIFO has passed it: so it got there
                    Event::Short => kind == Kind::Store,      // it takes no pages, so no grant is too short
                    _ => false,
                };
                if cannot_come {
                    continue;
                }
                if let Some(row) = row {
                    table.apply(agreed).unwrap();
                    assert_eq!(super::state(&table, Ordinal(0)), row.to);
                    table.check().unwrap();
                    taken += 1;
                } else {
                    let error = refused(&mut table, agreed);
                    let fatal = event == Event::Failed;
                    let names = if fatal { ["failed", "load_back 0"] } else { [event.as_str(), state.as_str()] };
                    assert!(names.iter().all(|name| error.contains(name)), "{kind:?} {state:?} {event:?}: {error}");
                    refusals += 1;
                }
            }
        }
    }
    assert_eq!((taken, refusals), (291, 176));
}

#[test]
fn states_that_a_kind_has_are_those_that_it_can_reach() {
    let reach = |kind, pools| State::ALL.map(|state| u8::from(at(kind, pools, state).is_some()));
    //                                          issued, queried, reserved, committed, copying, draining, done, aborted
    assert_eq!(reach(Kind::Prefetch, VOTING), [1, 1, 1, 1, 1, 1, 1, 1]);
    assert_eq!(reach(Kind::Prefetch, FIXED), [0, 0, 1, 1, 1, 1, 1, 1]);
    assert_eq!(reach(Kind::Backup, VOTING), [1, 0, 0, 1, 1, 1, 1, 1]);
    assert_eq!(reach(Kind::LoadBack, VOTING), [1, 0, 0, 1, 1, 1, 1, 1]);
    assert_eq!(reach(Kind::Backup, FIXED), [0, 0, 0, 1, 1, 1, 1, 1]);
    assert_eq!(reach(Kind::Store, VOTING), [0, 0, 0, 1, 1, 1, 1, 1]);
    // Nothing takes promised tokens back.
    assert_eq!(reach(Kind::LoadBack, FIXED), [0, 0, 0, 1, 1, 0, 1, 0]);
}

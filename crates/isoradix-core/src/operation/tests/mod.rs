//! The operation table against rules and models that are written another way than it is.

mod cases;
mod document;
mod frames;
mod ledger;
mod pages;
mod pairs;
mod slots;
mod walks;
mod window;

use super::*;
use crate::host::Backing;
use crate::ordinal::Ordinal;
use crate::provenance::{Agreed, Applied};

/// Tokens of a page in these tests.
const PAGE: u64 = 64;

const RANK: u32 = 2;

const VOTING: Pools = Pools { host: Backing::Voting, device: Backing::Voting };

const FIXED: Pools = Pools { host: Backing::Fixed, device: Backing::Fixed };

fn agreed<T>(value: T) -> Agreed<T> {
    Agreed::mint(&Applied::after_all_checks(), value)
}

fn table(pools: Pools) -> OperationTable {
    OperationTable::new(RANK, 4, pools).unwrap()
}

/// Issues an operation of so many pages; a store moves as many tokens without taking pages.
fn issue(table: &mut OperationTable, kind: Kind, pages: u32) -> Ordinal {
    let taken = if kind == Kind::Store { 0 } else { pages };
    table.issue(kind, taken, u64::from(pages) * PAGE, 100).unwrap()
}

/// Whole pages of leading subjects.
fn share(pages: u32, subjects: u32) -> Share {
    Share { pages, tokens: u64::from(pages) * PAGE, subjects }
}

fn hit(operation: Ordinal, tokens: u64) -> AgreedEvent {
    AgreedEvent::Hit { operation, tokens: agreed(tokens) }
}

fn granted(operation: Ordinal, pages: u32) -> AgreedEvent {
    AgreedEvent::Granted { operation, pages: agreed(pages) }
}

fn progress(operation: Ordinal, tokens: u64) -> AgreedEvent {
    AgreedEvent::Progress { operation, tokens: agreed(tokens) }
}

fn ready(operation: Ordinal, succeeded: bool) -> AgreedEvent {
    AgreedEvent::Ready { operation, succeeded: agreed(succeeded) }
}

fn finished(fifo: Kind, watermark: u64) -> AgreedEvent {
    AgreedEvent::Finished { fifo, watermark: agreed(watermark) }
}

fn terminate(operation: Ordinal) -> AgreedEvent {
    AgreedEvent::Terminate { operation: agreed(operation) }
}

fn time_out(operation: Ordinal) -> AgreedEvent {
    AgreedEvent::TimeOut { operation: agreed(operation) }
}

fn abort(operation: Ordinal) -> AgreedEvent {
    AgreedEvent::Abort { operation: agreed(operation) }
}

/// Pages that an operation holds, by what it says of itself: what was asked for, then what was committed, and at the end nothing,
/// since what it delivered is the tree's. A fixed pool has given all of them from the start.
fn held_pages(operation: &Operation, pools: Pools) -> u32 {
    let owned = match operation.committed() {
        Some(share) if pools.of(operation.kind()) == Some(Backing::Voting) => share.pages,
        _ => operation.pages(),
    };
    let delivered = operation.delivered().map_or(0, |share| share.pages);
    if operation.state().is_terminal() { 0 } else { owned - delivered }
}

/// Pages that all operations of a kind hold.
fn held(table: &OperationTable, pools: Pools, kind: Kind) -> u32 {
    table.iter().filter(|operation| operation.kind() == kind).map(|operation| held_pages(operation, pools)).sum()
}

struct SplitMix64(u64);

impl SplitMix64 {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((z ^ (z >> 31)) % u64::from(limit)).unwrap()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(u32::try_from(from.len()).unwrap()) as usize]
    }
}

/// The event must be refused and change nothing. Gives the message.
fn refused(table: &mut OperationTable, event: AgreedEvent) -> String {
    let before = table.clone();
    let error = table.apply(event).unwrap_err().to_string();
    assert_eq!(*table, before, "{error}");
    assert!(error.contains("\nhint: ") && error.contains("rank 2"), "{error}");
    error
}

fn state(table: &OperationTable, operation: Ordinal) -> State {
    table.operation(operation).unwrap().state()
}

/// Applies events to operation 0, of two pages, until it stands in that state; `None` if its kind has no such state.
fn at(kind: Kind, pools: Pools, state: State) -> Option<OperationTable> {
    let mut table = table(pools);
    let k = issue(&mut table, kind, 2);
    let prefetch = kind == Kind::Prefetch;
    let steps: Vec<AgreedEvent> = match state {
        State::Issued => vec![],
        State::Queried => vec![hit(k, 2 * PAGE)],
        State::Committed if prefetch => vec![hit(k, 2 * PAGE), granted(k, 2)],
        State::Reserved | State::Committed => vec![granted(k, 2)],
        State::Copying if prefetch => vec![hit(k, 2 * PAGE), granted(k, 2), progress(k, PAGE)],
        State::Copying => vec![granted(k, 2), progress(k, PAGE)],
        State::Draining => vec![ready(k, false)],
        State::Done if prefetch => vec![hit(k, 2 * PAGE), granted(k, 2), progress(k, 2 * PAGE), ready(k, true)],
        State::Done => vec![granted(k, 2), ready(k, true)],
        State::Aborted => vec![ready(k, false), finished(kind, 1)],
    };
    for event in steps {
        if self::state(&table, k) != state {
            let _ = table.apply(event);
        }
    }
    (self::state(&table, k) == state).then_some(table)
}

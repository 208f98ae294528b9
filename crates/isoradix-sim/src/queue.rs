//! What happens when, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Virtual time in microseconds.
pub(crate) type Micros = u64;

/// Events in the order of their times; events of one time in the order in which they were put in.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Reverse<(Micros, u64, usize)>>,
    /// Events by the place that the heap names; free places are reused.
    events: Vec<Option<E>>,
    free: Vec<usize>,
    sequence: u64,
    now: Micros,
}

impl<E> Queue<E> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), sequence: 0, now: 0 }
    }

    pub(crate) fn now(&self) -> Micros {
        self.now
    }

    /// Events popped or waiting so far.
    pub(crate) fn events(&self) -> u64 {
        self.sequence
    }

    /// It happens `delay` from now.
    pub(crate) fn after(&mut self, delay: Micros, event: E) {
        let place = self.free.pop().unwrap_or(self.events.len());
        if place == self.events.len() {
            self.events.push(None);
        }
        self.events[place] = Some(event);
        self.heap.push(Reverse((self.now + delay, self.sequence, place)));
        self.sequence += 1;
    }

    /// The next event; time moves on to it.
    pub(crate) fn pop(&mut self) -> Option<E> {
        let Reverse((time, _, place)) = self.heap.pop()?;
        self.now = time;
        self.free.push(place);
        self.events[place].take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_by_time_and_then_by_arrival() {
        let mut queue = Queue::new();
        for (delay, name) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd')] {
            queue.after(delay, name);
        }
        assert_eq!(queue.pop(), Some('b'));
        queue.after(2, 'e');
        let rest: Vec<char> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(rest, ['d', 'a', 'c', 'e']);
        assert_eq!((queue.now(), queue.events()), (5, 5));
    }
}

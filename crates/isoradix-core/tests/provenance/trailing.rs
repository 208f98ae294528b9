//! What a search for a trailing end settles on decides nothing before a frame carries it.

use isoradix_core::protocol::{Trailing, TrailingVote};

fn at_a_moment_of_its_own(vote: &mut TrailingVote, reduced: [i64; 2]) -> bool {
    match vote.complete(reduced) {
        Ok(Trailing::Settled(end)) => end > 0,
        _ => false,
    }
}

fn main() {
    let _ = at_a_moment_of_its_own;
}

//! What this rank's storage has beside keys and values is there to be voted, and decides nothing.

use isoradix_core::Presence;

fn at_a_moment_of_its_own(here: &Presence) -> bool {
    here.parts.len() > 2
}

fn main() {
    let _ = at_a_moment_of_its_own;
}

"""Why rows miss a ratio or are far from the floor: kept by hand, printed in RESULTS.md for those that do."""

REASONS = {
    "match flat": (
        "The core alone takes 0.32 to 0.34 µs of it, about twice the floor; the rest is the call from Python, the "
        "buffer of the key and the result object."
    ),
    "insert tail, prefix known": (
        "Overhead of the call, and the stamps of 64 ancestors: an insert touches its whole path, so that a parent "
        "stays younger than its children."
    ),
    "insert new": (
        "It reads 2 MB of key and slots once, narrows them, hashes the tokens and checks that the slots of each "
        "page are consecutive. How the time divides was not measured on this version."
    ),
    "evict 64k, 100k leaves": (
        "In this run it is as fast as the floor, and the limit is below both. By instructions (callgrind on the "
        "core, 20k leaves: 744 a leaf; the split was made on a version with 700) 17 % take the leaf out of the edge "
        "table and its parent, 17 % are the journal, 7 % the tree digest, 4 % free the run; the other 55 % are "
        "inlined in one function, at least 20 % of the whole writing the slots. Before edges were fetched ahead, "
        "over half of the samples waited for the edge table's memory. The row was first measured once a round, "
        "cold (0.040), and is now measured five times in a row, as the reference adapters do it."
    ),
}

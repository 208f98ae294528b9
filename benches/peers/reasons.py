"""Why rows miss a ratio or are far from the floor: kept by hand, printed in RESULTS.md for those that do."""

REASONS = {
    "match flat": (
        "Of some 0.8 µs about 0.35 µs are CPython's: the call, the buffer of the key and the result object. The "
        "compare itself is at twice the floor."
    ),
    "insert tail, prefix known": (
        "Overhead of the call, and the stamps of 64 ancestors: an insert touches its whole path, so that a parent "
        "stays younger than its children."
    ),
    "insert new": (
        "It reads 2 MB of key and slots once, narrows them, hashes the tokens (27 µs) and checks that the slots of "
        "each page are consecutive (35 µs). The rest waits for memory."
    ),
    "evict 64k, 100k leaves": (
        "The limit lies below what the machine can do: the floor itself, a list that is unlinked and 512 KB of "
        "slots that are written, is as slow. By instructions (callgrind, some 650 a leaf) 30 % write the slots, 17 "
        "% take the leaf out of the edge table and its parent, 16 % record and digest the decision, 14 % free the "
        "run, 23 % are the LRU list, counts and handles; by samples the cache miss in the edge table leads, which "
        "is why edges are fetched 32 victims ahead."
    ),
}

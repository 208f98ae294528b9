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
        "Each leaf is unlinked from its parent, the edge table and the LRU list, its extent is freed, and a record is "
        "written and digested. About half of that is one cache miss in the edge table."
    ),
}

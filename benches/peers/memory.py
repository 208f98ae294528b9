"""Resident memory of this process."""

import ctypes
import gc

from isoradix.bench.resident import resident_bytes


def settled_bytes() -> int:
    """What is resident once garbage and the allocator's free pages are given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return resident_bytes()

"""Resident memory of this process."""

import ctypes
import gc
import os
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """What is resident once garbage and the allocator's free pages are given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES

"""What figures were measured on."""

import os
import platform
from pathlib import Path

import numpy as np


def processor() -> str:
    """The processor's name; of what kind it is where the system does not name it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def machine() -> str:
    """Processor, system and versions, in one line."""
    cpus = os.cpu_count() or 1
    return (
        f"{processor()}, {cpus} logical CPUs, {platform.system()}, "
        f"Python {platform.python_version()}, numpy {np.__version__}"
    )

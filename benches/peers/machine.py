"""The machine and the versions that results belong to."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import isoradix
from isoradix.report.machine import processor

ROOT = Path(__file__).parents[2]


def _memory_gib() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def _tool(*command: str) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "absent"


def describe() -> dict[str, str]:
    """Facts, in the order in which they are printed."""
    return {
        "processor": f"{processor()}, {len(os.sched_getaffinity(0))} cores",
        "memory": f"{_memory_gib()} GiB",
        "system": f"{platform.system()} {platform.release().partition('-')[0]}, {platform.machine()}",
        "load before": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "python": platform.python_version(),
        "isoradix": isoradix.__version__,
        "commit": _tool("git", "-C", str(ROOT), "describe", "--always", "--dirty"),
        "sglang": _version("sglang"),
        "torch": f"{_version('torch')}, 1 thread",
        "numpy": _version("numpy"),
        "rustc": _tool("rustc", "--version"),
        "cc": _tool("cc", "--version"),
    }

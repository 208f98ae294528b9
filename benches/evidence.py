"""What the evidence costs: its share of the compiled module's instructions in a replay.

    python -m benches.evidence [--requests N] [--page-size N]

Journal and digests are never off, so they cannot be measured by leaving them out. callgrind counts every instruction of
the module, and addr2line names the functions that it was inlined from. Needs valgrind and binutils; the counts are the
same on every run.
"""

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from isoradix import _isoradix
from isoradix.replay.runner import ReplayConfig, Replayer
from isoradix.replay.source import WorkloadSource

# The first match along an instruction's inlined functions, from the innermost, says what it belongs to.
PARTS = {
    "journal and decision digest": ("evidence::",),
    "content hashes": ("RunHasher", "hash::run"),
    "tree digest": ("digest_term",),
}
REST = "all else"
CAPACITY = 500_000


def replay(requests: int, page_size: int) -> None:
    """What the child process runs."""
    Replayer(ReplayConfig(page_size, CAPACITY)).run(WorkloadSource("chat", requests, seed=1))


def count_instructions(requests: int, page_size: int) -> Counter[int]:
    """Executions of each instruction of the module, by its address in the file."""
    child = [sys.executable, "-m", "benches.evidence", "--child", f"--requests={requests}", f"--page-size={page_size}"]
    with tempfile.NamedTemporaryFile() as profile:
        options = ["--tool=callgrind", "--dump-instr=yes", f"--callgrind-out-file={profile.name}"]
        subprocess.run(["valgrind", *options, *child], check=True, capture_output=True)
        return module_costs(Path(profile.name).read_text(encoding="utf-8").splitlines())


def module_costs(lines: list[str]) -> Counter[int]:
    """Self cost by address, of the part of a callgrind profile that is inside the module.

    Objects are numbered where they are first named, as a caller's (`ob=`) or a callee's (`cob=`). Cost lines start
    with an address, absolute or relative to the line before; the one after `calls=` is the callee's cost, not ours.
    """
    costs: Counter[int] = Counter()
    numbers: set[str] = set()
    inside = callee = False
    address = 0
    for line in lines:
        key, equals, value = line.partition("=")
        if equals:
            if key in ("ob", "cob") and Path(_isoradix.__file__).name in value:
                numbers.add(value.split()[0])
            if key == "ob":
                inside = value.split()[0] in numbers
            callee = key == "calls"
        elif line.startswith(("0x", "+", "-", "*")):
            place, *_, cost = line.split()
            address = int(place, 16) if place.startswith("0x") else address + int(place.replace("*", "+0"))
            costs[address] += int(cost) if inside and not callee else 0
            callee = False
    return costs


def functions(addresses: list[int]) -> Iterator[list[str]]:
    """For each address the functions it belongs to, innermost first."""
    asked = "\n".join(f"{address:#x}" for address in addresses)
    command = ["addr2line", "-a", "-f", "-i", "-C", "-e", _isoradix.__file__]
    answer = subprocess.run(command, input=asked, check=True, capture_output=True, text=True).stdout
    current: list[str] = []
    for line in answer.splitlines()[1:]:
        if line.startswith("0x"):
            yield current[::2]  # names and places take turns
            current = []
        else:
            current.append(line)
    yield current[::2]


def part_of(names: list[str]) -> str:
    for name in names:
        for part, marks in PARTS.items():
            if any(mark in name for mark in marks):
                return part
    return REST


def shares(requests: int, page_size: int) -> dict[str, float]:
    """The share of each part, and of the rest."""
    costs = count_instructions(requests, page_size)
    parts: Counter[str] = Counter(dict.fromkeys((*PARTS, REST), 0))
    for names, cost in zip(functions(list(costs)), costs.values(), strict=True):
        parts[part_of(names)] += cost
    return {part: cost / costs.total() for part, cost in parts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--page-size", type=int, default=64)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        replay(options.requests, options.page_size)
        return
    try:
        found = shares(options.requests, options.page_size)
    except FileNotFoundError as missing:
        raise SystemExit(f"{missing.filename} is not installed\nhint: install valgrind and binutils") from None
    for part, share in found.items():
        print(f"{share:7.1%}  {part}")


if __name__ == "__main__":
    main()

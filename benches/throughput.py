"""Requests a second of whole deployments: GlooPlane beside ChainPlane, without and with slow acknowledgements.

    python -m benches.throughput
    python -m benches.throughput --requests 300 --runs 3 --json

Each run is `isoradix replay` on TP 2 x PP 2 with steps of 10 ms and real copies; planes take turns, and the median of
the runs counts. The delay, 5 to 50 ms drawn for each copy, is on a rank of the last stage: its bytes are there, its
report comes late.
"""

import argparse
import json
import statistics
import subprocess
import sys

DELAY = "ack-delay:rank=3,ms=5..50"
CASES = {"no delay": [], "acks 5..50 ms late": ["--inject", DELAY]}
PLANES = ("gloo", "chain")


def replay(plane: str, extra: list[str], given: argparse.Namespace) -> float:
    """Requests a second, by the time of all steps on the slowest rank: the start of the processes is not in it."""
    command = [
        *(sys.executable, "-m", "isoradix.cli", "replay", "--workload", "chat", "--requests", str(given.requests)),
        *("--tp", "2", "--pp", "2", "--capacity", "100k", "--host-capacity", "400k", "--step-ms", str(given.step_ms)),
        *("--plane", plane, "--batch", "2", "--json", *extra),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}\n{done.stderr}")
    found = json.loads(done.stdout)
    seconds = max(rank["times"]["step"]["total_ms"] for rank in found["ranks"]) / 1e3
    return float(found["requests"] / seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=600, help="requests of each run")
    parser.add_argument("--step-ms", type=float, default=10.0, help="milliseconds of a forward pass")
    parser.add_argument("--runs", type=int, default=3, help="runs of each case")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    rates: dict[str, dict[str, list[float]]] = {case: {plane: [] for plane in PLANES} for case in CASES}
    for _ in range(given.runs):
        for case, extra in CASES.items():
            for plane in PLANES:
                rates[case][plane].append(replay(plane, extra, given))
    medians = {case: {plane: statistics.median(found) for plane, found in row.items()} for case, row in rates.items()}
    ratios = {case: row["gloo"] / row["chain"] for case, row in medians.items()}
    if given.json:
        print(json.dumps({"requests_per_s": rates, "median": medians, "gloo_over_chain": ratios}, indent=2))
        return
    print(f"requests/s, median of {given.runs} runs of {given.requests} requests, steps of {given.step_ms:g} ms")
    for case, row in medians.items():
        print(f"{case:20} gloo {row['gloo']:8.1f}   chain {row['chain']:8.1f}   ratio {ratios[case]:.2f}")


if __name__ == "__main__":
    main()

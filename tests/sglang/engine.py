"""Runs the real SGLang engine on a CPU, with real processes for its ranks.

    python -m tests.sglang.engine --backend isoradix --tp 2 --l2
    python -m tests.sglang.engine --batch FILE      # a scenario in each line: flags as above, or a JSON object

prints one JSON line for each scenario, without its tokens unless --full is given. Exit code: 0 all completed,
1 an engine reported an error, 2 one exceeded its time.

Importing SGLang costs 15 s, so it is imported once, and engines and their ranks are forked from here. Each engine has
a process group of its own, which is killed when it has ended, is late, or this process goes.
"""

import argparse
import ctypes
import json
import os
import shlex
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any, Final

from .log import Log
from .scenario import Outcome, Scenario

SETTLE_S: Final = 15  # an engine of which a rank has failed may take so long to end; some never do
PDEATHSIG: Final = 1


def run(scenario: Scenario, log: Path | None = None) -> Outcome:
    """Runs one engine to its end. `log` is where its ranks' messages go; without it they are dropped."""
    import_engine()
    with tempfile.TemporaryDirectory(prefix="isoradix-engine-") as folder:
        log = log or Path(folder) / "log"
        log.write_bytes(b"")  # what an engine before this one wrote
        result = Path(folder) / "result.json"
        started = time.monotonic()
        child = _fork(scenario, log, result)
        try:
            status, exit_code, reader = _supervise(child, log, started + scenario.timeout_s)
        finally:
            _kill_group(child)
        reader.read()  # what ranks wrote after the engine's end
        outcome = Outcome(**json.loads(result.read_text())) if result.exists() else Outcome()
    outcome.exit_code = exit_code
    outcome.errors, outcome.injected = reader.errors(), dict(reader.injected)
    outcome.duration_s = round(time.monotonic() - started, 1)
    completed = outcome.status == "ok" and not outcome.errors
    outcome.status = "timeout" if status == "timeout" else "ok" if completed else "error"
    return outcome


def import_engine() -> None:
    """Imports all that a rank needs. What is read at the import must be set by then."""
    if "sglang" in sys.modules:
        return
    os.environ.update(import_settings())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import sglang.srt.managers.detokenizer_manager
        import sglang.srt.managers.scheduler
        import sglang.srt.models.registry

        import sglang

        assert sglang.Engine  # imported when it is first named


def import_settings() -> dict[str, str]:
    """What SGLang's modules read when they are imported."""
    import importlib.util

    spec = importlib.util.find_spec("sglang")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("sglang is not installed here\nhint: tools/sglang.sh setup")
    models = Path(spec.submodule_search_locations[0]) / "srt" / "models"
    unused = sorted({path.stem for path in models.glob("*.py")} - {"llama", "registry", "utils"})
    return {
        "SGLANG_USE_CPU_ENGINE": "1",
        "OMP_NUM_THREADS": "1",  # spinning threads of one rank starve the others
        "SGLANG_NCCL_SO_PATH": "none",  # torch brings it along, and tp > 1 would use it
        "SGLANG_DISABLED_MODEL_ARCHS": ",".join(unused),  # saves seconds
        "SGLANG_ENABLE_RANK_CONSENSUS_CHECKER": "1",  # decorators read it: later is too late
    }


def engine_settings(scenario: Scenario) -> dict[str, str]:
    """The environment of one engine, beside `import_settings`."""
    cores = sorted(os.sched_getaffinity(0))
    settings = {
        "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY": "2",
        "SGLANG_ENABLE_RANK_CONSENSUS_CHECKER": "1" if scenario.consensus_checker else "0",
        "ISORADIX_TEST_FAULTS": scenario.faults,
        "ISORADIX_TEST_CORRUPT": scenario.corrupt,
        "ISORADIX_TEST_BACKEND": scenario.backend,
    }
    kind, _, place = scenario.storage.partition(":")
    if kind == "file":
        settings["SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"] = place
    elif kind == "mooncake":  # its memory is another process's, so it outlives the server
        settings |= {"MOONCAKE_MASTER": place, "MOONCAKE_PROTOCOL": "tcp", "MOONCAKE_GLOBAL_SEGMENT_SIZE": "0"}
    if scenario.ranks > 1:  # asked for as soon as there are more ranks than NUMA nodes
        bound = (str(cores[rank % len(cores)]) for rank in range(scenario.ranks))
        settings["SGLANG_CPU_OMP_THREADS_BIND"] = "|".join(bound)
    return {**settings, **scenario.environment}


def _fork(scenario: Scenario, log: Path, result: Path) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.setsid()
        die_with_parent(parent)
        output = os.open(log, os.O_WRONLY | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        os.environ.update(engine_settings(scenario))
        from .serve import serve

        outcome = serve(scenario)
        result.write_text(json.dumps(asdict(outcome)))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def die_with_parent(parent: int) -> None:
    """This process is killed when its parent, of that id, ends, however that comes about. Linux only."""
    ctypes.CDLL(None).prctl(PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _supervise(child: int, log: Path, late: float) -> tuple[str, int | None, Log]:
    """Waits for the engine's end: how it ended, its exit code, and its log, read to the end."""
    reader = Log(log)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        reader.read()
        if ended:
            return "ended", os.waitstatus_to_exitcode(status), reader
        now = time.monotonic()
        if reader.failed_at and now > reader.failed_at + SETTLE_S:
            return "stuck", None, reader
        if now > late:
            return "timeout", None, reader
        time.sleep(0.05)


def _kill_group(child: int) -> None:
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        return
    try:
        os.waitpid(child, 0)
    except ChildProcessError:
        return  # its end was seen before


def parse_scenario(words: Sequence[str], defaults: Scenario) -> Scenario:
    """From flags named like the fields."""
    return _scenario(_parser(argparse.ArgumentParser(), defaults).parse_args(words))


def _scenario(arguments: argparse.Namespace) -> Scenario:
    return Scenario(**{one.name: getattr(arguments, one.name) for one in fields(Scenario)})


def _parser(parser: argparse.ArgumentParser, defaults: Scenario) -> argparse.ArgumentParser:
    for one in fields(Scenario):
        default, flag = getattr(defaults, one.name), f"--{one.name.replace('_', '-')}"
        if one.default is MISSING:
            parser.add_argument(flag, type=json.loads, default=default, metavar="JSON")
        elif isinstance(one.default, bool):
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=default)
        else:
            parser.add_argument(flag, type=type(one.default), default=default, help=f"default: {default}")
    return parser


def _batch(path: str, defaults: Scenario) -> Iterator[Scenario]:
    """A scenario for each line that is not empty. Lines are taken one by one, so a pipe can wait for the answers."""
    with open(0 if path == "-" else path) as lines:  # noqa: PTH123 standard input has no path
        for line in lines:
            if line.startswith("{"):
                yield Scenario.read({**asdict(defaults), **json.loads(line)})
            elif words := shlex.split(line, comments=True):
                yield parse_scenario(words, defaults)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _parser(parser, Scenario())
    parser.add_argument("--batch", metavar="FILE", help="run each line of FILE, or of standard input if it is '-'")
    parser.add_argument("--log", type=Path, help="keep the messages of the last engine")
    parser.add_argument("--full", action="store_true", help="print tokens and hits of each request")
    arguments = parser.parse_args()
    one = _scenario(arguments)
    codes = [0]
    for scenario in _batch(arguments.batch, one) if arguments.batch else [one]:
        outcome = run(scenario, arguments.log)
        shown: dict[str, Any] = {"scenario": _changed(scenario)}
        shown.update(asdict(outcome) if arguments.full else outcome.summary())
        print(json.dumps(shown), flush=True)
        codes.append({"ok": 0, "error": 1, "timeout": 2}[outcome.status])
    return max(codes)


def _changed(scenario: Scenario) -> dict[str, Any]:
    """The fields that differ from the default ones, and the back end."""
    usual = asdict(Scenario())
    return {name: value for name, value in asdict(scenario).items() if name == "backend" or value != usual[name]}


if __name__ == "__main__":
    sys.exit(main())

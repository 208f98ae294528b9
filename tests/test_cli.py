"""The command line as people and scripts meet it: exit codes, the form of `--json`, errors."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from isoradix import InvariantError, PrefixCache, __version__

LINE = '{"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [%d, %d]}'
if TYPE_CHECKING:
    from .conftest import Answer

FULL = Path("/dev/full")
COMMAND = [sys.executable, "-m", "isoradix.cli"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(LINE % ids + "\n" for ids in ((0, 1), (0, 2), (0, 1), (3, 4))), encoding="utf-8")
    return path


def json_of(answer: Answer, *arguments: object) -> dict[str, Any]:
    code, out, _ = answer(*arguments, "--json")
    assert code == 0
    document: dict[str, Any] = json.loads(out)
    return document


def refused(answer: Answer, *arguments: object) -> str:
    """The message of a command that ends with 2: one line of what, one of hint, nothing on stdout."""
    code, out, err = answer(*arguments)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: [^\n]+\nhint: [^\n]+\n", err), err
    return err


def test_the_real_command_prints_one_json_object(trace: Path) -> None:
    done = subprocess.run([*COMMAND, "replay", trace, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""
    assert json.loads(done.stdout)["hit_tokens"] == 512 + 1024


def test_the_real_command_refuses_a_bad_trace(trace: Path) -> None:
    with trace.open("a", encoding="utf-8") as lines:
        lines.write('{"timestamp": 0, "input_len')
    done = subprocess.run([*COMMAND, "replay", trace, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"error: {trace}, line 5: the line is cut off")
    assert "Traceback" not in done.stderr


def test_a_reader_that_leaves_is_no_error(trace: Path) -> None:
    with subprocess.Popen([*COMMAND, "replay", trace], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 0


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["replay", "--help"], ["replay", "TRACE"]])
def test_where_stdout_leads_nowhere(trace: Path, arguments: list[str]) -> None:
    command = [*COMMAND, *(str(trace) if argument == "TRACE" else argument for argument in arguments)]
    reading, writing = os.pipe()
    os.close(reading)
    gone = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (gone.returncode, gone.stderr) == (0, "")
    if not FULL.exists():
        return
    with FULL.open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        mute = subprocess.run([*COMMAND, "replay", "absent.jsonl"], stdout=full, stderr=full, check=False)
    assert done.returncode == mute.returncode == 2
    assert re.fullmatch("error: standard output cannot be written: [^\n]+\nhint: [^\n]+\n", done.stderr)


def test_a_closed_stderr_is_no_error(trace: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    report = trace.with_suffix(".html")
    assert answer("replay", trace, "--report", report)[0] == 0
    assert report.exists()
    assert answer("replay", "absent.jsonl")[:2] == (2, "")


def test_bytes_that_are_no_text(trace: Path) -> None:
    odd = trace.with_name("odd-\udcff.jsonl")
    try:
        trace.rename(odd)
    except OSError:
        pytest.skip("the file system takes text only")
    report = odd.with_suffix(".html")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [*COMMAND, "replay", str(odd), "--report", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "odd-?.jsonl" in done.stdout
    assert "median ?s" in done.stdout
    assert "odd-?.jsonl" in report.read_text(encoding="utf-8")


def test_a_refused_command_leaves_no_report(answer: Answer, trace: Path) -> None:
    report = trace.with_suffix(".html")
    refused(answer, "replay", "absent.jsonl", "--report", report)
    assert not report.exists()
    report.write_text("before", encoding="utf-8")
    refused(answer, "replay", "absent.jsonl", "--report", report)
    assert report.read_text(encoding="utf-8") == "before"


@pytest.mark.parametrize("command", ["replay", "sweep"])
def test_a_capacity_beyond_memory(answer: Answer, trace: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("isoradix.replay.runner.SlotPool", full)
    said = refused(answer, command, trace, "--capacity", "2G", "--page-size", 1)
    assert "a capacity of 2,000,000,000 pages takes 8,250 MB" in said


@pytest.mark.parametrize("page_size", [1, 64])
def test_a_sweep_reads_a_pipe_once(answer: Answer, trace: Path, page_size: int) -> None:
    pipe = trace.with_name("trace.pipe")
    os.mkfifo(pipe)
    arguments = ["--page-size", page_size, "--capacity", "1k,4k", "--policy", "lru,fifo"]
    writer = Thread(target=lambda: pipe.write_bytes(trace.read_bytes()), daemon=True)
    writer.start()
    piped = json_of(answer, "sweep", pipe, *arguments)
    writer.join()
    assert piped["points"] == json_of(answer, "sweep", trace, *arguments)["points"]


def interrupt(child: subprocess.Popen[str]) -> tuple[str, str]:
    """Interrupts until it is heard: Python drops an interrupt that arrives inside a destructor."""
    for _ in range(12):
        child.send_signal(signal.SIGINT)
        try:
            return child.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            continue
    child.kill()
    raise AssertionError(f"not heard in a minute: {child.communicate()}")


def test_an_interrupt_ends_with_130(tmp_path: Path) -> None:
    pipe = tmp_path / "trace.pipe"
    os.mkfifo(pipe)
    command = [*COMMAND, "replay", str(pipe)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with child, pipe.open("w", encoding="utf-8") as lines:  # opens once the command reads
        lines.write(LINE % (0, 1))
        lines.flush()
        out, err = interrupt(child)
    assert child.returncode == 130
    assert out == ""
    assert err == "error: interrupted\n"


def test_importing_the_package_loads_no_command_line() -> None:
    code = (
        "import isoradix, sys; print([name for name in ('typer', 'rich', 'msgspec', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_missing_packages_are_named() -> None:
    code = "import sys; sys.modules['rich'] = None; from isoradix.cli import main; sys.exit(main(['--version']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert 'hint: pip install "isoradix[cli]"' in done.stderr


def test_version_and_help(answer: Answer) -> None:
    assert answer("--version") == (0, f"isoradix {__version__}\n", "")
    code, out, _ = answer()
    assert code == 0
    assert "Exit codes:" in out
    for command in ("replay", "sweep", "bench"):
        code, out, _ = answer(command, "--help")
        assert code == 0
        assert out.count(f"isoradix {command} ") >= 3, "help comes with examples"


def test_replay_json(answer: Answer, trace: Path) -> None:
    document = json_of(answer, "replay", trace, "--page-size", 512, "--capacity", "2k")
    assert list(document) == [
        "command", "version", "source", "page_size", "capacity", "policy", "requests", "skipped", "uncached", "tokens",
        "hit_tokens", "hit_rate", "evictions", "evicted_tokens", "cached_tokens", "nodes", "memory_bytes",
        "requests_per_s", "tokens_per_s", "wall_s", "operations", "pool", "hitseq", "decision_digest", "tree_digest",
        "check",
    ]  # fmt: skip
    # three pages fit: the last request finds nothing and pushes out one page of the oldest prompt
    assert (document["requests"], document["tokens"], document["hit_tokens"]) == (4, 4096, 1536)
    assert (document["hit_rate"], document["evicted_tokens"], document["cached_tokens"]) == (0.375, 1024, 1536)
    assert (document["source"], document["policy"], document["check"]) == ("trace.jsonl", "lru", "ok")
    assert list(document["operations"]) == ["match", "slots", "lock", "evict", "insert", "unlock"]
    assert list(document["pool"]) == ["free", "alloc"]
    assert all(
        set(stats) == {"count", "median_us", "p99_us", "max_us", "total_ms"}
        for stats in document["operations"].values()
    )
    assert re.fullmatch("[0-9a-f]{12}", document["hitseq"])
    assert re.fullmatch("[0-9a-f]{16}", document["decision_digest"])
    assert re.fullmatch("[0-9a-f]{16}", document["tree_digest"])


def test_replay_is_repeatable_and_limited(answer: Answer, trace: Path) -> None:
    named = ("hitseq", "decision_digest", "tree_digest", "requests")
    first, second = (json_of(answer, "replay", "--workload", "chat", "--requests", 60, "--seed", 4) for _ in range(2))
    assert [first[name] for name in named] == [second[name] for name in named]
    other = json_of(answer, "replay", "--workload", "chat", "--requests", 60, "--seed", 5)
    assert other["tree_digest"] != first["tree_digest"]
    assert json_of(answer, "replay", trace, "--limit", 2)["requests"] == 2
    assert json_of(answer, "replay", "--workload", "rag", "--limit", 3)["requests"] == 3


def test_replay_tells_what_it_did_not_serve(answer: Answer, trace: Path) -> None:
    document = json_of(answer, "replay", trace, "--capacity", "1000", "--page-size", 100)
    assert (document["uncached"], document["hit_tokens"], document["check"]) == (0, 1000, "ok")
    document = json_of(answer, "replay", trace, "--capacity", "900", "--page-size", 100)
    assert (document["uncached"], document["requests"], document["cached_tokens"]) == (4, 4, 0)
    code, out, _ = answer("replay", trace, "--capacity", "900", "--page-size", 100)
    assert code == 0
    assert "longer than the capacity" in out


def test_a_failed_check_ends_with_1(answer: Answer, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        """A cache whose check finds something."""

        def __init__(self, **options: Any) -> None:
            self._cache = PrefixCache(**options)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._cache, name)

        def check(self, _pool: object) -> None:
            raise InvariantError("node 7 owns slot 3 twice")

    monkeypatch.setattr("isoradix.replay.runner.PrefixCache", Broken)
    code, out, err = answer("replay", trace, "--json")
    assert code == 1
    assert json.loads(out)["check"] == "node 7 owns slot 3 twice"
    assert err == "error: node 7 owns slot 3 twice\n"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["replay"], "neither a trace nor --workload"),
        (["replay", "TRACE", "--workload", "chat"], "both given"),
        (["replay", "TRACE", "--seed", "3", "--requests", "9"], "--requests and --seed are given with a trace"),
        (["sweep", "TRACE", "--seed", "0"], "--seed is given with a trace"),
        (["replay", "absent.jsonl"], "absent.jsonl: cannot be read: no such file"),
        (["replay", "TRACE", "--page-size", "0"], "--page-size is 0; the limits are 1 to 1,024"),
        (["replay", "TRACE", "--page-size", "1025"], "--page-size is 1,025"),
        (["replay", "TRACE", "--page-size", "6.5"], "--page-size is '6.5'; a whole number"),
        (["replay", "TRACE", "--capacity", "0"], "--capacity is 0 tokens; the smallest cache holds one page of 64"),
        (["replay", "TRACE", "--capacity", "63"], "--capacity is 63 tokens"),
        (["replay", "TRACE", "--capacity", "-4k"], "--capacity is -4,000 tokens"),
        (["replay", "TRACE", "--capacity", "4X"], "--capacity is '4X'"),
        (["replay", "TRACE", "--capacity", "9G"], "the limits are 64 to 2,147,483,648"),
        (["replay", "TRACE", "--capacity", "9" * 6000], "--capacity is 6,000 characters long"),
        (["replay", "TRACE", "--limit", "9" * 6000], "--limit is 6,000 characters long"),
        (["replay", "a" * 300], "file name too long"),
        (["replay", "TRACE", "--report", "a" * 300], "file name too long"),
        (["replay", "TRACE", "--report", "TRACE/page.html"], "its folder cannot be made"),
        (["replay", "TRACE", "--policy", "lruu"], "lruu"),
        (["replay", "TRACE", "--policy", "tlru:x"], "tlru:x"),
        (["replay", "TRACE", "--limit", "0"], "--limit is 0"),
        (["replay", "TRACE", "--report", "."], "which is a folder"),
        (["replay", "TRACE", "--bogus"], "--bogus"),
        (["replay", "--workload", "poker"], "--workload is 'poker'; the built-in ones are chat, agent, rag"),
        (["replay", "--workload", "chat", "--requests", "0"], "--requests is 0"),
        (["replay", "--workload", "chat", "--seed", "-1"], "--seed is -1"),
        (["sweep", "TRACE", "--capacity", "4M..1M"], "the range ends before it starts"),
        (["sweep", "TRACE", "--capacity", "1M,,4M"], "a value is missing"),
        (["sweep", "TRACE", "--policy", "lru,nope"], "nope"),
        (["bench", "evicts"], "'evicts'; there are match, insert, lock, evict, replay, memory"),
        (["bench", "evict", "--locked-fraction", "2"], "--locked-fraction is '2'; the limits are 0 to 1"),
        (["bench", "evict", "--leaves", "0"], "--leaves is 0"),
        (["bench", "match", "--policy", "lfu", "--leaves", "9"], "bench match does not read --policy, --leaves"),
        (["bench", "memory", "--repeat", "9"], "bench memory does not read --repeat"),
        (["bench", "evict", "--policy", "nope"], "nope"),
        (["frob"], "frob"),
    ],
)
def test_bad_usage_is_refused(answer: Answer, trace: Path, arguments: list[str], named: str) -> None:
    assert named in refused(answer, *(argument.replace("TRACE", str(trace)) for argument in arguments))


def test_sweep(answer: Answer, trace: Path) -> None:
    arguments = ["--page-size", 512, "--capacity", "1024..4096", "--policy", "lru,tlru:512,0"]
    document = json_of(answer, "sweep", trace, *arguments)
    assert [(point["policy"], point["capacity"]) for point in document["points"]] == [
        (policy, capacity) for policy in ("lru", "tlru:512,0", "offline-optimal") for capacity in (1024, 2048, 4096)
    ]
    rates = {(point["policy"], point["capacity"]): point["hit_rate"] for point in document["points"]}
    assert rates["lru", 4096] == rates["offline-optimal", 4096] == 0.375
    code, out, _ = answer("sweep", trace, "--capacity", "1k,2k", "--no-optimal")
    assert code == 0
    assert "offline-optimal" not in out


def test_a_progress_bar_is_for_terminals() -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command = [*COMMAND, "replay", "--workload", "chat", "--requests", "300", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as child:
        os.close(theirs)
        shown = read_terminal(ours)
        assert child.stdout is not None
        document = json.load(child.stdout)
    assert child.returncode == 0
    assert document["requests"] == 300
    assert "replay chat workload" in shown


def read_terminal(descriptor: int) -> str:
    """Everything until the other side has closed, which a terminal tells by an error."""
    parts = []
    while True:
        try:
            part = os.read(descriptor, 65_536)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    os.close(descriptor)
    return b"".join(parts).decode()

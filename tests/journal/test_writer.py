"""Who writes a journal never waits: what has no room is dropped and said so, and a disk that refuses stops nobody."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest
from tests.journal.rig import PAGE, Domain, journals

from isoradix import InvalidInputError, SlotPool
from isoradix._isoradix import JournalBlock, JournalFile
from isoradix.consensus import LocalPlane
from isoradix.driver import Driver
from isoradix.journal import recorder, writer
from isoradix.journal.reader import Frame
from isoradix.journal.recorder import RecordedCache, Recorder


def rest() -> None:
    """Writers come to rest, and have room again."""
    for thread in threading.enumerate():
        if thread.name.startswith("isoradix-journal"):
            thread.join(0.5)


def test_what_has_no_room_is_dropped_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = threading.Event()

    class SlowFile:
        def __init__(self, path: Path, mark: bytes) -> None:
            self._file: JournalFile = JournalFile(path, mark)

        def write(self, block: JournalBlock) -> int:
            held.wait(30)
            return self._file.write(block)

    monkeypatch.setattr(writer, "JournalFile", SlowFile)
    domain = Domain(tmp_path, 1, seed=3)
    held.set()
    domain.run(3)
    rest()
    held.clear()
    monkeypatch.setattr(writer, "QUEUE_BYTES_MAX", 10_000)
    monkeypatch.setattr(recorder, "_BLOCK_BYTES", 100)
    domain.run(60)  # the disk stands still
    held.set()
    rest()
    domain.run(3)
    domain.stop()
    (journal,) = journals(tmp_path).journals
    steps = [entry.step for entry in journal.entries() if isinstance(entry, Frame)]
    assert steps == list(range(1, len(steps) + 1))
    assert 3 < len(steps) < 63
    assert len(journal.paths) > 1
    assert " bytes were dropped, because the disk was too slow; what follows, from step " in journal.ending


def test_a_disk_that_refuses_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class FullFile:
        def __init__(self, path: Path, mark: bytes) -> None: ...

        def write(self, block: JournalBlock) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, "JournalFile", FullFile)
    with caplog.at_level(logging.ERROR, "isoradix"):
        domain = Domain(tmp_path, 1, seed=3)
        domain.run(50)
        domain.stop()
    assert domain.members[0].driver.cache.clock[0] == 51
    assert [record.message.partition("\n")[0] for record in caplog.records] == [
        f"the journal in {next(tmp_path.iterdir())} ends here: [Errno 28] No space left on device"
    ]


def test_a_folder_that_cannot_be_made_is_refused_before_anybody_waits(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    plane = LocalPlane()
    with pytest.raises(InvalidInputError, match=r"the folder for journals, .*, cannot be written to: .*\nhint: "):
        Driver(plane, None, SlotPool(16, page_size=PAGE), page_size=PAGE, journal=blocked / "journals")
    with pytest.raises(InvalidInputError, match="a journal's limit is 10 bytes, at least 65536"):
        Recorder(tmp_path, 0, {}, 10)


def test_without_a_journal_there_is_nothing_in_between(tmp_path: Path) -> None:
    slots = SlotPool(16, page_size=PAGE)
    driver = Driver(LocalPlane(), None, slots, page_size=PAGE)
    assert driver.journal is None
    assert type(driver.cache).__name__ == "TieredCache"
    assert type(driver.rank).__name__ == "Rank"
    driver.close()
    recorded = Driver(LocalPlane(), None, slots, page_size=PAGE, journal=tmp_path)
    assert isinstance(recorded.cache, RecordedCache)
    recorded.close()
    assert not list(tmp_path.glob("*/.writable"))


def test_every_verb_that_changes_a_cache_is_written_down() -> None:
    """What a wrapper leaves to the cache itself only looks, or begins what a frame ends."""
    looks = {
        "probe",
        "slots",
        "load_back_need",
        "prefetch_state",
        "poll_prefetch",
        "prefetch_operation",
        "namespaces",
        "namespace_size",
        "walk",
        "node",
        "node_tokens",
        "node_slots",
        "node_pages",
        "parts",
        "dfs_weight_order",
        "memory_bytes",
        "operations",
        "check",
        "check_ended",
        "journal",
        "journal_bytes",
        "take_records",
        "take_events",
    }
    from isoradix import Rank, TieredCache
    from isoradix.journal.recorder import RecordedRank

    def verbs(of: type) -> set[str]:
        return {name for name, one in vars(of).items() if callable(one) and not name.startswith("_")}

    assert verbs(TieredCache) - looks == verbs(RecordedCache) - {"note"}
    of_rank = {"leader", "follower", "of_the_past", "take_effects", "delivered"}
    assert verbs(Rank) - of_rank == verbs(RecordedRank)

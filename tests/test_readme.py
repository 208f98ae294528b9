"""What README.md and docs/ say is so: their Python runs, their commands and links exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "benches/README.md", "crates/README.md"]
PAGES = sorted([*(ROOT / name for name in NAMES), *ROOT.glob("docs/*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:    |\$ )?(isoradix .+?)(?:\s+#.*)?$", re.MULTILINE)
MAKE = re.compile(r"(?:^    |`)make ([a-z][a-z-]*)", re.MULTILINE)
GROUPS = {"storage"}
"""Commands that have commands below them."""
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def python_blocks(page: Path) -> list[str]:
    """The page's blocks, padded with empty lines so that a traceback gives the line of the page."""
    text = page.read_text()
    return ["\n" * text[: block.start(1)].count("\n") + block[1] for block in BLOCK.finditer(text)]


def commands(page: Path) -> list[str]:
    """The `isoradix` commands in the page's shell blocks."""
    shell = re.findall(r"^```(?:sh|console)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in shell for line in COMMAND.findall(block.replace("\\\n", " "))]


@pytest.mark.parametrize("page", [p for p in PAGES if python_blocks(p)], ids=page_id)
def test_python_blocks_run(page: Path) -> None:
    namespace: dict[str, object] = {"__name__": "readme"}
    for block in python_blocks(page):
        exec(compile(block, str(page), "exec"), namespace)


def test_embedding_takes_fewer_than_40_lines() -> None:
    scheduler = python_blocks(ROOT / "README.md")[0].strip()
    assert scheduler.count("\n") + 1 < 40


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(MAKE.findall(page.read_text())) <= targets


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not missing


def test_every_command_named_has_its_options() -> None:
    named: dict[str, set[str]] = {}
    for page in PAGES:
        for command in commands(page):
            words = command.split()
            name = " ".join(words[1 : 3 if words[1] in GROUPS else 2])
            named.setdefault(name, set()).update(re.findall(r"(?<=\s)--[a-z-]+", command))
    assert named, "docs/cli.md shows commands"
    for name, options in named.items():
        shown = subprocess.run(
            [sys.executable, "-m", "isoradix.cli", *name.split(), "--help"],
            capture_output=True,
            text=True,
            check=True,
            env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"},
        ).stdout
        unknown = {option for option in options if not re.search(rf"{option}\b", shown)}
        assert not unknown, f"isoradix {name}"

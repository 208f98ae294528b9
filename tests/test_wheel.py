"""The wheel of `make wheel` works where there is no Rust, no torch and no command line package."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

USE = """
import sys
import isoradix

cache = isoradix.PrefixCache(page_size=4)
done = cache.insert([1, 2, 3, 4, 5], [10, 11, 12, 13])
assert (done.new_tokens, done.length) == (4, 4)
assert cache.match_prefix([1, 2, 3, 4, 9]).hit_tokens == 4
cache.check()
loaded = {"torch", "typer", "click", "rich"} & set(sys.modules)
assert not loaded, loaded
print(isoradix.__file__)
"""


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel() -> Path:
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    run("make", "--silent", "wheel", f"VENV={sys.prefix}", cwd=ROOT, **env)
    (built,) = ROOT.glob("dist/*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The python of an environment that holds the wheel and what it asks for."""
    home = tmp_path_factory.mktemp("wheel")
    python = home / "venv" / "bin" / "python"
    env = dict(os.environ)
    if uv := shutil.which("uv"):
        run(uv, "venv", "--python", sys.executable, home / "venv", cwd=home, **env)
        run(uv, "pip", "install", "--python", python, wheel, cwd=home, **env)
    else:
        run(sys.executable, "-m", "venv", home / "venv", cwd=home, **env)
        run(python, "-m", "pip", "install", "--quiet", wheel, cwd=home, **env)
    return python


def test_it_is_abi3_and_carries_types_and_licence(wheel: Path) -> None:
    assert "-cp311-abi3-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert {"isoradix/py.typed", "isoradix/_isoradix.pyi", "isoradix/metrics/grafana.json"} <= set(names)
    assert [name for name in names if re.fullmatch(r"isoradix/_isoradix\.abi3\.so", name)]
    assert [name for name in names if re.search(r"\.dist-info/.*LICENSE$", name)]
    assert not [name for name in names if name.endswith((".rs", ".pyc"))]


def test_it_works_without_rust(installed: Path) -> None:
    home = installed.parents[2]
    assert shutil.which("cargo", path=str(installed.parent)) is None
    imported_from = run(installed, "-c", USE, cwd=home, PATH=str(installed.parent))
    assert str(home) in imported_from


def test_it_needs_numpy_only(installed: Path) -> None:
    listed = "from importlib.metadata import distributions as d; print(*{p.name for p in d()})"
    names = set(run(installed, "-c", listed, cwd=installed.parents[2]).split())
    assert names - {"pip", "setuptools"} == {"isoradix", "numpy"}

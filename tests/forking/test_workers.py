"""Tests run by several workers: as they run alone, whatever becomes of a worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFTEST = """
import os
from pathlib import Path

import pytest
from tests.forking.workers import Workers

def pytest_addoption(parser):
    parser.addoption("--workers", type=int)

def pytest_configure(config):
    begin = lambda worker: os.environ.update(BEGUN=f"{worker} {os.getpid()}")
    group = lambda file: "both" if file in ("test_b.py", "test_c.py") else file
    if workers := config.getoption("workers"):
        config.pluginmanager.register(Workers(workers, group=group, begin=begin))

@pytest.fixture(scope="session", autouse=True)
def _process():
    assert os.environ["BEGUN"].partition(" ")[2] == str(os.getpid())
    yield
    note("ended")

def note(what):
    with Path(__file__).with_name("notes").open("a") as notes:
        notes.write(f"{os.getpid()} {what}\\n")

@pytest.fixture(autouse=True)
def _noted(request):
    note(request.node.nodeid)

@pytest.fixture(scope="module")
def shared():
    note("shared")
    yield
    note("unshared")
"""
FILES = {
    "test_a.py": """
import os, pytest, signal, sys, warnings
def test_passes(shared, tmp_path): (tmp_path / "f").touch()
def test_fails(capfd): print("said before"); assert {"a": 1} == {"a": 2}
@pytest.mark.skip(reason="for a reason")
def test_is_skipped(): pass
def test_prints(): print("said here"); print("and here", file=sys.stderr); assert 0
@pytest.mark.parametrize("how", ["exit", "kill"])
def test_dies(how): os._exit(3) if how == "exit" else os.kill(os.getpid(), signal.SIGKILL)
def test_is_run_by_another(shared, tmp_path): assert not [*tmp_path.iterdir()]; warnings.warn("careful")
""",
    "test_b.py": "def test_one(shared): pass\ndef test_two(shared): pass",
    "test_c.py": "def test_three(): pass",
    "test_d.py": "import pytest\n@pytest.fixture\ndef broken(): assert 0\ndef test_first(broken): pass",
}


def test_tests_count_as_if_they_ran_here_and_who_dies_is_told_and_replaced(tmp_path):
    done = run(tmp_path, "-v", "--junit-xml=out.xml")
    assert done.returncode == 1
    out = done.stdout
    assert "4 failed, 5 passed, 1 skipped, 1 warning, 1 error" in out
    for said in ("{'a': 1} == {'a': 2}", "said here", "and here", "for a reason", "careful"):
        assert said in out
    assert "(exit code 3) in test_a.py::test_dies[exit]" in out
    assert f"(signal {signal.SIGKILL.value}) in test_a.py::test_dies[kill]" in out
    notes = [line.split(" ", 1) for line in (tmp_path / "notes").read_text().splitlines()]
    by = {what: process for process, what in notes}
    assert by["test_b.py::test_one"] == by["test_b.py::test_two"] == by["test_c.py::test_three"]
    of_b = [what for process, what in notes if process == by["test_b.py::test_one"]]
    of_b = of_b[of_b.index("test_b.py::test_one") - 1 :]
    assert of_b[:4] == ["shared", "test_b.py::test_one", "test_b.py::test_two", "unshared"]
    a = [process for process, what in notes if what.startswith("test_a.py")]
    assert len(set(a)) == 3
    failed = json.loads((tmp_path / "cache/v/cache/lastfailed").read_text())
    assert len(failed) == 5
    assert 'tests="11"' in (tmp_path / "out.xml").read_text()


def test_the_first_failure_ends_all(tmp_path):
    loop = "import pytest\n@pytest.mark.parametrize('n', range(2_000))\ndef test_n(n): pass"
    (tmp_path / "test_e.py").write_text(loop)
    done = run(tmp_path, "-x")
    assert "stopping after 1 failures" in done.stdout
    notes = [line.split(" ", 1) for line in (tmp_path / "notes").read_text().splitlines()]
    assert sum("test_e.py" in what for _, what in notes) < 2_000
    assert [what for _, what in notes].count("ended") == len({process for process, _ in notes})


def run(folder, *arguments):
    (folder / "conftest.py").write_text(CONFTEST)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\ncache_dir = cache\n")
    command = [sys.executable, "-m", "pytest", "--workers=2", "-p", "no:xdist", *arguments]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=50, check=False
    )

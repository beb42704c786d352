"""What lies in the home folder, in the working folder or in a client's variables is not run by MCPX."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from mcpx.core.system.environment import CHILD_MARK, as_written, for_daemon
from tests.mcpx.scripted import entry
from tests.mcpx.serving import run_cli, serving

MODULES = ("structlog", "click", "msgspec", "anyio", "mcp", "mcpx", "supervisors", "rich", "platformdirs")
FOREIGN = {
    "PYTHONSTARTUP": "/nowhere/startup.py",
    "LD_LIBRARY_PATH": "/nowhere/lib",
    "DYLD_INSERT_LIBRARIES": "/nowhere/lib.dylib",
    "NODE_OPTIONS": "--require /nowhere/debugger.js",
    "OPENSSL_CONF": "/nowhere/openssl.cnf",
    "SSLKEYLOGFILE": "/nowhere/keys",
}
pytestmark = pytest.mark.anyio


@pytest.fixture
def planted(house):
    """A folder with a file for each module that MCPX imports; `ran` lists those that were."""
    folder = house.folder / "planted"
    folder.mkdir()
    for name in MODULES:
        where = folder / name if name in {"mcpx", "supervisors"} else folder
        where.mkdir(exist_ok=True)
        file = where / "__init__.py" if where != folder else where / f"{name}.py"
        file.write_text(f"open({str(folder / 'ran')!r}, 'a').write({name!r} + ' ')\n")
    return folder


def ran(folder: Path) -> list[str]:
    record = folder / "ran"
    return record.read_text().split() if record.exists() else []


@contextmanager
def in_folder(folder: Path):
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def daemons_environment(pid: int) -> dict[str, str]:
    pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return dict(pair.decode().split("=", 1) for pair in pairs if b"=" in pair)


def test_a_daemon_runs_nothing_of_the_home_folder(house, planted):
    house.write({"s": entry()})
    done = run_cli(house.folder, "daemon", "start", "--config", house.config, HOME=str(planted))
    assert done.returncode == 0, done.stderr
    assert house.status()["daemon"]["pid"] == house.pid
    assert ran(planted) == []


async def test_nor_does_one_that_a_shim_starts_for_a_client_that_works_in_that_folder(house, planted):
    house.write({"s": entry()})
    foreign = {**FOREIGN, "HOME": str(planted), CHILD_MARK: "of another server"}
    console_script = [str(Path(sys.executable).with_name("mcpx"))]
    attach = ("attach", "--config", house.config)
    with in_folder(planted):
        async with serving(house.folder, *attach, command=lambda: console_script, **foreign) as client:
            assert await client.initialize()
    assert ran(planted) == []
    assert house.pid is not None
    given = daemons_environment(house.pid)
    assert not set(given) & {*FOREIGN, CHILD_MARK}
    assert given["HOME"] == str(planted)


def test_python_m_mcpx_loads_no_library_from_the_working_folder(house, planted):
    house.write({"s": entry()})
    for name in ("mcpx", "supervisors"):  # `-m mcpx` runs a package of that name that lies there, as ever
        for file in (planted / name).iterdir():
            file.unlink()
        (planted / name).rmdir()
    with in_folder(planted):
        done = run_cli(house.folder, "check", house.config)
    assert (done.returncode, ran(planted)) == (0, []), done.stderr


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads /proc")
def test_a_clients_module_path_is_not_the_daemons_but_a_configuration_may_name_it(house):
    values = {"PYTHONNOUSERSITE": "1", "KEY_OF_MINE": "k"}
    server = entry()
    server["env"] = {"SEEN": "${PYTHONNOUSERSITE} ${KEY_OF_MINE}"}
    house.write({"s": server})
    done = run_cli(house.folder, "daemon", "start", "--config", house.config, **values)
    assert done.returncode == 0, done.stderr
    [status] = house.status()["servers"]
    assert status["state"] != "disabled", status
    assert house.pid is not None
    assert "PYTHONNOUSERSITE" not in daemons_environment(house.pid)
    assert daemons_environment(status["pid"])["SEEN"] == "1 k"


def test_what_is_kept_and_what_is_set_aside():
    kept = {"PATH": "/bin", "HTTPS_PROXY": "http://p", "LANG": "C", "SSH_AUTH_SOCK": "/s", "XDG_X": "x"}
    assert for_daemon({**kept, **FOREIGN, CHILD_MARK: "x"}) == {
        **kept,
        **{f"MCPX_ASIDE_{name}": value for name, value in FOREIGN.items()},
    }
    assert as_written(kept) is kept
    assert as_written({"MCPX_ASIDE_LD_PRELOAD": "old", "LD_PRELOAD": "mine"})["LD_PRELOAD"] == "mine"

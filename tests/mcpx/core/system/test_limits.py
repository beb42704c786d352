"""What a server's processes may use: set for the process itself and for all that it starts."""

from __future__ import annotations

import errno
import os
import resource
import sys

import pytest
from msgspec.structs import asdict

from mcpx.core.catalog.snapshot import State
from mcpx.core.config import Stdio
from mcpx.core.config.per_server import ProcessLimits
from mcpx.core.servers.transport.spawning import spawn
from mcpx.core.system import limits as module
from mcpx.core.system.limits import limit_processes
from mcpx.core.system.processes import children
from tests.mcpx.scripted import config_of, entry, open_watched

linux = pytest.mark.linux("prlimit(2)")
AS, FILES = resource.RLIMIT_AS, resource.RLIMIT_NOFILE
OURS = os.getpriority(os.PRIO_PROCESS, 0)  # who runs the tests may have made them nice
NICER = OURS + 1  # not more: it starves on a busy machine
LIMITS = ProcessLimits(nice=NICER, address_space=3 << 30, open_files=99)
SAYS = "import os, resource as r; print(os.nice(0), r.getrlimit(r.RLIMIT_AS), r.getrlimit(r.RLIMIT_NOFILE))"
WAITS = f"input(); import subprocess, sys; subprocess.run([sys.executable, '-c', {SAYS!r}]); {SAYS}"
FORKS = "import os; pid = os.fork(); pid or os.fork(); print(1, flush=True); input()"


def python(code, **given):
    return Stdio(command=sys.executable, args=("-S", "-E", "-c", code), **given)


@linux
def test_a_server_and_what_it_starts_have_the_limits_of_its_entry():
    child = spawn(python(WAITS, limits=LIMITS))
    out, _ = child.popen.communicate(b"\n", timeout=50)
    assert out.decode().splitlines() == [f"{NICER} ({3 << 30}, {3 << 30}) (99, 99)"] * 2
    assert os.getpriority(os.PRIO_PROCESS, 0) == OURS


@linux
def test_what_a_server_has_started_before_is_limited_too():
    child = spawn(python(FORKS))
    pids = {child.popen.pid}
    try:
        for _ in range(3):
            child.popen.stdout.readline()
        pids |= (found := set(children(child.popen.pid)))
        (forked,) = found
        pids |= set(children(forked))
        assert len(pids) == 3
        limit_processes(child.popen.pid, **asdict(LIMITS))
        for pid in pids:
            assert resource.prlimit(pid, FILES) == (99, 99)
            assert resource.prlimit(pid, AS) == (3 << 30, 3 << 30)
            assert os.getpriority(os.PRIO_PROCESS, pid) == NICER
    finally:
        os.killpg(child.popen.pid, 9)
        child.popen.communicate(timeout=50)


@linux
def test_no_limit_is_raised():
    child = spawn(python("input()", limits=ProcessLimits(nice=NICER + 1, open_files=64)))
    try:
        limit_processes(child.popen.pid, nice=NICER, open_files=128)
        assert resource.prlimit(child.popen.pid, FILES) == (64, 64)
        assert os.getpriority(os.PRIO_PROCESS, child.popen.pid) == NICER + 1
    finally:
        child.popen.communicate(b"\n", timeout=50)


@linux
def test_without_limits_nothing_is_set(monkeypatch):
    monkeypatch.setattr("mcpx.core.servers.transport.spawning.limit_processes", None)
    spawn(python("")).popen.communicate(timeout=50)


@linux
@pytest.mark.anyio
async def test_a_server_of_a_configuration_keeps_its_limits_through_restarts_and_reloads():
    def config(**limits):
        return config_of({"s": entry(settings={"limits": limits})})

    async with open_watched(config(open_files=99, calls_per_minute=5)) as watch:
        first = watch.hub.upstreams["s"].pid
        assert resource.prlimit(first, FILES) == (99, 99)
        os.kill(first, 9)
        await watch.until(lambda: watch.hub.upstreams["s"].pid not in (None, first))
        again = watch.hub.upstreams["s"].pid
        assert resource.prlimit(again, FILES) == (99, 99)
        await watch.hub.reload(config(open_files=99, calls_per_minute=6))
        assert watch.hub.upstreams["s"].pid == again
        plan = await watch.hub.reload(config(open_files=98))
        assert plan.changed == ("s",)
        await watch.becomes(State.READY)
        assert resource.prlimit(watch.hub.upstreams["s"].pid, FILES) == (98, 98)


@linux
@pytest.mark.anyio
async def test_a_server_that_ends_for_want_of_memory_is_reported_with_its_limit():
    takes_more_and_more = (
        "import time\nheld = []\nwhile True: held.append(bytes(1 << 20)) or time.sleep(0.01)"
    )
    command = {"command": sys.executable, "args": ["-S", "-E", "-c", takes_more_and_more]}
    config = config_of({"s": command | {"limits": {"address_space": 1 << 20}}})
    async with open_watched(config, settled=False) as watch:
        await watch.until(lambda: watch.hub.upstreams["s"].info().cause is not None)
        cause = watch.hub.upstreams["s"].info().cause
        assert "its limits.address_space is 1,048,576 bytes" in cause
        assert "not found" not in cause


def test_a_missing_command_is_the_same_error_as_without():
    errors = []
    for limits in (ProcessLimits(), LIMITS):
        with pytest.raises(FileNotFoundError) as missing:
            spawn(Stdio(command="/no/such/command", limits=limits))
        errors.append(str(missing.value))
    assert errors[0] == errors[1]


@pytest.mark.parametrize("gone", [False, True])
def test_what_the_system_does_not_allow_is_logged_and_no_more(monkeypatch, gone):
    error = ProcessLookupError() if gone else PermissionError(errno.EPERM, "Operation not permitted")

    def refuse(*_given):
        raise error

    told = []
    monkeypatch.setattr(resource, "prlimit", refuse, raising=False)
    monkeypatch.setattr(os, "getpriority", refuse)
    monkeypatch.setattr(module.log, "warning", lambda event, **fields: told.append((event, fields)))
    limit_processes(1, **asdict(LIMITS))
    limits = [fields["limit"] for _, fields in told]
    assert limits == ([] if gone else ["address_space", "open_files", "nice"])
    monkeypatch.delattr(resource, "prlimit")
    told.clear()
    limit_processes(1, open_files=99)
    assert told == [
        ("upstream.limit_not_set", {"limit": "open_files", "pid": 1, "reason": "this system cannot"})
    ]

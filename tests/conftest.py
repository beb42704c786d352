"""For all tests: what MCPX remembers goes into a folder of the test run, never into the user's own.

MCPX runs on asyncio, and so do its tests; those of `supervisors` choose their back end themselves.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from functools import lru_cache
from pathlib import Path

import anyio
import httpx2
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from mcpx.core.servers.transport import ledger
from mcpx.core.system.linux import LINUX
from supervisors.testing import virtual_backends
from tests.forking import client
from tests.forking.workers import Workers

# kept whatever the machine says: each worker loads all tests, and most of that is to compile them
sys.dont_write_bytecode = False
STATE = tempfile.TemporaryDirectory(prefix="mcpx-tests-")
state = Path(STATE.name)
os.environ["MCPX_STATE_DIR"] = str(state)
os.environ["SHELL"] = "/bin/false"  # no login shell is asked: who runs the tests may have set anything


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["trio", "asyncio"])
def virtual(request: pytest.FixtureRequest) -> Callable[[Callable[[], Awaitable[None]]], None]:
    """Run an async function in virtual time, on either back end."""
    options = dict(virtual_backends())[request.param]
    return lambda main: anyio.run(main, backend=request.param, backend_options=options)


@pytest.fixture(autouse=True)
def _nothing_from_last_time() -> Iterator[None]:
    """What a test's servers have offered is not remembered for those of the next."""
    yield
    shutil.rmtree(state / "catalogues", ignore_errors=True)


SHARING = tuple(
    f"tests/live/test_{name}.py"
    for name in ("catalogue", "exec", "http_upstreams", "native_everything", "resources", "wrong_calls")
)
"""Files whose tests share gateways of the session: all of them are one worker's, or it starts them anew."""


OTHERS = ("tests/live/", "tests/cluster/")
"""Folders of the tests that need more than Python: servers of npm, a browser, a Ray cluster."""
LONG = (
    "tests/docs/test_examples.py",
    "tests/faults/",
    "tests/mcpx/cli/trust/test_approve.py",
    "tests/mcpx/cluster/",
    "tests/mcpx/core/calls/results/test_pictures.py",
    "tests/mcpx/core/daemon/test_carried_over.py",
    "tests/mcpx/core/daemon/test_commands.py",
    "tests/mcpx/core/daemon/test_month.py",
    "tests/mcpx/core/daemon/test_native_corpus.py",
    "tests/mcpx/core/daemon/test_project_files.py",
    "tests/mcpx/core/daemon/test_runaways.py",
    "tests/mcpx/core/daemon/test_without_daemon.py",
    "tests/mcpx/core/gateway/frontends/http/test_bounds.py",
    "tests/mcpx/core/gateway/frontends/test_kept_results.py",
    "tests/mcpx/core/gateway/frontends/test_not_reading.py",
    "tests/mcpx/core/gateway/native/test_lists_change.py",
    "tests/mcpx/core/gateway/test_fuzz.py",
    "tests/mcpx/core/policy/test_matrix",
    "tests/mcpx/core/servers/relay/test_every_pair.py",
    "tests/mcpx/core/servers/relay/test_two_clients.py",
    "tests/mcpx/core/servers/test_fidelity.py",
    "tests/mcpx/core/servers/test_first_start.py",
    "tests/mcpx/core/servers/test_list_fidelity.py",
    "tests/mcpx/core/servers/test_upkeep.py",
    "tests/mcpx/core/servers/transport/test_http_bodies.py",
    "tests/mcpx/core/servers/transport/test_large_bodies.py",
    "tests/mcpx/demo/tour/",
    "tests/mcpx/oauth/test_bad_steps.py",
    "tests/mcpx/oauth/test_kills.py",
    "tests/mcpx/oauth/test_rotation.py",
    "tests/mcpx/page/views/test_same_plan.py",
    "tests/mcpx/top/test_app.py",
    "tests/scripts/",
)
"""Played faults, soaks, kills at every step, many megabytes: what takes the most of the machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not LINUX and (mark := item.get_closest_marker("linux")):
            item.add_marker(pytest.mark.skip(reason=f"Linux alone: {mark.args[0]}"))
        if item.nodeid.startswith(OTHERS):
            item.add_marker(pytest.mark.others)
        elif item.nodeid.startswith(LONG):
            item.add_marker(pytest.mark.long)
    slow = {item.path for item in items if {"others", "long"} & {mark.name for mark in item.iter_markers()}}
    items.sort(key=lambda item: item.path not in slow)  # begun last, they would keep one worker at the end


def pytest_configure(config: pytest.Config) -> None:
    """Try properties on some examples; with `--hypothesis-profile=thorough` on as many as hypothesis does.

    Neither counts seconds: a machine that is busy with other things is no fault of what is tested.
    """
    patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("thorough", patient)
    settings.register_profile("suite", patient, max_examples=40)
    settings.load_profile(config.getoption("hypothesis_profile", None) or "suite")
    _draw_from_mcpx_alone()
    _hear_signals()
    _load_authorities_once()
    if (workers := config.getoption("numprocesses", None)) and config.option.dist != "no":
        config.option.dist = "no"  # those of xdist each collect all tests anew
        config.pluginmanager.register(Workers(workers, group=group, begin=begin))


def group(file: str) -> str:
    """What one worker runs, in place of each file: what shares a session's fixtures."""
    for folder in ("tests/cluster", "tests/release"):  # they share a Ray cluster, and what is built once
        if file.startswith(f"{folder}/"):
            return folder
    return "tests/live" if file in SHARING else file


def begin(worker: str) -> None:
    """Give a worker a folder of state to itself."""
    global state  # noqa: PLW0603 - of this process
    state = Path(STATE.name, worker)
    state.mkdir()
    os.environ["MCPX_STATE_DIR"] = str(state)


def _draw_from_mcpx_alone() -> None:
    """Have hypothesis take constants out of MCPX, not out of all tests: to read those takes 6 s at first."""
    tests, is_local = str(Path(__file__).parent), providers.is_local_module_file
    providers.is_local_module_file = lambda file: not file.startswith(tests) and is_local(file)


def _load_authorities_once() -> None:
    """Have the HTTP clients of tests share the authorities that they trust, which take 20 ms to load."""
    transports = httpx2._transports.default
    transports.create_ssl_context = lru_cache(maxsize=8)(transports.create_ssl_context)


def _hear_signals() -> None:
    """Ignore no signal that a shell ignores for what runs behind it (`nohup`, `&`): children would, too."""
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGINT):
        if signal.getsignal(number) is signal.SIG_IGN:
            heard = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, heard)


def pytest_collection_finish() -> None:
    """Take the tests and what they import out of the garbage collector's sight: it searches often."""
    gc.collect()
    gc.freeze()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have a fork server for all workers; started while the tests are collected, where there will be many."""
    client.fork_sweeps(ledger)
    if session.config.getoption("numprocesses", None):
        client.SERVER.listen()
        if session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
            client.SERVER.start()


def pytest_unconfigure() -> None:
    client.stop()

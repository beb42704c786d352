"""Running tests in several processes at once, each forked off this one when it has collected the tests.

`Workers(number)` is a plugin of pytest that `tests/conftest.py` registers for `-n NUMBER`. Workers of
pytest-xdist start from nothing, and each imports and collects every test: for these tests, 10 s of CPU for
each. A forked one has them already, and starts in milliseconds.

A worker is given the tests of a whole file, so that what a module's fixtures have made serves them all, and
asks for the next file before the last of them, so that pytest knows what must be torn down. It sends its
reports, which count as if the tests had run here. One that dies fails the test that it was at, and another
takes over what it had left.
"""

from __future__ import annotations

import atexit
import os
import sys
import traceback
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Connection, Pipe, wait
from tempfile import TemporaryFile
from typing import Any, NoReturn

import pytest

from tests.forking import client


class Workers:
    """A run of the tests in `number` processes.

    `group` names what one worker runs together, by a test's file; `begin` is called in each worker with the
    worker's name.
    """

    def __init__(
        self,
        number: int,
        *,
        group: Callable[[str], str],
        begin: Callable[[str], object],
    ) -> None:
        self._number = number
        self._group = group
        self._begin = begin
        self._names = count()
        self._working: dict[Connection, _Worker] = {}
        self._files: deque[list[int]] = deque()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        failed = session.testsfailed and not session.config.option.continue_on_collection_errors
        if failed or session.config.option.collectonly:
            return None  # as without workers
        terminal: Any = session.config.pluginmanager.get_plugin("terminalreporter")
        terminal.showfspath = False
        self._files.extend(self._in_order(session.items))
        try:
            for _ in range(min(self._number, len(self._files))):
                self._fork(session)
            while self._working:
                asked = client.SERVER.listener
                for ready in wait([*self._working, *([asked] if asked else [])]):
                    if isinstance(ready, Connection):
                        self._hear(session, self._working[ready])
                    else:
                        client.SERVER.start()
                    if session.shouldfail:
                        raise session.Failed(session.shouldfail)
                    if session.shouldstop:
                        raise session.Interrupted(session.shouldstop)
        finally:
            for worker in self._working.values():
                worker.connection.close()  # it ends after the test that it is at
            for worker in self._working.values():
                worker.ended()
        return True

    def _in_order(self, items: list[pytest.Item]) -> list[list[int]]:
        """The tests of each file, by their indices."""
        files: dict[str, list[int]] = {}
        for index, item in enumerate(items):
            files.setdefault(self._group(item.nodeid.partition("::")[0]), []).append(index)
        return [*files.values()]

    def _fork(self, session: pytest.Session) -> None:
        here, there = Pipe()
        name = f"w{next(self._names)}"
        if (pid := os.fork()) == 0:
            for others in (
                here,
                *self._working,
                *([client.SERVER.listener] if client.SERVER.listener else []),
            ):
                others.close()
            session.config.pluginmanager.unregister(self)
            _work(session, name, there, self._begin)
        there.close()
        self._working[here] = _Worker(name, pid, here)

    def _hear(self, session: pytest.Session, worker: _Worker) -> None:
        """Take what a worker says, or its end."""
        try:
            what, said = worker.connection.recv()
        except (EOFError, OSError):
            del self._working[worker.connection]
            worker.connection.close()
            self._ended(session, worker, worker.ended())
            return
        hook = session.config.hook
        if what == "next":
            file = self._files.popleft() if self._files else []
            worker.left.extend(file)
            worker.tell(file)
        elif what == "ran":
            worker.left.popleft()
        elif what == "report":
            report = hook.pytest_report_from_serializable(config=session.config, data=said)
            hook.pytest_runtest_logreport(report=report)
        elif what == "warning":
            text, nodeid, file, line = said
            warning = warnings.WarningMessage(pytest.PytestWarning(text), pytest.PytestWarning, file, line)
            given = {"warning_message": warning, "when": "runtest", "nodeid": nodeid, "location": None}
            hook.pytest_warning_recorded.call_historic(kwargs=given)
        elif what == "interrupted":
            raise KeyboardInterrupt
        elif what == "exit":
            pytest.exit(*said)

    def _ended(self, session: pytest.Session, worker: _Worker, status: int) -> None:
        """Fail the test at which a worker has died, and have another take over the rest."""
        if not worker.left:
            return
        item = session.items[worker.left.popleft()]
        how = f"signal {-status}" if status < 0 else f"exit code {status}"
        said = f"the process of worker {worker.id} has ended ({how}) in {item.nodeid}"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", said, "call")
        session.config.hook.pytest_runtest_logreport(report=report)
        if worker.left:
            self._files.appendleft([*worker.left])
        if self._files:
            self._fork(session)


class _Worker:
    """A worker as it is seen from here."""

    def __init__(self, name: str, pid: int, connection: Connection) -> None:
        self.id = name
        self.connection = connection
        self.left: deque[int] = deque()
        """The tests that it was given and has not run, by their indices; it is at the first."""
        self._pid = pid

    def tell(self, file: list[int]) -> None:
        with suppress(OSError):  # it has ended: that is seen next
            self.connection.send(file)

    def ended(self) -> int:
        """Wait for its end; how it has ended, as in `returncode`."""
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


# --- in the worker


def _work(
    session: pytest.Session, name: str, connection: Connection, begin: Callable[[str], object]
) -> NoReturn:
    code = 1
    try:
        _become_a_worker(session.config, name, connection)
        begin(name)
        _run(session, connection)
        atexit._run_exitfuncs()
        code = 0
    except KeyboardInterrupt:
        connection.send(("interrupted", None))
    except pytest.exit.Exception as exiting:
        connection.send(("exit", (exiting.msg, exiting.returncode)))
    except BaseException:  # noqa: BLE001 - nothing of this process may go on as if it were the one it came from
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(code)


def _become_a_worker(config: pytest.Config, name: str, connection: Connection) -> None:
    for finalizer in [*weakref.finalize._registry]:  # what is removed at the end is the other's to remove
        finalizer.detach()
    atexit._clear()
    if config.option.capture == "fd":
        capturing: Any = config.pluginmanager.get_plugin("capturemanager")
        for captured in (capturing._global_capturing.out, capturing._global_capturing.err):
            with TemporaryFile() as own:  # under the number of the other's: imported modules keep the stream
                os.dup2(own.fileno(), captured.tmpfile.fileno(), inheritable=False)
    config.get_terminal_writer()._file = open(os.devnull, "w")  # noqa: SIM115 - to the end of this process
    folders: Any = config._tmp_path_factory  # type: ignore[attr-defined]
    folders._basetemp = folders.getbasetemp() / name
    folders._basetemp.mkdir(mode=0o700)
    config.pluginmanager.register(_Reports(config, connection))


def _run(session: pytest.Session, connection: Connection) -> None:
    """Run the tests of each file that the other gives, until it gives none, or is gone."""
    with suppress(EOFError, OSError):
        tests = _given(connection)
        while tests:
            test = tests.popleft()
            tests = tests or _given(connection)
            following = session.items[tests[0]] if tests else None
            item = session.items[test]
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            connection.send(("ran", None))
            if session.shouldfail or session.shouldstop or connection.poll():  # or the other has closed it
                break
    session._setupstate.teardown_exact(None)


def _given(connection: Connection) -> deque[int]:
    connection.send(("next", None))
    return deque(connection.recv())


class _Reports:
    """Sends what a test has come to."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("report", data))

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, nodeid: str) -> None:
        said, file, line = warning_message.message, warning_message.filename, warning_message.lineno
        self._connection.send(
            ("warning", (f"{warning_message.category.__name__}: {said}", nodeid, file, line))
        )

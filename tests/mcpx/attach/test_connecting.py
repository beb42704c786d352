"""When a shim tries to get a daemon, and when it does not, by a clock of the test's own."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from mcpx.attach import connecting
from mcpx.attach.connecting import COOLDOWN_S, FIRST_PAUSE_S, MAX_ATTEMPTS, NO_SERVER, REFUSED, Connecting
from mcpx.core.daemon.launch import ConfigProblemError, StartFailedError
from mcpx.core.store.paths import daemon_paths
from mcpx.errors import DaemonError


class Attempts(Connecting):
    """Attempts that all fail alike; counted."""

    def __init__(self, config: str, error: DaemonError) -> None:
        super().__init__(daemon_paths(config))
        self.error = error
        self.count = 0

    def _launch(self) -> Attempts:
        self.count += 1
        return self  # type: ignore[return-value]

    def poll(self, *, wanted: bool | None = None) -> socket.socket | None:
        if wanted is None:  # as a launcher
            raise self.error
        return super().poll(wanted=wanted)

    def close(self) -> None: ...


@pytest.fixture
def now(monkeypatch):
    """The clock: it stands still until a test moves it."""
    moment = [1000.0]
    monkeypatch.setattr(connecting.time, "monotonic", lambda: moment[0])
    return moment


@pytest.fixture
def made(tmp_path, monkeypatch, now) -> Callable[[DaemonError], Attempts]:
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))
    config = tmp_path / "config.json"
    config.write_text("{}")
    return lambda error: Attempts(str(config), error)


def given_up(attempts: Attempts, now, *, wanted: bool = True) -> str:
    """Poll until it gives up; why."""
    for _ in range(1000):
        try:
            assert attempts.poll(wanted=wanted) is None
        except DaemonError as error:
            return str(error)
        now[0] += attempts.poll_interval_s
    raise AssertionError("it goes on")


def test_a_daemon_that_ends_at_once_is_started_a_few_times(made, now):
    attempts = made(StartFailedError("it ended"))
    attempts.begin()
    assert "it ended. In a terminal, mcpx doctor" in given_up(attempts, now)
    assert attempts.count == MAX_ATTEMPTS + 1


@pytest.mark.parametrize("error", [ConfigProblemError("$.x"), DaemonError("/run: not a folder of yours")])
def test_what_another_attempt_would_find_again_is_tried_once(made, now, error, capsys):
    attempts = made(error)
    attempts.begin()
    told = given_up(attempts, now)
    assert str(error) in told
    assert ("mcpx check" in told) is isinstance(error, ConfigProblemError)
    assert attempts.count == 1
    with pytest.raises(DaemonError):  # a request that follows is answered without another attempt
        attempts.poll(wanted=True)
    now[0] += COOLDOWN_S
    assert attempts.poll(wanted=True) is None
    assert given_up(attempts, now) == told
    assert attempts.count == 2
    assert capsys.readouterr().err.count(str(error)) == 1


def test_it_is_tried_again_by_itself_with_growing_pauses(made, now):
    attempts = made(StartFailedError("it ended"))
    attempts.begin()
    given_up(attempts, now)
    begun = attempts.count
    pauses = []
    for _ in range(3):
        since = now[0]
        given_up(attempts, now, wanted=False)
        pauses.append(now[0] - since)
    assert attempts.count == begun + 3
    assert pauses[0] < FIRST_PAUSE_S + 2
    assert pauses[0] < pauses[1] < pauses[2]


def test_a_changed_configuration_is_tried_at_once(made, now, tmp_path):
    attempts = made(ConfigProblemError("$.x"))
    attempts.begin()
    given_up(attempts, now)
    assert attempts.poll(wanted=False) is None
    assert attempts.count == 1
    (tmp_path / "config.json").write_text('{"mcpServers": {}}')
    assert attempts.poll(wanted=True) is None
    assert attempts.count == 2


@pytest.mark.parametrize("trouble", [REFUSED, NO_SERVER])
def test_a_daemon_that_refuses_is_not_asked_each_second(made, now, monkeypatch, trouble):
    attempts = made(StartFailedError("never"))
    asked: list[float] = []
    monkeypatch.setattr(attempts, "existing", lambda: asked.append(now[0]))
    error = attempts.give_up("there is no such profile", trouble=trouble)
    assert ("daemon restart" in str(error)) == (trouble == REFUSED)
    assert attempts.poll(wanted=False) is None
    attempts.give_up("there is none")
    assert attempts.poll(wanted=False) is None
    assert asked == [now[0]]  # where there was none, another process may have started one


def test_what_works_is_not_held_against_what_failed(made, now):
    attempts = made(StartFailedError("it ended"))
    attempts.begin()
    given_up(attempts, now)
    attempts.succeeded()
    assert attempts.lost(connected_s=0) is None
    assert attempts.poll(wanted=True) is None

"""SIGKILL at each step of a sign-in and of a refresh: whoever is killed, nobody is locked out after it.

The person is asked at most once more, what is stored is whole, and no secret is in a file that others may
read, nor in any but the record. The scripted issuer holds a step, before its work or after it, while the
process that waits for it is killed.
"""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.mcpx.oauth import kill_sign_ins
from tests.mcpx.oauth.scripted_issuer import Fault
from tests.mcpx.oauth.sign_in_house import houses
from tests.mcpx.serving import PATIENCE_S

STEPS = [
    ("resource_metadata", False),
    ("metadata", False),
    ("register", False),
    ("register", True),
    ("token:authorization_code", False),
    ("token:authorization_code", True),
]
REFRESH = "token:refresh_token"


def id_of(value: str | tuple[str, bool]) -> str:
    return value if isinstance(value, str) else f"{'after' if value[1] else 'before'} {value[0]}"


@pytest.mark.parametrize(
    ("killed", "step"),
    [
        *(("daemon", step) for step in STEPS),
        *(("login alone", step) for step in STEPS[3:]),  # before, nothing is stored
        *(("login", step) for step in STEPS if step[0] == "token:authorization_code"),
    ],
    ids=id_of,
)
def test_a_sign_in_is_killed(killed, step):
    at, works = step
    with houses() as house:
        if killed != "login alone":
            assert house.done("daemon", "start")[0] == 0
            house.call("before")  # the daemon has found that it needs a sign-in
        house.issuer.faults[at] = Fault(hold=True, works=works)
        count = len(house.issuer.seen(at))
        login = house.begin("login", "r")
        house.issuer.wait_for(at, count + 1)
        if killed == "daemon":
            house.kill_daemon()
            out, err = login.communicate(timeout=PATIENCE_S)
            assert login.returncode == 1
            assert b"Traceback" not in out + err
        else:
            login.kill()
            login.communicate(timeout=PATIENCE_S)
        house.issuer.release()
        house.check_files()
        house.check(asked=2 if at.startswith("token") else 1)


@pytest.mark.parametrize("rotates", [True, False], ids=["rotating", "lasting"])
@pytest.mark.parametrize("works", [False, True], ids=["before", "after"])
def test_a_refresh_is_killed(works, rotates):
    with houses(rotates=rotates) as house:
        house.login()
        assert [file.suffix for file in house.issuer.holding(house.folder)] == [".json"]
        assert house.done("daemon", "start")[0] == 0
        assert house.call("first")[0] == 0
        house.issuer.expire()
        house.issuer.faults[REFRESH] = Fault(hold=True, works=works)
        call = house.begin("exec", "r", "count", json.dumps({"key": "during"}))
        house.issuer.wait_for(REFRESH)
        house.kill_daemon()
        _, err = call.communicate(timeout=PATIENCE_S)
        assert b"Traceback" not in err
        house.issuer.release()
        house.check_files()
        house.check(asked=2 if works and rotates else 1)
        assert "during" not in house.issuer.calls


def test_a_daemon_that_is_killed_in_a_refresh_keeps_nobody_from_it():
    """Another daemon of the same person waits for the refresh of the first, which is killed in it."""
    with houses() as house:
        house.login()
        assert house.done("daemon", "start")[0] == 0
        assert house.call("first")[0] == 0
        house.check_shown()
        house.issuer.expire()
        house.issuer.faults[REFRESH] = Fault(hold=True, times=1)
        calls = [house.begin("exec", "r", "count", json.dumps({"key": "during"}))]
        house.issuer.wait_for(REFRESH)
        pid = house.pid
        assert pid is not None
        (house.folder / "second.json").write_text((house.folder / house.name).read_text())
        house.name = "second.json"
        assert house.done("daemon", "start")[0] == 0
        calls.append(house.begin("exec", "r", "count", json.dumps({"key": "second"})))
        house.issuer.wait_for("mcp:tools/call", 2)
        os.kill(pid, signal.SIGKILL)
        out, err = calls[1].communicate(timeout=PATIENCE_S)
        assert (calls[1].returncode, out) == (0, b"second\n"), err
        calls[0].communicate(timeout=PATIENCE_S)
        assert (house.issuer.asked, house.issuer.reuses) == (1, 0)


@pytest.mark.parametrize("command", [kill_sign_ins.LOGIN, kill_sign_ins.CALL], ids=["login", "refresh"])
def test_some_steps_of_what_it_does_to_files_are_killed(command):
    """`kill_sign_ins.py` plays them all."""
    with houses() as house:
        assert kill_sign_ins.play(house, command, 29) >= 29

"""Asking what a client would start: whatever it does, there is an answer, and nothing is left of it."""

from __future__ import annotations

import os
import sys
import textwrap

import pytest

from mcpx.core.system.processes import group_memory
from mcpx.setup.doctor import probe
from mcpx.setup.doctor.probe import ask

GREETING = """
    import json, sys, time
    def answer(request, **members):
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **members}), flush=True)
    def requests():
        for line in sys.stdin:
            request = json.loads(line)
            if "id" in request:
                yield request
"""


def asked(code, *, within_s=10.0):
    script = textwrap.dedent(GREETING) + textwrap.dedent(code)
    return ask([sys.executable, "-S", "-c", script], os.environ, client="cursor", within_s=within_s)


def test_what_a_client_would_see():
    answer = asked("""
        initialize = next(requests())
        name = initialize["params"]["clientInfo"]["name"]
        answer(initialize, result={"instructions": "for " + name})
        tool = {"name": "inspect", "description": "looks"}
        answer(next(requests()), result={"tools": [tool, {"name": "exec"}, 3]})
    """)
    assert answer.problem is None
    assert answer.instructions == "for cursor"
    assert answer.descriptions == {"inspect": "looks", "exec": ""}
    assert answer.seconds > 0


def test_noise_is_no_answer():
    answer = asked("""
        sys.stderr.write("x" * 1_000_000)
        for request in requests():
            print("ready!\\n[]\\n3", flush=True)
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message"}), flush=True)
            answer({"id": 99}, result={})
            answer(request, result={})
    """)
    assert answer.problem is None
    assert answer.descriptions == {}


PROBLEMS = {
    "an end": ("sys.exit('no licence')", "ended before it answered initialize: no licence"),
    "an error": (
        "answer(next(requests()), error={'code': 1, 'message': 'not today'})",
        "initialize is answered with an error: not today",
    ),
    "silence": ("list(requests())", "does not answer initialize in time"),
    "silence, then": (
        "answer(next(requests()), result={}); list(requests())",
        "does not answer tools/list in time",
    ),
}


@pytest.mark.parametrize(("code", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_why_there_is_no_answer(code, problem):
    within_s = 2.0 if "in time" in problem else 10.0
    assert asked(code, within_s=within_s).problem == problem


def test_a_command_that_is_not_there():
    answer = ask(["/nowhere/mcpx", "attach"], {}, client="cursor", within_s=1.0)
    assert answer.problem == "cannot be started: No such file or directory"


def test_a_process_that_does_not_leave_is_killed_with_its_group(monkeypatch, tmp_path):
    monkeypatch.setattr(probe, "LEAVE_TIMEOUT_S", 0.1)
    noted = tmp_path / "group"
    asked(f"""
        import os
        open({str(noted)!r}, "w").write(str(os.getpgid(0)))
        for request in requests():
            answer(request, result={{}})
        time.sleep(1000)
    """)
    with pytest.raises(ProcessLookupError):
        os.killpg(int(noted.read_text()), 0)


def test_the_memory_of_a_group_is_that_of_its_processes():
    own = os.getpgid(0)
    assert group_memory([own])[own] > 1 << 20
    assert group_memory([]) == {}
    assert group_memory([2**22 + 1]) == {}

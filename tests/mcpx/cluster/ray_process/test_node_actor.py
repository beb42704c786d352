"""The node process of an actor: started again when it ends, ended with its owner, its troubles named."""

from __future__ import annotations

import sys

import pytest

from mcpx.cluster.ray_process.node_actor import NodeChild, child_environment

SAYS = 'print(json.dumps({"host": "127.0.0.1", "port": 1, "pid": os.getpid(), "version": "9"}), flush=True)'
BEGIN = "import json, os, sys; setup = sys.stdin.readline(); "


def child(script: str) -> NodeChild:
    return NodeChild(b'{"name": "n"}', (sys.executable, "-S", "-E", "-c", BEGIN + script))


def become(node: NodeChild, *states: str):
    """Wait until it is in one of these states."""
    seen = -1
    while (found := node.follow(seen, 10)).state not in states:
        assert found.revision != seen, f"still {found}"
        seen = found.revision
    return found


def test_it_runs_until_its_input_ends_and_is_told_its_setup() -> None:
    node = child(f'assert "n" in setup; {SAYS}; sys.stdin.read()')
    running = become(node, "running")
    assert running.address is not None
    assert running.address.version == "9"
    node.end()
    assert become(node, "stopped").address is None


def test_one_that_dies_is_started_again_and_says_where_it_listens_now() -> None:
    node = child(f"{SAYS}; sys.stdin.read(1)")
    first = become(node, "running")
    popen = node._popen
    assert popen is not None
    popen.kill()
    failing = node.follow(first.revision, 10)
    assert failing.state == "failing"
    assert "signal 9" in str(failing.problem)
    second = become(node, "running")
    assert second.address is not None
    assert first.address is not None
    assert second.address.pid != first.address.pid
    node.end()


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ('sys.exit("no room\\nhere")', "exit code 1: no room here"),
        ('print("garbage", flush=True); sys.stdin.read()', "did not say where it listens"),
        ('print(json.dumps({"error": "no such host"}), flush=True); sys.stdin.read()', "no such host"),
    ],
)
def test_one_that_cannot_run_says_why(script: str, problem: str) -> None:
    node = child(script)
    assert problem in str(become(node, "failing").problem)
    node.end()
    become(node, "stopped")


def test_a_command_that_is_not_there_is_a_problem_too() -> None:
    node = NodeChild(b"{}", ("/nowhere/at/all",))
    assert "cannot be started" in str(become(node, "failing").problem)
    node.end()


def test_servers_get_neither_rays_variables_nor_its_hidden_devices() -> None:
    own = {
        "PATH": "/bin",
        "RAY_JOB_ID": "1",
        "RAY_AUTH_TOKEN": "secret",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "ROCR_VISIBLE_DEVICES": "0",
        "RAY_ADDRESS": "kept",
    }
    assert child_environment(own) == {"PATH": "/bin", "ROCR_VISIBLE_DEVICES": "0", "RAY_ADDRESS": "kept"}

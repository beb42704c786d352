"""Servers in containers: the command is marked, and what the engine runs ends with the server.

The engine is a double that behaves as docker's client does: it starts the container's process elsewhere,
writes its id, forwards its streams, and leaves the container where it is killed. A real podman is used where
one is installed that can run a container here.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from mcpx.core.config import Stdio
from mcpx.core.servers.transport.containers import LABEL, Container, in_container, stop
from mcpx.core.servers.transport.ledger import Ledger
from mcpx.core.servers.transport.process import running
from mcpx.core.servers.transport.spawning import EARLY, spawn
from tests.mcpx.core.servers.transport.test_ledger import gone, left_behind, noted

STUBBORN = """
#include <signal.h>
#include <unistd.h>
int main(void) { signal(SIGTERM, SIG_IGN); write(1, "up\\n", 3); for (;;) pause(); }
"""
MARK = "0123456789abcdef0123456789abcdef"
ENGINE = """#!{python} -SE
import os, signal, subprocess, sys, time
folder, (verb, *words) = {folder!r}, sys.argv[1:]
def pid_of(name):
    return int(open(os.path.join(folder, name)).read())
with open(os.path.join(folder, "log"), "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
if verb == "run":
    container = subprocess.Popen(["/bin/sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, env={{}}, start_new_session=True)
    name = "c%d" % container.pid
    label = words[words.index("--label") + 1]
    open(os.path.join(folder, name), "w").write(str(container.pid))
    open(os.path.join(folder, label), "w").write(name)
    if "--slow" not in words:
        open(words[words.index("--cidfile") + 1], "w").write(name)
    print("up", flush=True)
    sys.stdin.read()
    time.sleep(600 if "--deaf" in words else 0)
elif verb == "ps":
    label = words[-1].removeprefix("label=")
    print(open(os.path.join(folder, label)).read())
elif verb == "stop":
    if os.path.exists(os.path.join(folder, "stubborn")):
        time.sleep(600)
    os.kill(pid_of(words[0]), signal.SIGTERM)
elif verb == "kill":
    os.kill(pid_of(words[0]), signal.SIGKILL)
"""


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))
    yield tmp_path / "state"
    EARLY.end()


@pytest.fixture
def engine(tmp_path, state):
    folder = tmp_path / "engine"
    folder.mkdir()
    program = tmp_path / "docker"
    program.write_text(ENGINE.format(python=sys.executable, folder=str(folder)))
    program.chmod(0o755)
    yield str(program)
    for file in folder.glob("c*"):
        with_pid = file.read_text()
        if with_pid.isdigit() and is_running(int(with_pid)):
            os.kill(int(with_pid), signal.SIGKILL)


def log_of(engine):
    return (Path(engine).parent / "engine" / "log").read_text().splitlines()


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def container_of(engine, *, within=10.0):
    """The process of the only container, once the engine has started it."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        found = [file.read_text() for file in (Path(engine).parent / "engine").glob("c[0-9]*")]
        if found and found[0]:
            return int(found[0])
        time.sleep(0.01)
    raise AssertionError("no container was started")


# --- the command


@pytest.mark.parametrize(
    ("command", "before"),
    [
        (["docker", "run", "-i", "--rm", "image"], ["docker"]),
        (
            ["/usr/bin/podman", "--log-level", "debug", "run", "image"],
            ["/usr/bin/podman", "--log-level", "debug"],
        ),
        (["docker", "-D", "--context=far", "container", "run", "image"], ["docker", "-D", "--context=far"]),
    ],
)
def test_a_command_that_runs_a_container_gets_a_file_for_its_id_and_a_label(state, command, before):
    words, container = in_container(command, MARK, {"DOCKER_HOST": "h", "API_KEY": "k", "PATH": "/p"})
    cidfile = str(state / "children" / f"{MARK}.cid")
    added = ["--cidfile", cidfile, "--label", f"{LABEL}={MARK}"]
    at = command.index("run") + 1
    assert words == [*command[:at], *added, *command[at:]]
    kept = {"DOCKER_HOST": "h", "PATH": "/p"}
    assert container == Container(engine=tuple(before), mark=MARK, cidfile=cidfile, environ=kept)


@pytest.mark.parametrize(
    "command",
    [
        ["docker", "exec", "-i", "x"],
        ["docker", "compose", "run", "x"],
        ["docker"],
        ["npx", "run"],
        ["docker", "-D"],
    ],
)
def test_any_other_command_stays_as_it_is(state, command):
    assert in_container(command, MARK, {}) == (command, None)


def test_a_file_that_the_entry_names_is_left_to_it(state):
    words, container = in_container(["docker", "run", "--cidfile", "/own", "image"], MARK, {})
    assert words == ["docker", "run", "--label", f"{LABEL}={MARK}", "--cidfile", "/own", "image"]
    assert container is not None
    assert container.cidfile == ""


# --- its end


@pytest.mark.anyio
async def test_the_container_is_stopped_at_the_end_of_its_server(engine, state):
    async with running(Stdio(command=engine, args=("run", "-i", "image")), lambda _data: None) as child:
        pid = container_of(engine)
        assert child.container is not None
    assert not is_running(pid)
    assert log_of(engine)[1:] == [f"stop c{pid}"]
    assert not list((state / "children").glob("*.cid"))


@pytest.mark.anyio
async def test_it_is_killed_where_the_engine_does_not_stop_it_and_the_client_hears_nothing(engine):
    (Path(engine).parent / "engine" / "stubborn").touch()
    began = time.monotonic()
    async with running(Stdio(command=engine, args=("run", "--deaf", "image")), lambda _data: None):
        pid = container_of(engine)
    assert not is_running(pid)
    assert log_of(engine)[1:] == [f"stop c{pid}", f"kill c{pid}"]
    assert time.monotonic() - began < 8.0  # of an end, as the supervisor allows


@pytest.mark.anyio
async def test_without_an_id_it_is_found_by_its_label_also_when_its_client_was_killed(engine):
    async with running(Stdio(command=engine, args=("run", "--slow", "image")), lambda _data: None) as child:
        pid = container_of(engine)
        child.kill()
    assert not is_running(pid)
    assert log_of(engine)[1:] == [f"ps -q --filter label={LABEL}={child.mark}", f"stop c{pid}"]


def test_after_a_crash_the_next_mcpx_stops_it(engine, state):
    child = spawn(Stdio(command=engine, args=("run", "image")))
    assert child.popen.stdout.readline() == b"up\n"
    entry = noted(child.popen, mark=child.mark)
    left_behind(state, type(entry)(entry.pid, entry.started, entry.mark, child.container))
    child.popen.kill()
    child.popen.communicate()
    pid = container_of(engine)
    assert is_running(pid)
    Ledger(state).sweep()
    assert not is_running(pid)
    assert log_of(engine)[1:] == [f"stop c{pid}"]
    assert gone().pid != pid


def test_an_engine_that_is_not_there_is_no_obstacle(state):
    stop(Container(engine=("/no/such/docker",), mark=MARK))


@pytest.fixture
def podman(state):
    """The command of a real podman, with an image of its own whose one program ignores SIGTERM."""
    if shutil.which("podman") is None or shutil.which("cc") is None:
        pytest.skip("there is no podman, or nothing to make a program with")
    with tempfile.TemporaryDirectory(
        prefix="pod-", ignore_cleanup_errors=True
    ) as folder:  # it wants it short
        command = ["podman", f"--root={folder}/root", f"--runroot={folder}/run", "--storage-driver=vfs"]
        command += ["--cgroup-manager=cgroupfs", *(["--runtime=runc"] if shutil.which("runc") else [])]
        Path(folder, "s.c").write_text(STUBBORN)
        for made in (
            ["cc", "-static", "-o", "s", "s.c"],
            ["tar", "cf", "i.tar", "s"],
            [*command, "import", "i.tar", "i:1"],
        ):
            done = subprocess.run(made, cwd=folder, check=False, capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"no image can be made here: {done.stderr[-200:]}")
        yield command
        subprocess.run([*command, "rm", "-f", "-a", "-t", "0"], check=False, capture_output=True)


def test_a_real_podman_stops_a_container_that_ignores_its_signals(podman):
    limits = ["--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000"]
    program, *options = podman
    child = spawn(Stdio(command=program, args=(*options, "run", "--rm", "-i", *limits, "i:1", "/s")))
    listed = [*podman, "ps", "-q", "--filter", f"label={LABEL}={child.mark}"]

    def runs():
        return bool(subprocess.run(listed, check=True, capture_output=True).stdout.strip())

    try:
        if child.popen.stdout.readline() != b"up\n":
            pytest.skip(f"this podman can run no container here: {child.popen.stderr.read(300)!r}")
        assert runs()
    finally:
        child.popen.kill()  # its client; the container is not told
        child.popen.communicate()
    assert runs()
    assert child.container is not None
    stop(child.container)
    assert not runs()
    assert not Path(child.container.cidfile).exists()

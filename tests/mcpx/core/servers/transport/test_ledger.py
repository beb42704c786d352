"""The ledger against real processes: what was left behind is ended, and nothing else."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from mcpx.core.servers.transport.ledger import MAX_FOREIGN_AGE_S, Entry, Ledger, _File, boot_id, start_time
from mcpx.core.system import linux, marked
from mcpx.core.system.environment import CHILD_MARK
from mcpx.core.system.linux import has_proc
from mcpx.core.system.processes import pid_namespace

STUBBORN = (
    "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True);"
    "time.sleep(600)"
)
FORKS = (
    "import signal,subprocess,sys; subprocess.Popen([sys.executable,'-c',{code!r}], env={env});"
    "sys.stdin.close(); signal.pause()"
)
MARK = uuid.uuid4().hex  # another run of these tests may be under way
ANOTHER_USER = 65534  # nobody
with_proc = pytest.mark.linux("only by /proc is it known that a process has no mark")
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")


@pytest.fixture
def spawn():
    """Start a process in a group of its own, with a mark or without; all are ended afterwards."""
    started = []

    def run(code=STUBBORN, *, mark=MARK):
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, **({CHILD_MARK: mark} if mark else {})},
        )
        started.append(process)
        assert process.stdout.readline() == b"up\n"
        return process

    yield run
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
        process.stdout.close()


def forking(*, env="None"):
    """The program of a leader with a child, which does not take TERM and says when it is up."""
    return FORKS.format(code=STUBBORN, env=env)


def gone():
    """What is noted of a MCPX that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    owner = Entry(process.pid, start_time(process.pid) or "1")
    process.wait(10)
    return owner


def left_behind(state, *children, name="1-1.json", **changed):
    """The file of a MCPX that is gone, naming its children."""
    folder = state / "children"
    folder.mkdir(exist_ok=True, mode=0o700)
    fields = {"boot": boot_id(), "namespace": pid_namespace(), "host": os.uname().nodename, **changed}
    named = {f"server {number}": child for number, child in enumerate(children)}
    path = folder / name
    path.write_bytes(msgspec.json.encode(_File(owner=gone(), children=named, **fields)))
    path.chmod(0o600)
    return path


def noted(process, *, mark=MARK):
    return Entry(process.pid, start_time(process.pid), mark)


def sweep(state):
    """The groups that were ended, and the events of the log."""
    with capture_logs() as logs:
        ended = Ledger(state).sweep()
    return ended, [line["event"] for line in logs]


# --- what is ours


def test_a_child_left_behind_is_ended_even_if_it_ignores_term(tmp_path, spawn):
    child = spawn()
    path = left_behind(tmp_path, noted(child))
    assert sweep(tmp_path) == ([child.pid], [])
    assert child.wait(10) == -signal.SIGKILL
    assert not path.exists()
    assert sweep(tmp_path) == ([], [])


def test_one_that_takes_term_is_not_killed(tmp_path, spawn):
    child = spawn("import time; print('up', flush=True); time.sleep(600)")
    left_behind(tmp_path, noted(child))
    assert Ledger(tmp_path).sweep() == [child.pid]
    assert child.wait(10) == -signal.SIGTERM


@with_proc
def test_the_group_of_a_dead_leader_is_ended_where_it_carries_the_mark(tmp_path, spawn):
    leader = spawn(forking())
    left_behind(tmp_path, noted(leader))
    leader.kill()  # only now: a dead one has no start time
    leader.wait(10)
    os.killpg(leader.pid, 0)  # the grandchild keeps the group alive
    assert sweep(tmp_path) == ([leader.pid], [])
    assert leader.stdout.read() == b""  # the end of file: nobody holds the pipe any more


@with_proc
@pytest.mark.parametrize("no_pidfd", [AttributeError, OSError(38, "Function not implemented")])
def test_it_does_without_descriptors_of_processes(tmp_path, spawn, monkeypatch, no_pidfd):
    def missing(_pid):
        raise no_pidfd

    child = spawn()
    left_behind(tmp_path, noted(child))
    monkeypatch.setattr(os, "pidfd_open", missing, raising=False)
    assert Ledger(tmp_path).sweep() == [child.pid]
    assert child.wait(10) == -signal.SIGKILL


def test_where_there_is_no_proc_the_leaders_start_is_the_proof(tmp_path, spawn, monkeypatch):
    child, innocent = spawn(), spawn(mark=None)
    monkeypatch.setattr(linux, "PROC", Path("/nowhere"))
    left_behind(tmp_path, noted(child), Entry(innocent.pid, "Mon Jan  1 00:00:00 2024", MARK))
    assert Ledger(tmp_path).sweep() == [child.pid]
    assert child.wait(10) == -signal.SIGKILL
    assert innocent.poll() is None


# --- what is not ours


def test_the_children_of_a_living_mcpx_are_not_touched(tmp_path, spawn):
    child = spawn()
    ledger = Ledger(tmp_path)
    ledger.add("server", child.pid, MARK)
    assert sweep(tmp_path) == ([], [])
    assert child.poll() is None
    ledger.remove("server")
    assert list((tmp_path / "children").iterdir()) == []


def test_a_process_that_merely_has_the_number_is_not_touched(tmp_path, spawn):
    innocent = spawn(mark=None)
    path = left_behind(tmp_path, Entry(innocent.pid, "12345", MARK))
    assert sweep(tmp_path) == ([], [])
    assert innocent.poll() is None
    assert not path.exists()


@with_proc
def test_a_group_that_was_born_again_under_the_number_is_not_touched(tmp_path, spawn):
    """The classic daemon: its leader has left, and its group has the number that a server of ours had."""
    leader = spawn(forking(), mark="the mark of somebody else")
    left_behind(tmp_path, Entry(leader.pid, "12345", MARK))
    leader.kill()
    leader.wait(10)
    assert sweep(tmp_path) == ([], ["orphans.left"])
    os.killpg(leader.pid, 0)


@with_proc
@pytest.mark.parametrize("mark", [None, "0123456789abcdef0123456789abcde", "0" * 32])
def test_without_the_mark_even_one_that_started_then_is_left_with_a_word(tmp_path, spawn, mark):
    child = spawn(mark=mark)
    left_behind(tmp_path, noted(child))
    assert sweep(tmp_path) == ([], ["orphans.left"])
    assert child.poll() is None


@with_proc
@pytest.mark.parametrize("own_session", [False, True])
def test_a_child_that_has_thrown_the_environment_away_is_ended_by_its_descent(tmp_path, spawn, own_session):
    leader = spawn(forking(env=f"{{}}, start_new_session={own_session}"))
    left_behind(tmp_path, noted(leader))
    assert sweep(tmp_path) == ([leader.pid], [])
    assert leader.wait(10) == -signal.SIGTERM
    assert leader.stdout.read() == b""  # the end of file: nobody holds the pipe any more


@with_proc
def test_an_orphan_without_the_mark_in_a_servers_group_is_left_with_a_word(tmp_path, spawn):
    leader = spawn(forking(env="{}"))
    left_behind(tmp_path, noted(leader))
    leader.kill()
    leader.wait(10)
    assert sweep(tmp_path) == ([], ["orphans.left"])
    os.killpg(leader.pid, 0)


@with_proc
def test_one_that_has_a_session_of_its_own_is_followed_by_its_mark(tmp_path, spawn):
    daemon = spawn(f"import os; os.setsid() if os.fork() == 0 else os._exit(0); {STUBBORN}")
    leader = daemon.wait(10)
    assert leader == 0
    double = spawn(mark=MARK[:-1])
    left_behind(tmp_path, Entry(daemon.pid, "1", MARK))
    assert sweep(tmp_path) == ([daemon.pid], [])
    assert daemon.stdout.read() == b""
    assert double.poll() is None


def test_no_mark_at_all_in_an_old_file_ends_nothing(tmp_path, spawn):
    child = spawn(mark=None)
    left_behind(tmp_path, noted(child, mark=""))
    assert Ledger(tmp_path).sweep() == ([] if has_proc() else [child.pid])


@pytest.mark.parametrize("number", [0, 1, -1, -2, 2**31, 2**40, -(2**62)])
def test_numbers_that_are_no_servers_are_never_signalled(tmp_path, monkeypatch, number):
    sent = []
    monkeypatch.setattr(os, "kill", lambda *given: sent.append(given))
    monkeypatch.setattr(os, "killpg", lambda *given: sent.append(given))
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *given: sent.append(given), raising=False)
    monkeypatch.setattr(marked, "mark_of", lambda _pid: MARK)  # whatever they carry
    left_behind(tmp_path, Entry(number, start_time(1) or "", MARK))
    for proc in (linux.PROC, Path("/nowhere")):
        monkeypatch.setattr(linux, "PROC", proc)
        Ledger(tmp_path).sweep()
    assert sent == []


def test_our_own_group_is_never_ended(tmp_path):
    """A MCPX that runs as a server of one that was killed carries its mark."""
    code = (
        "import os, sys; from pathlib import Path; from mcpx.core.servers.transport.ledger import Ledger;"
        "sys.stdin.readline(); print(Ledger(Path(sys.argv[1])).sweep())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, CHILD_MARK: MARK},
    ) as inner:
        left_behind(tmp_path, Entry(0, "", MARK), Entry(inner.pid, start_time(inner.pid), MARK))
        said, _ = inner.communicate(b"\n", 30)
    assert (inner.returncode, said) == (0, b"[]\n")


# --- files that are not believed


def test_another_boot_and_rubbish_end_nothing(tmp_path, spawn):
    child = spawn()
    past = left_behind(tmp_path, noted(child), name="2.json", boot="another boot")
    (past.parent / "1.json").write_text("rubbish")
    (past.parent / "3.json").write_text('{"a":' + "[" * 100_000)
    (past.parent / "4.json").write_text('{"boot": "b", "owner": {"pid": 1e400, "started": ""}}')
    os.mkfifo(past.parent / "5.json", 0o600)  # reading it would take for ever
    assert sweep(tmp_path) == ([], ["ledger.not_believed"] * 4)
    assert child.poll() is None
    assert not past.exists()


@with_proc
@pytest.mark.parametrize(
    "elsewhere", [{"namespace": "pid:[1]"}, {"namespace": None}, {"boot": "b", "host": "another machine"}]
)
def test_the_file_of_another_namespace_or_machine_is_left_until_it_is_old(tmp_path, spawn, elsewhere):
    child = spawn()
    path = left_behind(tmp_path, noted(child), **elsewhere)
    assert sweep(tmp_path) == ([], [])
    assert path.exists()
    written = path.stat().st_mtime - MAX_FOREIGN_AGE_S - 1
    os.utime(path, (written, written))
    assert sweep(tmp_path) == ([], [])
    assert not path.exists()
    assert child.poll() is None


@with_proc
def test_in_a_container_with_the_same_home_nothing_is_ended_and_no_file_deleted(tmp_path, spawn):
    """A real process namespace, whose processes have the very numbers that the file names."""
    unshare = ["unshare", "--pid", "--fork", "--mount-proc"]
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], check=False).returncode:
        pytest.skip("no process namespace can be made here")
    code = (
        "import os, subprocess, sys, time; from pathlib import Path\n"
        "from mcpx.core.servers.transport.ledger import Ledger\n"
        "sleep = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "inner = [subprocess.Popen(sleep, start_new_session=True) for _ in range(3)]\n"
        "print(Ledger(Path(sys.argv[1])).sweep(), [one.poll() for one in inner])"
    )
    outer = spawn()
    children = (noted(outer), *(Entry(number, "1", MARK) for number in range(2, 9)))
    path = left_behind(tmp_path, *children)
    done = subprocess.run(
        [*unshare, sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
        env={**os.environ, CHILD_MARK: MARK},
    )
    assert done.stdout == "[] [None, None, None]\n"
    assert path.exists()
    assert outer.poll() is None


@pytest.mark.parametrize(
    "open_up",
    [
        lambda state: state.chmod(0o777),
        lambda state: (state / "children").chmod(0o770),
        lambda state: (state / "children/1-1.json").chmod(0o620),
        pytest.param(lambda state: os.chown(state, ANOTHER_USER, -1), marks=as_root),
        pytest.param(lambda state: os.chown(state / "children", ANOTHER_USER, -1), marks=as_root),
        pytest.param(lambda state: os.chown(state / "children/1-1.json", ANOTHER_USER, -1), marks=as_root),
    ],
)
def test_what_others_may_have_written_is_not_believed(tmp_path, spawn, open_up):
    child = spawn()
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    path = left_behind(state, noted(child))
    open_up(state)
    assert sweep(state) == ([], ["ledger.not_believed"])
    assert child.poll() is None
    assert path.exists()


@pytest.mark.parametrize("what", ["children", "children/1-1.json"])
def test_links_are_not_followed(tmp_path, spawn, what):
    child = spawn()
    left_behind(tmp_path, noted(child))
    (tmp_path / what).rename(tmp_path / "elsewhere")
    (tmp_path / what).symlink_to(tmp_path / "elsewhere")
    assert sweep(tmp_path) == ([], ["ledger.not_believed"])
    assert child.poll() is None


# --- writing it


def test_its_file_is_ours_alone_whatever_the_umask(tmp_path, spawn):
    child = spawn()
    before = os.umask(0)
    try:
        Ledger(tmp_path / "new" / "state").add("server", child.pid, MARK)
    finally:
        os.umask(before)
    [file] = (tmp_path / "new/state/children").iterdir()
    modes = [path.stat().st_mode & 0o777 for path in (file, *list(file.parents)[:3])]
    assert modes == [0o600, 0o700, 0o700, 0o700]
    assert msgspec.json.decode(file.read_bytes())["children"]["server"]["mark"] == MARK


def test_a_folder_that_cannot_be_used_is_no_obstacle(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    for state in (tmp_path / "file", tmp_path / "open"):
        ledger = Ledger(state)
        with capture_logs() as logs:
            ledger.add("server", os.getpid(), MARK)
            ledger.remove("server")
        assert [line["event"] for line in logs] == ["ledger.unwritable"]
        assert ledger.sweep() == []

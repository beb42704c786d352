"""Rows of the hostile table: processes: the ledger, foreign code, folders of others.

Each row of the ledger leaves a whole, well-formed file of an MCPX that is gone, as MCPX itself would write
it; only what the row is about is wrong with it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio.to_thread

from mcpx.core.system.environment import CHILD_MARK
from mcpx.core.system.processes import boot_id, pid_namespace, start_time
from mcpx.core.system.reaping import group_exists
from tests.faults import traces
from tests.faults.hostile import Hostile, HostileFaults
from tests.forking.client import run
from tests.mcpx.serving import alive_in_group

faults = HostileFaults()
MARK = "0123456789abcdef0123456789abcdef"
ANOTHER_USER = 65534
RUN_S = 30.0  # for a command of MCPX to its end
MODULES = ("structlog", "anyio", "click", "rich", "jsonschema", "mcp", "mcpx", "supervisors")
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
)
FORKS = (
    "import subprocess, sys; subprocess.Popen([sys.executable, '-c', {code!r}], env={env}).wait(); print(2)"
)


@contextmanager
def running(code: str = STUBBORN, mark: str | None = MARK) -> Iterator[subprocess.Popen[bytes]]:
    """A process that leads a group of its own, with a mark or without, and is up."""
    environment = {**os.environ, **({CHILD_MARK: mark} if mark else {})}
    command = [sys.executable, "-S", "-E", "-c", code]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, start_new_session=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def leave_ledger(state: Path, *children: tuple[int, str | None], **changed: Any) -> Path:
    """The file of an MCPX that is gone, which names these processes (id and start) as its servers."""
    folder = state / "children"
    folder.mkdir(mode=0o700)
    named = {f"s{n}": {"pid": p, "started": s or "", "mark": MARK} for n, (p, s) in enumerate(children)}
    document = {
        "boot": boot_id(),
        "owner": {"pid": 4_000_000, "started": "1"},
        "children": named,
        "namespace": pid_namespace(),
        "host": os.uname().nodename,
    }
    file = folder / "4000000-1.json"
    file.write_text(json.dumps({**document, **changed}))
    file.chmod(0o600)
    return file


async def next_mcpx(on: Hostile, *children: tuple[int, str | None], **changed: Any) -> tuple[bool, str]:
    """Start an MCPX in a folder with that ledger; whether the file is still there, and its log."""
    async with on.own_mcpx(prepare=lambda state: leave_ledger(state, *children, **changed) and None) as own:
        await own.add(s=own.stdio())
        async with own.client() as client:
            own.answered(await client.exec("s", "echo"), "echo by")
        return (own.mcpx.state / "children/4000000-1.json").exists(), own.mcpx.said()


@faults.row("a server left behind that ignores TERM, and its child that threw its environment away")
async def left_behind(on: Hostile) -> None:
    with running() as orphan, running(FORKS.format(code=STUBBORN, env={})) as leader:
        named = [(one.pid, start_time(one.pid)) for one in (orphan, leader)]
        there, log = await next_mcpx(on, *named)
        on.check(orphan.poll() == -signal.SIGKILL, "a server that was left behind lives on")
        on.check(leader.poll() == -signal.SIGTERM, "the leader of the other one lives on")
        on.check(not alive_in_group(leader.pid), "its child without the mark lives on")
        on.check("orphans.left" not in log, "the log says that somebody was left")
        on.check(not there, "the file is still there")


@faults.row("a group of somebody else that was born again under a server's number")
async def born_again(on: Hostile) -> None:
    with running(FORKS.format(code=STUBBORN, env=None), mark="the mark of another") as leader:
        started = start_time(leader.pid)
        leader.kill()
        leader.wait()
        _, log = await next_mcpx(on, (leader.pid, started))
        on.check(group_exists(leader.pid), "an innocent group was ended")
        on.check("orphans.left" in log, "the log does not say that it was left")


@faults.row("a ledger of another process namespace, with the numbers of processes here")
async def another_namespace(on: Hostile) -> None:
    with running() as innocent:
        named = (innocent.pid, start_time(innocent.pid))
        there, _ = await next_mcpx(on, named, namespace="pid:[1]")
        on.check(there, "the ledger of an MCPX in a container was deleted")
        there, _ = await next_mcpx(on, named, boot="of another machine", host="another machine")
        on.check(there, "the ledger of an MCPX on another machine was deleted")
        on.check(innocent.poll() is None, "an innocent process was ended")


@faults.row("a ledger with the processes 0, 1 and -1, and with rubbish")
async def no_servers(on: Hostile) -> None:
    await next_mcpx(on, (0, "1"), (1, start_time(1)), (-1, "1"), (2**31, "1"), (os.getpgrp(), "1"))
    rubbish: list[dict[str, Any]] = [{"owner": 1}, {"children": {"s": {"pid": 1e300, "started": 1}}}]
    for changed in rubbish:
        _, log = await next_mcpx(on, **changed)
        on.check("ledger.not_believed" in log, "the log does not say that it is not believed")


@faults.row("mcpx serve in a state folder that is everybody's, or another user's, with a forged ledger")
async def foreign_folder(on: Hostile) -> None:
    with running() as innocent, TemporaryDirectory() as name:
        state, config = Path(name, "state"), Path(name, "config.json")
        write_config(config, on.stdio())
        open_to_everybody(state, (innocent.pid, start_time(innocent.pid)))
        await refuses(on, state, "serve", str(config), words="others may change it")
        if os.getuid() == 0:
            give_away(state)
            await refuses(on, state, "serve", str(config), words="others may change it")
            plant_token(state)
            endpoint = ("serve", "--transport", "http", "--port", "0", str(config))
            await refuses(on, state, *endpoint, words="not a file of yours")
        on.check(innocent.poll() is None, "a process that others named was ended")
        on.saw("a refusal")


def write_config(file: Path, server: dict[str, Any]) -> None:
    file.write_text(json.dumps({"mcpServers": {"s": server}, "shutdown_grace": 0.2}))


def open_to_everybody(state: Path, named: tuple[int, str | None]) -> None:
    state.mkdir(mode=0o700)
    leave_ledger(state, named)
    state.chmod(0o777)


def give_away(state: Path) -> None:
    state.chmod(0o755)
    os.chown(state, ANOTHER_USER, -1)


def plant_token(state: Path) -> None:
    os.chown(state, os.getuid(), -1)
    token = state / "token"
    token.write_text("attackers-token\n")
    token.chmod(0o600)
    os.chown(token, ANOTHER_USER, -1)


async def refuses(on: Hostile, state: Path, *command: str, words: str) -> None:
    """MCPX does not start in that state folder, and says why."""

    def refused() -> subprocess.CompletedProcess[str]:
        return run(
            [sys.executable, "-P", "-m", "mcpx", *command],
            env={**os.environ, "MCPX_STATE_DIR": str(state), traces.MARK: on.mark},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_S,
        )

    done = await anyio.to_thread.run_sync(refused)
    on.check(done.returncode == 1, f"{command[:3]} in a foreign folder: exit code {done.returncode}")
    on.check(words in done.stderr, f"it does not say {words!r}: {done.stderr[-300:]}")


@faults.row("modules of foreign code in the home and working folder, and in the first client's variables")
async def foreign_code(on: Hostile) -> None:
    with TemporaryDirectory(prefix="mcpx-") as name:
        home = Path(name)
        for module in MODULES:
            (home / f"{module}.py").write_text(f"open({str(home / 'ran')!r}, 'a').write({module!r})\n")
        config = home / "config.json"
        write_config(config, on.stdio())
        environment = {
            **os.environ,
            "HOME": name,
            "MCPX_STATE_DIR": str(home / "state"),
            traces.MARK: on.mark,
        }
        foreign = {"LD_LIBRARY_PATH": name, "PYTHONSTARTUP": str(home / "mcpx.py")}

        def mcpx(*words: str, **more: str) -> subprocess.CompletedProcess[bytes]:
            return subprocess.run(
                [str(Path(sys.executable).with_name("mcpx")), *words, "--config", str(config)],
                cwd=name,
                env=environment | more,
                input=HELLO,
                capture_output=True,
                timeout=RUN_S,
                check=False,
            )

        greeted = await anyio.to_thread.run_sync(lambda: mcpx("attach", **foreign))
        on.check(b'"serverInfo"' in greeted.stdout, f"no answer: {greeted.stderr[-300:]!r}")
        [daemon] = [pid for pid in traces.marked(on.mark) if b"daemon" in told_of(pid, "cmdline")]
        given = told_of(daemon, "environ")
        kept = [one.decode() for one in given if one.startswith((b"LD_", b"PYTHON"))]
        on.check(not kept, f"the daemon has the client's {kept}")
        await anyio.to_thread.run_sync(lambda: mcpx("daemon", "stop"))
        ran = (home / "ran").read_text() if (home / "ran").exists() else ""
        on.check(not ran, f"foreign code was run: {ran}")
        on.saw("served")


HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}\n'
)


def told_of(pid: int, what: str) -> list[bytes]:
    """The command line of a process, or its environment."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/{what}").read_bytes().split(b"\0")
    return []

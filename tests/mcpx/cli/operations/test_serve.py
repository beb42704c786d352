"""`mcpx serve` to its end: every way to end it, its exit code, and no process left behind."""

from __future__ import annotations

import os
import signal
import time

import anyio
import pytest

from tests.mcpx.scripted import entry
from tests.mcpx.serving import alive_in_group, end_group, run_cli, serving, write_config

pytestmark = pytest.mark.anyio

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
BOUND_S = 6.0
SERVERS = 3
CRASHING = """
import anyio
from mcpx.__main__ import main
from mcpx.core.gateway.offer import Offer
from mcpx.core.gateway.{module} import {endpoint}

run, listed, asked = {endpoint}.run, Offer.list_tools, []

async def crashing(self, incarnation):
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, self, incarnation)
        while not asked:
            await anyio.sleep(0.005)
        raise RuntimeError("injected crash")

async def note(self, *given):
    result = await listed(self, *given)
    asked.append(True)
    return result

{endpoint}.run, Offer.list_tools = crashing, note
main()
"""


class Family:
    """The children of one process, by process group, and their grandchildren."""

    def __init__(self, groups: list[int], grandchildren: list[int]) -> None:
        self.groups = groups
        self.grandchildren = grandchildren

    def alive(self) -> list[int]:
        return [pid for group in self.groups for pid in alive_in_group(group)]


@pytest.fixture
def family(ears):
    """Waits until the three servers and the grandchild are there; kills what a failed test leaves."""
    met: list[Family] = []

    async def meet() -> Family:
        for number in range(1, SERVERS + 1):
            await ears.hear("request", method="tools/list", count=number)
        children = [event["pid"] for event in ears.of("started")]
        found = Family(children, [event["pid"] for event in ears.of("grandchild")])
        met.append(found)
        assert len(children) == SERVERS
        assert len(found.grandchildren) == 1
        assert set(children) | set(found.grandchildren) <= set(found.alive())
        return found

    yield meet
    for each in met:
        for group in each.groups:
            end_group(group)


@pytest.fixture
def config(tmp_path, ears):
    """One server that behaves, one that ignores every request to leave, one that leaves a child behind."""
    servers = {
        "good": entry(ears),
        "stubborn": entry(ears, stubborn=True),
        "parent": entry(ears, grandchild=True),
    }
    return write_config(tmp_path, servers, startup_wait=20)


async def end_by_sigterm(mcpx) -> None:
    mcpx.process.send_signal(signal.SIGTERM)


async def end_by_sigint(mcpx) -> None:
    mcpx.process.send_signal(signal.SIGINT)


async def end_by_eof(mcpx) -> None:
    await mcpx.close_input()


async def end_by_closed_output(mcpx) -> None:
    """The client is gone without closing its other end: noticed at the next answer."""
    mcpx.close_output()
    await mcpx.ask("ping")


@pytest.mark.parametrize("end", [end_by_sigterm, end_by_sigint, end_by_eof, end_by_closed_output])
async def test_over_stdio_it_ends_in_order_and_leaves_no_process(tmp_path, config, family, end):
    async with serving(tmp_path, "serve", config) as mcpx:
        await mcpx.initialize()
        children = await family()
        await mcpx.request("tools/list")
        began = time.monotonic()
        await end(mcpx)
        assert await mcpx.exit_code() == 0
        assert time.monotonic() - began < BOUND_S
        assert children.alive() == []


async def test_over_http_it_ends_in_order_and_leaves_no_process(tmp_path, config, family):
    async with serving(tmp_path, "serve", config, "--transport", "http", "--port", "0") as mcpx:
        await mcpx.logged("http.listening")
        children = await family()
        began = time.monotonic()
        mcpx.process.send_signal(signal.SIGTERM)
        assert await mcpx.exit_code() == 0
        assert time.monotonic() - began < BOUND_S
        assert children.alive() == []


async def test_a_crash_of_the_gateway_ends_it_with_an_error_and_leaves_no_process(tmp_path, config, family):
    driver = tmp_path / "driver.py"
    driver.write_text(CRASHING.format(module="frontends.streams", endpoint="StdioFrontend"))
    async with serving(tmp_path, "serve", config, command=lambda: [str(driver)]) as mcpx:
        await mcpx.initialize()
        children = await family()
        began = time.monotonic()
        await mcpx.ask("tools/list")
        assert await mcpx.exit_code() == 1
        assert time.monotonic() - began < BOUND_S
        assert children.alive() == []
        failed = [line for line in await mcpx.whole_log() if line["event"] == "mcpx.failed"]
        assert len(failed) == 1
        assert "injected crash" in str(failed[0])


async def test_an_http_gateway_that_crashes_again_and_again_ends_it_with_an_error(tmp_path, config, family):
    driver = tmp_path / "driver.py"
    waits = CRASHING.replace("while not asked:", "if True:").replace("0.005", "0.5")
    driver.write_text(waits.format(module="frontends.http.frontend", endpoint="HttpFrontend"))
    arguments = ["serve", config, "--transport", "http", "--port", "0", "--no-auth"]
    async with serving(tmp_path, *arguments, command=lambda: [str(driver)]) as mcpx:
        children = await family()
        assert await mcpx.exit_code() == 1
        assert children.alive() == []
        log = await mcpx.whole_log()
        assert sum(line["event"] == "part.failed" for line in log) == 4
        assert [line for line in log if line["event"] == "mcpx.failed"]


async def test_a_second_signal_ends_it_at_once_and_leaves_no_process(tmp_path, config, family):
    async with serving(tmp_path, "serve", config) as mcpx:
        await mcpx.initialize()
        children = await family()
        mcpx.process.send_signal(signal.SIGTERM)
        await mcpx.logged("mcpx.stopping")
        began = time.monotonic()
        mcpx.process.send_signal(signal.SIGTERM)
        assert await mcpx.exit_code() == 128 + signal.SIGTERM
        assert time.monotonic() - began < 1.5
        with anyio.fail_after(2):
            while children.alive():  # killed, and on their way out
                await anyio.lowlevel.checkpoint()


async def test_a_call_in_flight_may_finish_within_the_grace_time(tmp_path, ears):
    config = write_config(tmp_path, {"s": entry(ears)}, shutdown_grace=10, startup_wait=20)
    async with serving(tmp_path, "serve", config) as mcpx:
        await mcpx.initialize()
        call = {"name": "exec", "arguments": {"server_name": "s", "tool_name": "crowd"}}
        call["arguments"]["arguments"] = {"size": 1}  # answered after a moment
        asked = await mcpx.ask("tools/call", call)
        await ears.hear("call", tool="crowd")
        mcpx.process.send_signal(signal.SIGTERM)
        answers = {message.get("id"): message for message in await mcpx.rest_of_output()}
        assert answers[asked]["result"]["content"][0]["text"] == "at most 1"
        assert await mcpx.exit_code() == 0


async def test_a_client_that_leaves_while_servers_start_is_no_failure(tmp_path, ears):
    config = write_config(tmp_path, {"s": entry(ears, silent=True)})
    async with serving(tmp_path, "serve", config) as mcpx:
        pid = (await ears.hear("started"))["pid"]
        await mcpx.close_input()
        assert await mcpx.exit_code() == 0
        assert alive_in_group(pid) == []


@pytest.mark.parametrize("by", ["path", "variable"])
async def test_a_client_may_start_it_without_naming_the_command(tmp_path, by):
    config = write_config(tmp_path, {"s": entry()})
    arguments = [config] if by == "path" else []
    more = {} if by == "path" else {"MCPX_CONFIG": config}
    async with serving(tmp_path, *arguments, **more) as mcpx:
        assert (await mcpx.initialize())["serverInfo"]["name"] == "mcpx"
        await mcpx.close_input()
        assert await mcpx.exit_code() == 0


def test_options_of_http_need_the_transport(tmp_path):
    config = write_config(tmp_path, {"s": entry()})
    for option in (["--port", "1"], ["--host", "127.0.0.1"], ["--no-auth"]):
        done = run_cli(tmp_path, "serve", config, *option)
        assert (done.returncode, done.stdout) == (2, "")
        assert "go with --transport http" in done.stderr


def test_standard_input_that_is_empty_ends_it_well(tmp_path):
    config = write_config(tmp_path, {"s": entry()})
    done = run_cli(tmp_path, "serve", config)
    assert (done.returncode, done.stdout) == (0, "")
    assert os.path.devnull not in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["serve"],
        ["serve", "--transport", "http", "--port", "0"],
        ["daemon", "run", "--config"],
        ["inspect", "s", "--config"],
    ],
)
@pytest.mark.parametrize("whose", ["everybody's", pytest.param("another user's", marks=as_root)])
def test_a_state_folder_that_others_may_change_is_refused_in_the_daemons_words(tmp_path, command, whose):
    config = write_config(tmp_path, {"s": entry()})
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    if whose == "everybody's":
        state.chmod(0o777)
    else:
        os.chown(state, 65534, -1)
    refusal = f"mcpx: {state}: others may change it; name another folder with MCPX_STATE_DIR"
    done = run_cli(tmp_path, *command, config)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, refusal)
    assert list(state.iterdir()) == []


OTHERS = ("a group", "another user")
ABOVE = {"everybody's": 0o777, "a group's": 0o770, "another user's": 0o755, "everybody's, sticky": 0o1777}


@pytest.mark.parametrize("through_link", [False, True], ids=["in it", "by a link in it"])
@pytest.mark.parametrize(
    "which",
    ["everybody's", "everybody's, sticky", *(pytest.param(f"{who}'s", marks=as_root) for who in OTHERS)],
)
def test_a_state_folder_below_one_in_which_others_can_replace_it_is_refused(tmp_path, which, through_link):
    config = write_config(tmp_path, {"s": entry()})
    (above := tmp_path / "above").mkdir(mode=0o700)
    (elsewhere := tmp_path / "elsewhere").mkdir(mode=0o700)
    if through_link:
        (above / "own").symlink_to(elsewhere)
    else:
        (above / "own").mkdir(mode=0o700)
    os.chown(above, 65534 if which == "another user's" else -1, 12_345 if which == "a group's" else -1)
    above.chmod(ABOVE[which])
    state = above / "own" / "state"
    done = run_cli(tmp_path, "inspect", "s", "--config", config, MCPX_STATE_DIR=str(state))
    if "sticky" in which:
        assert done.returncode == 0, done.stderr
        return
    refusal = f"mcpx: {state}: others may replace it, for they may change {above}; name another folder with"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, f"{refusal} MCPX_STATE_DIR")
    assert not state.exists()
    checked = run_cli(tmp_path, "doctor", "--no-start", "--config", config, MCPX_STATE_DIR=str(state))
    assert f"chmod go-w {above}" in checked.stdout


def test_a_volume_of_a_pod_is_open_to_all_and_there_is_nobody_else(tmp_path):
    config = write_config(tmp_path, {"s": entry()})
    (volume := tmp_path / "volume").mkdir()
    volume.chmod(0o2777)
    given = {"MCPX_STATE_DIR": str(volume / "mcpx"), "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    done = run_cli(tmp_path, "inspect", "s", "--config", config, **given)
    assert done.returncode == 0, done.stderr

"""Servers that cannot start, never answer or lack a variable, beside two good ones."""

from __future__ import annotations

import sys
import time

import anyio
import pytest

from tests.live import servers
from tests.live.gateways import ENDPOINTS, open_gateway, write_config

pytestmark = [pytest.mark.live, pytest.mark.anyio]

STARTUP_WAIT_S = 3.0
MARGIN_S = 1.0
AT_ONCE_S = 1.0
APART_S = 0.2  # a call that waited for the list is answered at the same moment
LEAVES_S = 8.0  # far less than the grace time of calls that run
MISSING_COMMAND = "no-such-command-anywhere"
UNSET = "MCPX_LIVE_TEST_UNSET"
SILENT = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
NEVER = {"command": SILENT[0], "args": SILENT[1:], "queue_timeout": 0.2}
BAD = {
    "lost": {"command": MISSING_COMMAND},
    "silent": NEVER,
    "unset": {"command": sys.executable, "env": {"TOKEN": f"${{{UNSET}}}"}},
}


@pytest.fixture
def good(tmp_path):
    names = ("everything", "memory")
    return {name: servers.require(servers.live_server(name, tmp_path)).entry() for name in names}


@pytest.fixture(autouse=True)
def _unset(monkeypatch):
    monkeypatch.delenv(UNSET, raising=False)


class Stopwatch:
    """Seconds since it was made, or since the moment given."""

    def __init__(self, since=None):
        self.since = time.monotonic() if since is None else since

    @property
    def seconds(self):
        return time.monotonic() - self.since


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_the_good_ones_work_and_the_client_waits_for_no_bad_one(endpoint, tmp_path, good):
    config = write_config(tmp_path / "mcpx", BAD | good, startup_wait=STARTUP_WAIT_S)
    async with open_gateway(endpoint, config) as gateway:
        watch = Stopwatch()
        answers, took = {}, {}

        async def run(server, tool, arguments):
            answers[server] = await gateway.at_once(
                "exec", server_name=server, tool_name=tool, arguments=arguments
            )
            took[server] = watch.seconds

        async def list_tools():
            answers["list"] = await gateway.descriptions()
            took["list"] = watch.seconds

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(list_tools)
            tasks.start_soon(run, "everything", "get-sum", {"a": 1, "b": 2})
            tasks.start_soon(run, "memory", "read_graph", {})
        assert answers["everything"].content[0].text == "The sum of 1 and 2 is 3."
        assert answers["memory"].structured_content == {"entities": [], "relations": []}
        assert max(took["everything"], took["memory"]) < STARTUP_WAIT_S
        assert max(took["everything"], took["memory"]) < took["list"] - APART_S, "no call waits for the list"
        assert took["list"] < STARTUP_WAIT_S + MARGIN_S
        assert_listed(answers["list"]["inspect"])
        again = Stopwatch()
        assert await gateway.descriptions()
        assert again.seconds < AT_ONCE_S, "only the first list of tools waits"
        await assert_each_cause_is_told(gateway)


def assert_listed(description):
    assert "## lost\n(tools not listed yet)" in description  # the state is in what inspect answers
    assert "## unset (needs setup)" in description
    assert "## silent\n(tools not listed yet)" in description
    assert "get-sum" in description
    assert "read_graph" in description


async def assert_each_cause_is_told(gateway):
    lost, unset, silent = [
        (await gateway.inspect(name)).structured_content["state"] for name in ("lost", "unset", "silent")
    ]
    assert lost.startswith(f"parked: command not found: {MISSING_COMMAND}. Searched: ")
    assert unset.startswith(f"needs setup: environment variable {UNSET} is not set")
    assert silent == "starting"
    parked = await gateway.log.wait_for("upstream.parked", server="lost")
    assert parked["cause"].startswith(f"command not found: {MISSING_COMMAND}. Searched: ")
    disabled = await gateway.log.wait_for("upstream.disabled", server="unset")
    assert UNSET in disabled["cause"]


async def test_initialize_is_answered_while_no_server_is_ready(tmp_path):
    """The wait is long, so that an answer that waited for anything would be far too late."""
    config = write_config(tmp_path / "mcpx", {"silent": NEVER}, startup_wait=50)
    watch = Stopwatch()
    async with open_gateway("stdio-legacy", config) as gateway:
        assert gateway.client.server_info.name == "mcpx"
        assert (await gateway.at_once("inspect")).structured_content["servers"][0]["state"] == "starting"
        assert watch.seconds < 10  # most of it is the start of a Python process
        answer = await gateway.at_once("inspect", server_name="silent")  # waits a little
        assert answer.structured_content == {"server": "silent", "state": "starting", "tools": []}


async def test_one_that_never_answers_has_its_cause_in_inspect_and_in_the_log(tmp_path, good):
    config = write_config(tmp_path / "mcpx", good | {"silent": NEVER | {"connect_timeout": 0.5}})
    async with open_gateway("stdio-legacy", config) as gateway:
        failed = await gateway.log.wait_for("upstream.failed", server="silent")
        cause = "no answer to the handshake within 0.5 s"
        assert failed["cause"] == cause
        await gateway.log.wait_for("upstream.failed", server="silent", failures=2)  # now it waits for longer
        answer = await gateway.inspect("silent")
        assert answer.structured_content["state"].startswith(("waiting, retry in ", "starting"))
        assert answer.structured_content["state"].endswith(f": {cause}")
        assert cause in answer.content[0].text
        assert not (await gateway.exec("everything", "echo", {"message": "still here"})).is_error


async def test_a_call_of_a_bad_one_says_why_and_that_nothing_was_sent(tmp_path):
    config = write_config(tmp_path / "mcpx", BAD)
    async with open_gateway("stdio-legacy", config) as gateway:
        for server, words in (("lost", MISSING_COMMAND), ("unset", UNSET)):
            answer = await gateway.exec(server, "anything", {})
            assert answer.is_error
            told = answer.structured_content
            assert (told["code"], told["outcome"]) == ("server_unavailable", "not_sent")
            assert words in answer.content[0].text
            assert words in told["cause"]


async def test_a_server_that_is_still_starting_does_not_hold_up_the_end(tmp_path):
    config = write_config(tmp_path / "mcpx", {"silent": NEVER}, startup_wait=0.1, shutdown_grace=30)
    async with open_gateway("http-legacy", config) as gateway:
        answer = await gateway.inspect("silent")
        assert answer.structured_content["state"] == "starting"
        watch = Stopwatch()
    assert watch.seconds < LEAVES_S

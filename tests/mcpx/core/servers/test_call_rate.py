"""The rate of calls to a server: what is over it is refused, whoever calls and however."""

from __future__ import annotations

import pytest

from mcpx.core.servers import call_rate
from mcpx.core.servers.call_rate import CallRate
from mcpx.core.telemetry.metrics import Counters
from mcpx.errors import CallError, Code, Outcome
from tests.mcpx.core.gateway.native.test_tools import client_of
from tests.mcpx.core.gateway.test_profiles import entry as named_entry
from tests.mcpx.scripted import config_of, entry, open_watched

TEXT = "note:///text"


class Clock:
    """The time that a rate sees."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(call_rate, "monotonic", clock)
    return clock


def limited(per_minute):
    return config_of({"s": entry()}, limits={"calls_per_minute": per_minute}).servers["s"]


def admitted(rate, tries):
    """How many of so many requests are admitted."""
    return sum(refusal(rate) is None for _ in range(tries))


def refusal(rate):
    try:
        rate.admit("echo")
    except CallError as error:
        return error
    return None


@pytest.mark.parametrize("per_minute", [1, 3, 7, 60])
def test_so_many_at_once_and_then_evenly(clock, per_minute):
    counters = Counters()
    rate = CallRate(limited(per_minute), counters)
    assert admitted(rate, per_minute + 5) == per_minute
    assert counters.errors["overloaded"] == 5
    for _ in range(per_minute):
        error = refusal(rate)
        assert (error.code, error.outcome, error.tool) == (Code.OVERLOADED, Outcome.NOT_SENT, "echo")
        clock.now += error.details["retry_in_s"]
        assert refusal(rate) is None
    clock.now += 1e6
    assert admitted(rate, per_minute + 1) == per_minute


def test_an_error_says_when_to_try_again(clock):
    rate = CallRate(limited(5), Counters())
    assert admitted(rate, 5) == 5
    error = refusal(rate)
    assert error.details == {"retry_in_s": 12.0}
    assert error.rule == "limits.calls_per_minute"
    assert "5 calls a minute" in str(error)
    assert "nothing was sent, try again in 12 s" in str(error)


def test_another_rate_is_in_force_at_once_and_what_was_used_counts(clock):
    rate = CallRate(limited(5), Counters())
    assert admitted(rate, 4) == 4
    rate.configure(limited(5))
    rate.configure(limited(6))
    assert admitted(rate, 9) == 2
    rate.configure(limited(None))
    assert admitted(rate, 100) == 100
    rate.configure(limited(2))
    assert admitted(rate, 9) == 2
    rate.configure(limited(1))
    assert admitted(rate, 9) == 0
    clock.now += 60
    assert admitted(rate, 9) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("modern", [False, True])
async def test_every_way_to_a_server_counts_and_nothing_beyond_reaches_it(clock, ears, modern):
    servers = {"s": entry(ears, resources=[{"uri": TEXT, "name": "text", "text": "hi"}]), "t": entry()}
    servers["s"]["limits"] = {"calls_per_minute": 5}
    config = config_of(servers, expose="both", tiers=True, result_token_budget=0)
    echo = {"server_name": "s", "tool_name": "echo", "arguments": {"text": "hi"}}
    async with open_watched(config) as watch, client_of(watch, modern=modern) as line:
        assert await line.call("exec", echo)
        assert await line.call("resources", {"server_name": "s", "uri": TEXT})
        assert await line.call("s__echo", {"text": "hi"})
        assert await line.ask("resources/read", {"uri": TEXT, **line.meta})
        await watch.text("echo", {"text": "hi"})
        calls, reads = len(ears.of("call")), len(ears.of("read"))
        assert (calls, reads) == (3, 2)
        for line.slow in (False, True):
            for name, arguments in (
                ("exec", echo),
                ("resources", {"server_name": "s", "uri": TEXT}),
                ("s__echo", {"text": "hi"}),
            ):
                refused = (await line.call(name, arguments))["structuredContent"]
                assert (refused["code"], refused["outcome"]) == ("overloaded", "not_sent")
                assert refused["retry_in_s"] == 12.0
            assert await line.ask("resources/read", {"uri": TEXT, **line.meta}) is None
            assert "try again in 12 s" in line.error["message"]
        assert (await watch.failure("echo", {"text": "hi"})).code is Code.OVERLOADED
        assert (await line.call("exec", echo | {"server_name": "t"}))["isError"] is False
        assert (len(ears.of("call")), len(ears.of("read"))) == (calls, reads)
        servers["s"]["limits"] = {"calls_per_minute": 6}
        plan = await watch.hub.reload(config_of(servers, expose="both", tiers=True, result_token_budget=0))
        assert (plan.settings, plan.changed) == (("limits",), ())
        assert (await line.call("exec", echo))["isError"] is False
        assert (await line.call("exec", echo))["isError"] is True


@pytest.mark.anyio
async def test_sessions_of_one_client_each_share_the_rate(clock):
    servers = {"s": entry(settings={"sessions": "per_client", "limits": {"calls_per_minute": 2}})}
    echo = {"server_name": "s", "tool_name": "echo", "arguments": {"text": "hi"}}
    async with open_watched(config_of(servers)) as watch, client_of(watch) as one, client_of(watch) as two:
        assert (await one.call("exec", echo))["isError"] is False
        assert (await two.call("exec", echo))["isError"] is False
        assert (await one.call("exec", echo))["structuredContent"]["code"] == "overloaded"
        assert (await two.call("exec", echo))["structuredContent"]["code"] == "overloaded"


@pytest.mark.anyio
async def test_subscribing_counts_too(clock):
    server = named_entry("s", ("buy",), limits={"calls_per_minute": 2})
    async with open_watched(config_of({"s": server})) as watch, client_of(watch) as line:
        for _ in range(2):
            await line.ask("resources/unsubscribe", {"uri": "note:///s"})
            await line.ask("resources/subscribe", {"uri": "note:///s"})
            assert line.error is None
        await line.ask("resources/unsubscribe", {"uri": "note:///s"})
        await line.ask("resources/subscribe", {"uri": "note:///s"})
        assert "try again in 30 s" in line.error["message"]

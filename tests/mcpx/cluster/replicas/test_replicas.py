"""Two replicas, and a client of 2026-07-28 that brings what one has given it to the other."""

from __future__ import annotations

import signal
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest

from tests.mcpx.cluster.replicas.site import Client, counted_in, last_message, replica, text_of

pytestmark = pytest.mark.anyio
YES = {"action": "accept", "content": {"ok": True}}


class Pair:
    def __init__(self, folder, first, second, client):
        self.counted, self.first, self.second, self.client = folder / "counted", first, second, client
        self.a, self.b = first.origin, second.origin


@asynccontextmanager
async def pair(folder, **settings):
    async with AsyncExitStack() as stack:
        counted = folder / "counted"
        made = [await stack.enter_async_context(replica(folder / name, counted, **settings)) for name in "ab"]
        client = Client()
        stack.push_async_callback(client.close)
        yield Pair(folder, *made, client)


def answers(asked, answer=YES):
    """What a client adds to the request that it repeats."""
    return {
        "inputResponses": dict.fromkeys(asked["inputRequests"], answer),
        "requestState": asked["requestState"],
    }


async def what_one_replica_has_given_is_of_use_at_the_other(site):
    client, a, b = site.client, site.a, site.b
    # a call that a handshake server has asked in: it waits at the holder
    asked = await client.exec(a, "old", "ask", {"id": "held"})
    assert asked["resultType"] == "input_required"
    assert '"ok":true' in text_of(await client.exec(b, "old", "ask", {"id": "held"}, **answers(asked)))
    # the state of a server of 2026-07-28, which only its process takes
    asked = await client.exec(a, "new", "ask", {"id": "state"})
    assert '"accept"' in text_of(await client.exec(b, "new", "ask", {"id": "state"}, **answers(asked)))
    # the same at the transparent endpoint, where a server's bytes pass as they are
    path = "/mcp/servers/new"
    asked = await client.ask(a, "tools/call", path, name="ask", arguments={"id": "direct"})
    given = answers(asked)
    done = await client.ask(b, "tools/call", path, name="ask", arguments={"id": "direct"}, **given)
    assert '"accept"' in text_of(done)
    # a question of MCPX's own
    asked = await client.exec(a, "asking", "work", {"id": "approved"})
    key = next(iter(asked["inputRequests"]))
    schema = asked["inputRequests"][key]["params"]["requestedSchema"]["properties"]
    agreed = {"action": "accept", "content": agreement(schema)}
    done = await client.exec(b, "asking", "work", {"id": "approved"}, **answers(asked, agreed))
    assert text_of(done).endswith("did approved")
    # a result that is kept
    large = text_of(await client.exec(a, "new", "large"))
    uri = large.rpartition('"mcpx", "')[2].partition('"')[0]
    assert uri.startswith("mcpx://result/")
    read = await client.ask(b, "tools/call", name="resources", arguments={"server_name": "mcpx", "uri": uri})
    assert text_of(read).startswith("line ")
    read = await client.ask(b, "resources/read", uri=uri)
    assert read["contents"][0]["text"].startswith("line ")
    assert counted_in(site.counted) == ["approved", "direct", "held", "state"]


async def read_kept(client, origin, uri):
    return await client.ask(
        origin, "tools/call", name="resources", arguments={"server_name": "mcpx", "uri": uri}
    )


def agreement(schema):
    """What a person fills in who agrees once."""
    ((name, field),) = schema.items()
    choices = field.get("enum") or [each["const"] for each in field.get("oneOf", ())] or [True]
    return {name: next((each for each in choices if "once" in str(each)), choices[0])}


async def a_task_is_found_wherever_its_client_asks(site):
    for path in ("/mcp", "/mcp/servers/tasks"):
        if path == "/mcp":
            task = await site.client.exec(site.a, "tasks", "start", {"task_id": "t-1"})
        else:
            task = await site.client.ask(
                site.a, "tools/call", path, name="start", arguments={"task_id": "t-2"}
            )
        assert task["resultType"] == "task"
        for origin in (site.b, site.a):
            found = await site.client.ask(origin, "tasks/get", path, taskId=task["taskId"])
            assert found["taskId"] == task["taskId"], found
        refused = await site.client.ask(site.b, "tasks/get", path, taskId="t-1")
        assert refused["code"] == -32602


async def what_was_altered_is_refused_by_both_and_sent_nowhere(site):
    asked = await site.client.exec(site.a, "old", "ask", {"id": "x"})
    state = asked["requestState"]
    _, kind, url, mac, inner = (state.partition("-at-")[0], *state.partition("-at-")[2].split(".", 3))
    other = "A" if mac[5] != "A" else "B"
    altered = [
        inner,
        f"mcpx-at-{kind}.{url}.{mac[:5]}{other}{mac[6:]}.{inner}",
        f"mcpx-at-{kind}.{url}.{mac}.{inner}x",
        f"mcpx-at-a.{url}.{mac}.{inner}",
        f"mcpx-at-{kind}.aHR0cDovL2V2aWwuZXhhbXBsZQ.{mac}.{inner}",
        f"mcpx-at-{kind}..{mac}.{inner}",
        "mcpx-at-",
        "x" * 100_000,
    ]
    for wrong in altered:
        for origin in (site.a, site.b):
            given = answers(asked | {"requestState": wrong})
            failed = await site.client.exec(origin, "old", "ask", {"id": "x"}, **given)
            assert failed["isError"], wrong
            assert failed["structuredContent"]["outcome"] == "not_sent"
    done = await site.client.exec(site.b, "old", "ask", {"id": "x"}, **answers(asked))
    assert '"ok":true' in text_of(done)
    assert counted_in(site.counted) == ["x"]


async def a_state_is_of_its_call_and_its_client_also_from_afar(site):
    asked = await site.client.exec(site.a, "old", "ask", {"id": "x"})
    failed = await site.client.exec(site.b, "old", "work", {"id": "x"}, **answers(asked))
    assert failed["structuredContent"]["outcome"] == "not_sent"
    wrong = {"Authorization": "Bearer wrong"}
    given = {"server_name": "old", "tool_name": "ask", "arguments": {"id": "x"}}
    body = {"name": "exec", "arguments": given, **answers(asked)}
    refused = await site.client.post(site.b, "tools/call", **body, headers=wrong)
    assert refused.status_code == 401
    refused = await site.client.post(site.b, "tools/call", **body, headers={"Host": "evil.example"})
    assert refused.status_code == 421
    assert counted_in(site.counted) == []


async def test_what_is_given_by_one_is_taken_by_the_other_and_nothing_that_was_altered(tmp_path):
    async with pair(tmp_path) as site:
        for check in (
            what_one_replica_has_given_is_of_use_at_the_other,
            a_task_is_found_wherever_its_client_asks,
            what_was_altered_is_refused_by_both_and_sent_nowhere,
            a_state_is_of_its_call_and_its_client_also_from_afar,
        ):
            site.counted.write_text("")  # the servers append
            await check(site)


async def test_a_mark_of_the_clients_own_says_nothing_and_a_request_is_passed_on_once(tmp_path):
    # `b` is at the address that `a` gives out as its own: what comes back to it is passed on to itself
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(replica(tmp_path / "a", tmp_path / "counted"))
        lost = {"replica": {"url": first.origin, "secret": "${SHARED}"}}
        second = await stack.enter_async_context(replica(tmp_path / "b", tmp_path / "counted", http=lost))
        client = Client()
        stack.push_async_callback(client.close)
        asked = await client.exec(second.origin, "old", "ask", {"id": "x"})
        failed = await client.exec(first.origin, "old", "ask", {"id": "x"}, **answers(asked))
        assert failed["structuredContent"]["outcome"] == "unknown"
        for mark in ("1" + "0" * 64, "0", "", "x" * 5000):
            asked = await client.exec(first.origin, "old", "ask", {"id": "y"})
            given = {"server_name": "old", "tool_name": "ask", "arguments": {"id": "y"}}
            more = answers(asked) | {"headers": {"Mcp-Passed-On": mark}}
            answer = await client.post(first.origin, "tools/call", name="exec", arguments=given, **more)
            assert '"ok":true' in text_of(last_message(answer)["result"])


async def test_where_the_holder_is_gone_it_says_what_became_of_it(tmp_path):
    async with pair(tmp_path) as site:
        client, a, b = site.client, site.a, site.b
        held = await client.exec(a, "old", "ask", {"id": "held"})
        question = await client.exec(a, "asking", "work", {"id": "approved"})
        task = await client.exec(a, "tasks", "start", {"task_id": "t-1"})
        large = text_of(await client.exec(a, "new", "large"))
        uri = large.rpartition('"mcpx", "')[2].partition('"')[0]
        site.first.served.process.send_signal(signal.SIGKILL)
        await site.first.ended()
        failed = await client.exec(b, "old", "ask", {"id": "held"}, **answers(held))
        assert failed["structuredContent"]["outcome"] == "unknown"
        again = await client.exec(b, "asking", "work", {"id": "approved"}, **answers(question))
        assert again["resultType"] == "input_required"  # nothing was sent: this replica asks
        failed = await client.ask(b, "tasks/get", taskId=task["taskId"])
        assert failed["data"]["outcome"] == "unknown"
        failed = await client.ask(
            b, "tools/call", name="resources", arguments={"server_name": "mcpx", "uri": uri}
        )
        assert failed["structuredContent"]["outcome"] == "not_sent"
        assert counted_in(site.counted) == []


async def until_counted(site, name):
    """Wait until a server has begun that call, and no other."""
    with anyio.fail_after(50):
        while counted_in(site.counted) != [name]:  # noqa: ASYNC110 - of another process
            await anyio.sleep(0.02)


async def test_an_answer_that_is_lost_on_the_way_is_unknown_and_the_call_has_run_once(tmp_path):
    async with pair(tmp_path, shutdown_grace=0.2) as site:
        asked = await site.client.exec(site.a, "asking", "work", {"id": "cut", "seconds": 15})
        key = next(iter(asked["inputRequests"]))
        schema = asked["inputRequests"][key]["params"]["requestedSchema"]["properties"]
        agreed = {"action": "accept", "content": agreement(schema)}
        failures = []

        async def come_back():
            given = {"id": "cut", "seconds": 15}
            failures.append(await site.client.exec(site.b, "asking", "work", given, **answers(asked, agreed)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(come_back)
            await until_counted(site, "cut")
            site.first.served.process.send_signal(signal.SIGKILL)
        assert failures[0]["structuredContent"]["outcome"] == "unknown"
        assert counted_in(site.counted) == ["cut"]


async def test_a_client_that_leaves_cancels_its_call_at_the_holder(tmp_path):
    async with pair(tmp_path, shutdown_grace=8) as site:
        asked = await site.client.exec(site.a, "asking", "work", {"id": "left", "seconds": 30})
        key = next(iter(asked["inputRequests"]))
        schema = asked["inputRequests"][key]["params"]["requestedSchema"]["properties"]
        agreed = {"action": "accept", "content": agreement(schema)}

        async def come_back():
            given = {"id": "left", "seconds": 30}
            await site.client.exec(site.b, "asking", "work", given, **answers(asked, agreed))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(come_back)
            await until_counted(site, "left")
            tasks.cancel_scope.cancel()
        site.first.served.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(6):  # nothing is open there: the grace time is not waited for
            await site.first.ended()

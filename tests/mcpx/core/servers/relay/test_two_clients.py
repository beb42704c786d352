"""Two clients at one server's one session, at the same time: each is asked and told its own, or nothing.

In every round both have a call in flight at once, or one alone, as a seeded die says. A stream of a server
does not say whose a question is, so on stdio it is refused while both are there; over HTTP each request has
a stream of its own, and at 2026-07-28 a question is the answer to a request.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.live import gateways
from tests.mcpx.core.servers.relay.answering import (
    MESSAGES,
    OF_BOTH_ERAS,
    SCHEMA,
    SERVERS,
    AnsweringClient,
    asking_server,
    exec_,
    said,
    set_level,
)

pytestmark = pytest.mark.anyio
KINDS = SERVERS + OF_BOTH_ERAS
ROUNDS = 5
ERAS = (("legacy", "legacy"), ("legacy", "auto"), ("auto", "auto"))
ASK_IN_CALLS = ("stdio-handshake", "stdio-both")
"""Those whose questions do not say to which call they belong."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """For fixtures of the module, too."""
    return "asyncio"


@pytest.fixture(scope="module")
async def endpoint(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[gateways.HttpEndpoint]:
    """One MCPX with all servers, for one pair of clients after another."""
    async with AsyncExitStack() as running:
        entries = {kind: await running.enter_async_context(asking_server(kind)) for kind in KINDS}
        entries["own"] = entries["stdio-handshake"] | {"sessions": "per_client"}
        config = gateways.write_config(tmp_path_factory.mktemp("mcpx"), entries, startup_wait=20)
        yield await running.enter_async_context(gateways.http_endpoint(config))


class Talker:
    """One client with its person, and what its calls have reported."""

    def __init__(self, person: AnsweringClient, client: Client, server: str) -> None:
        self.person = person
        self.client = client
        self.server = server
        self.progress: list[str] = []
        self.got = 0
        self.refused = 0

    async def step(self, _progress: float, _total: float | None, message: str | None) -> None:
        self.progress.append(str(message))

    async def call(self, name: str, size: int, kind: int) -> None:
        """One call that is asked something, logs and reports, with this client's name in all of it."""
        mine = f"{self.person.name} {name}"
        question = _question(kind, mine)
        arguments = {"name": name, "size": size, "data": mine, "questions": [question]}
        call = {"server_name": self.server, "tool_name": "meet", "arguments": arguments}
        (answer,) = said(await self.client.call_tool("exec", call, progress_callback=self.step))
        if "code" in answer:
            self.refused += 1
            assert size == 2
            assert self.server in ASK_IN_CALLS
            assert answer["code"] == -32601
            assert f'"sessions": "per_client" for the server {self.server}' in answer["message"]
        else:
            self.got += 1
            assert answer == self.person.answers()[{0: 0, 1: 1, 2: 3}[kind]]


def _question(kind: int, mine: str) -> dict[str, Any]:
    sample = {"messages": MESSAGES, "maxTokens": 7, "systemPrompt": mine}
    form = {"message": mine, "requestedSchema": SCHEMA}
    return (
        {"method": "sampling/createMessage", "params": sample},
        {"method": "elicitation/create", "params": form},
        {"method": "roots/list"},
    )[kind]


@pytest.mark.parametrize("eras", ERAS, ids="-".join)
@pytest.mark.parametrize("server", KINDS)
async def test_each_is_asked_and_told_its_own_or_nothing(endpoint, server, eras):
    seed = random.randrange(1_000_000)
    die = random.Random(seed)
    print("seed", seed)
    with anyio.fail_after(55):
        people = [AnsweringClient("ann"), AnsweringClient("bob")]
        async with (
            gateways.http_client(endpoint, mode=eras[0], **_options(people[0], eras[0])) as one,
            gateways.http_client(endpoint, mode=eras[1], **_options(people[1], eras[1])) as two,
        ):
            talkers = [Talker(people[0], one, server), Talker(people[1], two, server)]
            for talker, era in zip(talkers, eras, strict=True):
                if era == "legacy":
                    await set_level(talker.client, "info")
            for number in range(ROUNDS):
                await _round(number, talkers, die)
            await _last_words(talkers)
    # of two that ask at a time, at least the first is refused
    assert any(talker.refused for talker in talkers) == (server in ASK_IN_CALLS)
    for talker, other in (talkers, reversed(talkers)):
        _assert_own(talker, other)
        if server.startswith("http"):  # then nothing has to be withheld, ever
            assert len(talker.person.logged) > talker.got
            assert len(talker.progress) >= talker.got


def _options(person: AnsweringClient, era: str) -> dict[str, Any]:
    return person.options(level="info") if era == "auto" else person.options()


async def _round(number: int, talkers: list[Talker], die: random.Random) -> None:
    both = die.random() < 0.6 or number == 0
    alone = die.choice(talkers)
    async with anyio.create_task_group() as tasks:
        for talker in die.sample(talkers, 2) if both else [alone]:
            tasks.start_soon(talker.call, f"round {number}", 2 if both else 1, die.randrange(3))


async def _last_words(talkers: list[Talker]) -> None:
    """A message each, alone, to know that everything before it has come."""
    for talker in talkers:
        before = len(talker.person.logged)
        await exec_(talker.client, talker.server, "say", level="error", data=f"{talker.person.name} is done")
        while not any("is done" in str(each["data"]) for each in talker.person.logged[before:]):
            await talker.person.news.wait()


def _assert_own(talker: Talker, other: Talker) -> None:
    mine, theirs = talker.person, other.person.name
    heard = [*mine.asked, *mine.logged, *talker.progress]
    assert heard
    assert not [each for each in heard if theirs in str(each)]
    assert all(mine.name in each for each in talker.progress)
    assert all(mine.name in str(each["data"]) for each in mine.logged)


async def test_with_sessions_of_their_own_nothing_is_refused_or_withheld(endpoint):
    """A process for each client: what one of them says is never another's, on stdio too."""
    people = [AnsweringClient("ann"), AnsweringClient("bob")]
    with anyio.fail_after(55):
        async with (
            gateways.http_client(endpoint, mode="legacy", **people[0].options()) as one,
            gateways.http_client(endpoint, mode="legacy", **people[1].options()) as two,
        ):
            talkers = [Talker(people[0], one, "own"), Talker(people[1], two, "own")]
            for talker in talkers:
                await set_level(talker.client, "info")
            for number in range(ROUNDS):
                async with anyio.create_task_group() as tasks:
                    for talker in talkers:
                        tasks.start_soon(talker.call, f"round {number}", 1, number % 3)
            await _last_words(talkers)
    for talker, other in (talkers, reversed(talkers)):
        _assert_own(talker, other)
        assert (talker.got, talker.refused) == (ROUNDS, 0)
        assert len(talker.person.logged) == ROUNDS + 1
        assert len(talker.progress) == ROUNDS

"""Two clients with the same request ids and progress tokens on one server: each sees its own, and no more."""

from __future__ import annotations

import json
import random

import anyio
import pytest

from tests.mcpx.scripted import entry
from tests.mcpx.serving import ENVELOPE, LEGACY, MODERN

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]
WHO = "@{given.who}"
WORK = [
    {"progress": {"progress": "@{i}", "message": WHO}, "times": "@{given.steps}"},
    {"if": "@{given.held}", "then": [{"hold": WHO}, {"say": WHO}], "else": [{"say": WHO}]},
]
ANSWERS = {
    "tools/call work": WORK,  # reports so many steps; held, it is answered by `let`
    "tools/call let": [{"release": WHO}, {"say": "done"}],
    "tools/call cancelled": '{"all": @{cancelled:json}}',
}
ROUNDS = 300
CHANGED = "notifications/tools/list_changed"  # while the server starts


class Side:
    """One of the two clients; `seed` decides what it does."""

    def __init__(self, name: str, served, version: str, seed: int) -> None:
        self.name = name
        self.served = served
        self.meta = ENVELOPE if version == MODERN else {}
        self.random = random.Random(seed)
        self.cancelled: list[str] = []

    async def call(self, request: int, tool: str, arguments: dict, token: object = None) -> None:
        """Send a call under an id, and a progress token, that the other client uses at the same time."""
        meta = {**self.meta, **({} if token is None else {"progressToken": token})}
        params = {
            "name": "exec",
            "arguments": {"server_name": "s", "tool_name": tool, "arguments": arguments},
            "_meta": meta,
        }
        await self.served.send("tools/call", params, id=request)

    async def text(self, request: int) -> str:
        return str((await self.served.answer(request))["result"]["content"][0]["text"])

    async def round(self, number: int) -> None:
        """One piece of work: answered, held and let go, or held and cancelled."""
        request, token, who = 10 * number, f"token-{number % 3}", f"{self.name}{number}"
        kind = self.random.choice(["plain", "let", "cancel"])
        steps = self.random.randrange(1, 5)
        self.served.notifications.clear()
        work = {"who": who, "steps": steps, "held": kind != "plain"}
        await self.call(request, "work", work, token)
        if kind != "plain":
            await self.reported(1)  # it is there, so that a cancellation has something to cancel
        if kind == "let":
            await self.call(request + 1, "let", {"who": who})
            assert await self.text(request + 1) == "done"
        if kind == "cancel":
            await self.served.send("notifications/cancelled", {"requestId": request, "reason": "test"})
            self.cancelled.append(who)
            await self.call(request + 1, "work", {"who": who, "steps": 0, "held": False})
            assert await self.text(request + 1) == who  # whatever was reported is here before it
        else:
            assert await self.text(request) == who
            await self.reported(steps)
        told = self.reports()
        assert {(each["progressToken"], each["message"]) for each in told} == {(token, who)}
        assert [each["progress"] for each in told] == list(range(len(told)))
        assert len(told) == steps or kind == "cancel"  # nobody is told of what was cancelled

    def reports(self) -> list[dict]:
        told = [note for note in self.served.notifications if note["method"] != CHANGED]
        assert {note["method"] for note in told} <= {"notifications/progress"}
        return [note["params"] for note in told]

    async def reported(self, count: int) -> None:
        """That many reports have come. Every line is a message of this client's, or the test fails."""
        with anyio.fail_after(50):
            while len(self.reports()) < count:
                self.served._take(await self.served._line())

    async def rounds(self) -> None:
        for number in range(1, ROUNDS + 1):
            await self.round(number)


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_hundreds_of_rounds_at_the_same_time(house, version):
    server = entry(offers={"tools": ["work", "let", "cancelled"]}, answers=ANSWERS)
    house.write({"s": server}, startup_wait=30)
    async with house.attached() as one, house.attached() as other:
        sides = [Side("a", one, version, seed=1), Side("b", other, version, seed=2)]
        for side in sides:
            if version == MODERN:
                await side.served.request("server/discover", {"_meta": ENVELOPE})
            else:
                await side.served.initialize(version)
        async with anyio.create_task_group() as tasks:
            for side in sides:
                tasks.start_soon(side.rounds)
        for side in sides:
            assert side.served._replies == {}, "answers to requests that were cancelled"
        await sides[0].call(3, "cancelled", {})
        answer = (await sides[0].served.answer(3))["result"]
        seen = answer["structuredContent"]["all"] if "structuredContent" in answer else json.loads(answer)
        assert sorted(seen) == sorted(sides[0].cancelled + sides[1].cancelled)
        assert len(seen) > ROUNDS / 3

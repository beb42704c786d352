"""A client whose person a test plays, and calls in its name of a server `s` that counts what reaches it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from mcpx.core.daemon.hub import Hub
from mcpx.core.protocol.context import ClientId, InputAnswers, read_capabilities
from mcpx.core.protocol.messages import Exec
from mcpx.core.protocol.requests import RequestContext
from mcpx.core.rendering.result_reading import read_tool_result
from mcpx.errors import CallError
from tests.mcpx.scripted import PATIENCE_S, Ears, config_of, entry, open_watched

FORM = b'{"elicitation":{}}'
KEY = "mcpx/approval"


def said(decision: str) -> dict[str, Any]:
    """The answer of a person who has chosen that."""
    return {"action": "accept", "content": {"decision": decision}}


class Person:
    """The caller of the older revisions, with a person behind it who gives these answers in turn.

    An answer is a decision, a whole result, an exception to raise, or None for none at all.
    """

    def __init__(self, *answers: Any, can: bytes = FORM, modern: bool = False) -> None:
        self.client: Any = ClientId()
        self.modern = modern
        self.is_peer = False
        self.capabilities = read_capabilities(can)
        self.log_level = None
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.is_asked = anyio.Event()
        self.withdrawn = anyio.Event()

    def log(self, params: dict[str, Any]) -> None: ...

    async def ask(self, method: str, params: dict[str, Any], on_progress: Any) -> dict[str, Any]:
        assert method == "elicitation/create"
        self.asked.append(params)
        self.is_asked.set()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            try:
                await anyio.sleep_forever()
            finally:
                self.withdrawn.set()
        return said(answer) if isinstance(answer, str) else answer


class CallSite:
    """Calls of the tools of `s`, in the name of a person."""

    def __init__(self, hub: Hub, ears: Ears) -> None:
        self.hub = hub
        self.ears = ears

    @property
    def sent(self) -> int:
        """How many calls have reached the server."""
        return len(self.ears.of("call"))

    async def call(
        self,
        person: Person | None,
        tool: str = "count",
        arguments: Any = None,
        *,
        state: str | None = None,
        answer: Any = None,
        raw: bytes | None = None,
    ) -> Any:
        """The result; of a client of 2026-07-28 it may be input requests."""
        answers = None
        if state is not None:
            answers = InputAnswers(b"" if answer is None else msgspec.json.encode({KEY: answer}), state)
        given = msgspec.json.encode(arguments or {}) if raw is None else raw
        context = RequestContext(client=person and person.client, caller=person, answers=answers)  # type: ignore[arg-type]
        with anyio.fail_after(PATIENCE_S):
            return await self.hub.calls.run(Exec("s", tool, given, context), read_tool_result)

    async def refused(self, person: Person | None, *arguments: Any, **more: Any) -> CallError:
        """The error of a call, of which nothing was sent."""
        before = self.sent
        with pytest.raises(CallError) as caught:
            await self.call(person, *arguments, **more)
        assert self.sent == before
        assert caught.value.outcome == "not_sent"
        return caught.value

    async def question(self, person: Person, *arguments: Any, **more: Any) -> str:
        """The requestState of the question that the call of a client of 2026-07-28 is answered with."""
        before = self.sent
        result = await self.call(person, *arguments, **more)
        assert result["resultType"] == "input_required"
        assert list(result["inputRequests"]) == [KEY]
        assert self.sent == before
        return str(result["requestState"])


@asynccontextmanager
async def open_call_site(
    folder: Path, *, ask: tuple[str, ...] = ("*",), settings: Any = None, **script: Any
) -> AsyncIterator[CallSite]:
    """A hub with one scripted server, whose tools run only when a person agrees."""
    fifo = folder / "ears"
    fifo.unlink(missing_ok=True)  # of the life before: the same server has the same entry
    with Ears(fifo) as ears:
        config = config_of(
            {"s": entry(ears, settings={"tools": {"ask": list(ask)}, **(settings or {})}, **script)}
        )
        async with open_watched(config, state=folder / "state") as watch:
            yield CallSite(watch.hub, ears)

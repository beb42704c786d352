"""A client of the Python SDK 2 or of FastMCP that does what it is told: python client_v2.py KIND JOB.

KIND is `legacy` or `auto` for the SDK, or `fastmcp`. JOB is JSON, as in `jobs.py`. Prints one line of JSON:
for each step its result, or `{"error": text}`.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from contextlib import AsyncExitStack
from typing import Any

import anyio
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

warnings.simplefilter("ignore")
ASKED: list[str] = []
NOTICED: list[str] = []


async def sample(*_: Any) -> types.CreateMessageResult:
    ASKED.append("sampling/createMessage")
    text = types.TextContent(type="text", text="sampled")
    return types.CreateMessageResult(role="assistant", content=text, model="none")


async def elicit(*_: Any) -> types.ElicitResult:
    ASKED.append("elicitation/create")
    return types.ElicitResult(action="decline")


async def roots(*_: Any) -> types.ListRootsResult:
    ASKED.append("roots/list")
    return types.ListRootsResult(roots=[types.Root.model_validate({"uri": "file:///tmp", "name": "tmp"})])


def note(method: str) -> None:
    NOTICED.append(method)


async def notice(message: Any) -> None:
    note(getattr(message, "method", ""))


async def log(*_: Any) -> None:
    note("notifications/message")


class Steps:
    """What a job may ask for."""

    def __init__(self, client: Any, streams: AsyncExitStack) -> None:
        self.client = client
        self.session = client.session
        self._streams = streams
        self._modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
        self._low = client if isinstance(client, Client) else None

    async def perform(self, step: dict[str, Any]) -> Any:
        return await getattr(self, step["do"])(**{key: value for key, value in step.items() if key != "do"})

    async def tools(self) -> Any:
        return await self.session.list_tools()

    async def call(
        self, name: str, arguments: Any = None, progress: bool = False, cancel_after_s: float | None = None
    ) -> Any:
        seen, before = [], len(ASKED)

        async def report(done: float, *_: Any) -> None:
            seen.append(done)

        calling = self._low.call_tool if self._low is not None else self.client.call_tool_mcp
        given: dict[str, Any] = {"arguments": arguments or {}}
        if progress:
            given["progress_callback" if self._low is not None else "progress_handler"] = report
        with anyio.move_on_after(cancel_after_s or 60) as scope:
            result = await calling(name, **given)
        if scope.cancelled_caught:
            return {"error": "cancelled"}
        return _json(result) | {"asked": ASKED[before:], "progress": bool(seen)}

    async def resources(self) -> Any:
        return await self.session.list_resources()

    async def templates(self) -> Any:
        return await self.session.list_resource_templates()

    async def read(self, uri: str) -> Any:
        return await self.session.read_resource(uri)

    async def prompts(self) -> Any:
        return await self.session.list_prompts()

    async def prompt(self, name: str, arguments: Any = None) -> Any:
        return await self.session.get_prompt(name, arguments or {})

    async def complete(self, ref: Any, argument: Any) -> Any:
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        return await self.session.complete(kind.model_validate(ref), argument)

    async def level(self, level: Any) -> Any:
        return {"skipped": True} if self._modern else await self.session.set_logging_level(level)

    async def subscribe(self, uri: str) -> Any:
        if not self._modern:
            return await self.session.subscribe_resource(uri)
        if self._low is None:
            return {"skipped": True}
        stream = await self._streams.enter_async_context(self._low.listen(resource_subscriptions=[uri]))

        async def follow() -> None:
            async for _ in stream:
                note("notifications/resources/updated")

        tasks = await self._streams.enter_async_context(anyio.create_task_group())
        tasks.start_soon(follow)
        self._streams.callback(tasks.cancel_scope.cancel)
        return {}

    async def noticed(self, method: str, within_s: float) -> Any:
        with anyio.move_on_after(within_s):
            while method not in NOTICED:  # noqa: ASYNC110 - a small program
                await anyio.sleep(0.02)
        return {"noticed": method in NOTICED}


def _json(result: Any) -> Any:
    if isinstance(result, dict):
        return result
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


def _client(kind: str, transport: dict[str, Any]) -> Any:
    environ = {**os.environ, **transport.get("env", {})}
    if kind == "fastmcp":
        from fastmcp import Client as FastClient  # noqa: PLC0415 - in the environment that has it
        from fastmcp.client.transports import StdioTransport  # noqa: PLC0415

        over = transport.get("url") or StdioTransport(
            transport["command"], transport["args"], env=environ, keep_alive=False
        )
        return FastClient(
            over,
            roots=["file:///tmp"],
            sampling_handler=lambda *_: "sampled",
            message_handler=notice,
            log_handler=log,
            elicitation_handler=elicit,
            timeout=60,
        )
    if "url" in transport:
        over = streamable_http_client(transport["url"])
    else:
        command = StdioServerParameters(command=transport["command"], args=transport["args"], env=environ)
        over = stdio_client(command, errlog=open(os.devnull, "w"))  # noqa: SIM115
    return Client(
        over,
        mode=kind,
        read_timeout_seconds=60,
        sampling_callback=sample,
        elicitation_callback=elicit,
        list_roots_callback=roots,
        logging_callback=log,
        message_handler=notice,
        log_level="debug" if kind == "auto" else None,
    )


async def main(kind: str, job: dict[str, Any]) -> None:
    results: Any = []
    try:
        async with _client(kind, job["transport"]) as client, AsyncExitStack() as streams:
            steps = Steps(client, streams)
            for step in job["steps"]:
                try:
                    results.append(_json(await steps.perform(step)))
                except Exception as error:  # noqa: BLE001 - the failure is the result of the step
                    results.append({"error": str(error)[:500]})
            print(json.dumps(results), flush=True)
    except Exception as error:  # noqa: BLE001 - as above, of all steps
        if not results:
            print(json.dumps({"error": str(error)[:500]}))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], json.loads(sys.argv[2]))

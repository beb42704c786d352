"""A client of the Python SDK 1 that does what it is told: python client_v1.py JOB, with that SDK's Python.

JOB is JSON, as in `jobs.py`. Prints one line of JSON: for each step its result, or `{"error": text}`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import anyio
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from pydantic import AnyUrl

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
    return types.ListRootsResult(roots=[types.Root(uri="file:///tmp", name="tmp")])


async def notice(message: Any) -> None:
    NOTICED.append(getattr(getattr(message, "root", None), "method", ""))


class Steps:
    """What a job may ask for."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

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

        with anyio.move_on_after(cancel_after_s or 60) as scope:
            result = await self.session.call_tool(
                name, arguments or {}, progress_callback=report if progress else None
            )
        if scope.cancelled_caught:
            return {"error": "cancelled"}
        return _json(result) | {"asked": ASKED[before:], "progress": bool(seen)}

    async def resources(self) -> Any:
        return await self.session.list_resources()

    async def templates(self) -> Any:
        return await self.session.list_resource_templates()

    async def read(self, uri: str) -> Any:
        return await self.session.read_resource(AnyUrl(uri))

    async def prompts(self) -> Any:
        return await self.session.list_prompts()

    async def prompt(self, name: str, arguments: Any = None) -> Any:
        return await self.session.get_prompt(name, arguments or {})

    async def complete(self, ref: Any, argument: Any) -> Any:
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        return await self.session.complete(kind.model_validate(ref), argument)

    async def level(self, level: Any) -> Any:
        return await self.session.set_logging_level(level)

    async def subscribe(self, uri: str) -> Any:
        return await self.session.subscribe_resource(AnyUrl(uri))

    async def noticed(self, method: str, within_s: float) -> Any:
        with anyio.move_on_after(within_s):
            while method not in NOTICED:  # noqa: ASYNC110 - a small program
                await anyio.sleep(0.02)
        return {"noticed": method in NOTICED}


def _json(result: Any) -> Any:
    if isinstance(result, dict):
        return result
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main(job: dict[str, Any]) -> None:
    transport = job["transport"]
    if "url" in transport:
        over: Any = streamablehttp_client(transport["url"])
    else:
        environ = {**os.environ, **transport.get("env", {})}
        command = StdioServerParameters(command=transport["command"], args=transport["args"], env=environ)
        over = stdio_client(command, errlog=open(os.devnull, "w"))  # noqa: ASYNC230, SIM115
    results: Any = []
    async with (
        over as streams,
        ClientSession(
            streams[0],
            streams[1],
            sampling_callback=sample,
            elicitation_callback=elicit,
            list_roots_callback=roots,
            message_handler=notice,
        ) as session,
    ):
        await session.initialize()
        steps = Steps(session)
        for step in job["steps"]:
            try:
                results.append(_json(await steps.perform(step)))
            except Exception as error:  # noqa: BLE001 - the failure is the result of the step
                results.append({"error": str(error)[:500]})
        print(json.dumps(results), flush=True)


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]))

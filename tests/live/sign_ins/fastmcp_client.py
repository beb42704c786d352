"""FastMCP's client as a program: `fastmcp_client.py URL PORT [FOLDER]`; its tokens are in FOLDER, or memory.

Reads requests as JSON lines and answers each: `initialize` by connecting, `tools/call` by calling. A
connection that has failed is made anew for the next call. Runs with an interpreter of its own; imports
nothing of MCPX.
"""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from pathlib import Path
from typing import Any

from fastmcp import Client
from fastmcp.client.auth import OAuth
from key_value.aio.stores.filetree import (
    FileTreeStore,
    FileTreeV1CollectionSanitizationStrategy,
    FileTreeV1KeySanitizationStrategy,
)


def store_in(folder: Path) -> FileTreeStore:
    """A store of files, as FastMCP's documentation has it."""
    return FileTreeStore(
        data_directory=folder,
        key_sanitization_strategy=FileTreeV1KeySanitizationStrategy(folder),
        collection_sanitization_strategy=FileTreeV1CollectionSanitizationStrategy(folder),
    )


class Program:
    """One client, connected when it is first needed."""

    def __init__(self, url: str, port: int, store: FileTreeStore | None) -> None:
        auth = OAuth(callback_port=port, callback_timeout=20, token_storage=store)
        self._client: Client[Any] = Client(url, auth=auth)
        self._connecting = asyncio.Lock()

    async def answer(self, request: dict[str, Any]) -> None:
        """Answer one request; what it fails with is its error."""
        said: dict[str, Any] = {"id": request["id"]}
        try:
            async with self._connecting:
                if not self._client.is_connected():
                    await self._client.__aenter__()
            if request["method"] == "tools/call":
                params = request["params"]
                await self._client.call_tool(params["name"], params["arguments"])
            said["result"] = {}
        except Exception as error:  # noqa: BLE001 - whatever it is: the week goes on
            said["error"] = f"{type(error).__name__}: {error}"[:300]
        print(json.dumps(said), flush=True)

    async def run(self) -> None:
        """Take requests until the end of input."""
        lines = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        async with asyncio.TaskGroup() as tasks:
            while line := await lines.readline():
                request = json.loads(line)
                if "id" in request:
                    tasks.create_task(self.answer(request))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(Program(sys.argv[1], int(sys.argv[2]), folder and store_in(folder)).run())

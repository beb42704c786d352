"""An HTTP MCP server that does what a row of the hostile table tells it, and else behaves.

Run as `python -S -E hostile_http.py SCRIPT`, where SCRIPT is a JSON file with the `era` of `wicked_http.py`
(`legacy`, `modern` or `sse`) and `code`: lines of Python with an `async def take(server, request, writer)`,
which is given each request. Where it returns True it has dealt with it, else the server answers as it should.
`server` has the methods of `wicked_http.WickedHttp` (`respond`, `head`, `stream`, `event`, `write`, `reply`).
Says `{"port": ...}` on standard output once it listens.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from wicked_http import WickedHttp
from wicked_sockets import Request


class HostileHttp(WickedHttp):
    """One server, which asks the script first."""

    def __init__(self, script: dict[str, Any]) -> None:
        super().__init__(script)
        self.code: dict[str, Any] = {"asyncio": asyncio, "json": json}
        exec(compile(script.get("code", ""), "<row>", "exec"), self.code)

    async def take(self, request: Request, writer: asyncio.StreamWriter) -> None:
        hostile = self.code.get("take")
        if hostile is None or not await hostile(self, request, writer):
            await self.behave(request, writer)


if __name__ == "__main__":
    asyncio.run(HostileHttp(json.loads(Path(sys.argv[1]).read_bytes())).run())

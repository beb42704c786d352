"""A gateway and its client, held open on a portal's event loop and called from plain tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from anyio.from_thread import BlockingPortal
from mcp_types import CallToolResult

from tests.live.gateways import Gateway


class Held:
    """The methods of a `Gateway`, without waiting. `folder` is where its configuration lies."""

    def __init__(self, portal: BlockingPortal, gateway: Gateway, folder: Path) -> None:
        self._portal = portal
        self.gateway = gateway
        self.log = gateway.log
        self.folder = folder

    @property
    def protocol_version(self) -> str:
        return self.gateway.client.protocol_version

    def wait_for(self, event: str, **fields: Any) -> dict[str, Any]:
        """A record of the log, as `Log.wait_for`."""
        return self._portal.call(lambda: self.log.wait_for(event, **fields))

    def descriptions(self) -> dict[str, str]:
        return self._portal.call(self.gateway.descriptions)

    def inspect(self, server: str, tool: str | None = None) -> CallToolResult:
        return self._portal.call(self.gateway.inspect, server, tool)

    def exec(self, server: str, tool: str, arguments: Any = None) -> CallToolResult:
        return self._portal.call(self.gateway.exec, server, tool, arguments)

    def resources(self, server: str, uri: str) -> CallToolResult:
        return self._portal.call(self.gateway.resources, server, uri)

    def calls_sent(self) -> list[tuple[str, Any]]:
        """Name and arguments of each tools/call that reached the recorded server, in order."""
        messages = map(msgspec.json.decode, (self.folder / "recording.jsonl").read_bytes().splitlines())
        calls = [message["params"] for message in messages if message.get("method") == "tools/call"]
        return [(call["name"], call.get("arguments")) for call in calls]

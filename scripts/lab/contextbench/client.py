"""A raw MCP client over stdio: blocking, one request in flight, of the standard library only.

It speaks the handshake of 2025-06-18. Whatever is not the answer that was due raises `Unmeasured`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from scripts.lab.benchmarks.process import Process, Unmeasured, deadline
from scripts.lab.contextbench.recorded import JSON

ANSWER_S = 60.0  # the longest that an answer may take; a gateway starts 70 servers first
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "context-benchmark", "version": "1"},
}


@dataclass(frozen=True)
class Exchange:
    """One call: what the model writes, as the params of `tools/call`, and the text that it reads."""

    written: JSON
    read: str


class Client:
    """One session with a gateway, which is started with it and ends with it."""

    def __init__(self, name: str, command: list[str], env: dict[str, str] | None = None) -> None:
        self.name = name
        self.process = Process(name, command, env)
        self._input = open(self.process.stdout, "rb", closefd=False)  # noqa: SIM115 - a descriptor
        self._output = open(self.process.stdin, "wb", closefd=False)  # noqa: SIM115 - a descriptor
        self._id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.close()

    def initialize(self, hello: JSON = HELLO) -> str:
        """Shake hands; returns the instructions."""
        instructions = self.request("initialize", hello).get("instructions", "")
        self._write({"method": "notifications/initialized"})
        return instructions

    def list_tools(self) -> list[JSON]:
        """All pages of `tools/list`."""
        tools: list[JSON] = []
        page: JSON = {}
        while True:
            answer = self.request("tools/list", page)
            tools += answer["tools"]
            if "nextCursor" not in answer:
                return tools
            page = {"cursor": answer["nextCursor"]}

    def call(self, tool: str, arguments: JSON) -> Exchange:
        """A tool's result, or the message of the error in its place: a client shows either."""
        params = {"name": tool, "arguments": arguments}
        answer = self._ask("tools/call", params)
        return Exchange(
            params, text_of(answer["result"]) if "result" in answer else answer["error"]["message"]
        )

    def request(self, method: str, params: JSON) -> JSON:
        """Any request; its result."""
        answer = self._ask(method, params)
        if "result" not in answer:
            raise Unmeasured(f"{self.name} refuses {method}: {answer['error']}")
        return answer["result"]

    def _ask(self, method: str, params: JSON) -> JSON:
        self._id += 1
        with deadline(ANSWER_S, f"{self.name}, {method}"):
            try:
                self._write({"id": self._id, "method": method, "params": params})
                while line := self._input.readline():
                    answer = json.loads(line)
                    if answer.get("id") == self._id and "method" not in answer:
                        break
            except OSError as error:
                raise Unmeasured(f"{self.name}: {error}\n{self.process.log()[-600:]}") from error
        if not line:
            raise Unmeasured(f"{self.name} has left:\n{self.process.log()[-600:]}")
        return answer

    def _write(self, message: JSON) -> None:
        self._output.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._output.flush()


def text_of(result: JSON) -> str:
    """All text blocks of a tool's result."""
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")

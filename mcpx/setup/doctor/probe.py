"""Asking the MCP server that a client would start, as the client does, over its standard streams."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from mcpx.core.running.bounded import end, running
from mcpx.core.system.endpoint import PROBE_KEY
from mcpx.core.system.input import readable
from mcpx.core.text import one_line
from mcpx.version import __version__

LINE_BYTES: Final = 8 << 20  # of an answer; a longer one is given up
SAID_BYTES: Final = 400  # of the end of standard error: the reason why it has ended
LEAVE_TIMEOUT_S: Final = 5.0  # for the process to leave once its input is closed
PROTOCOL: Final = "2025-06-18"  # that every client and every MCPX speaks
_INITIALIZED: Final = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of the process. `problem` is None if it answered everything."""

    problem: str | None = None
    instructions: str = ""
    descriptions: dict[str, str] = {}
    """Of the tools, by their names."""
    seconds: float = 0.0
    """Until `initialize` was answered."""


class _NoAnswerError(Exception):
    """The process has not answered; the text says how."""


def ask(command: Sequence[str], environ: Mapping[str, str], *, client: str, within_s: float) -> Answer:
    """Start the command, shake hands in a client's name, list its tools, and end it.

    MCPX knows by `PROBE_KEY` that this is no client.

    `within_s` bounds the whole, but for the end.
    """
    try:
        pipe, here = subprocess.PIPE, os.curdir
        with running(command, environ, stdin=pipe, stderr=pipe, folder=here) as process:
            return _ask(_Conversation(process, time.monotonic() + within_s), client)
    except OSError as error:
        return Answer(problem=f"cannot be started: {error.strerror}")


def _ask(conversation: _Conversation, client: str) -> Answer:
    try:
        return _converse(conversation, client)
    except (_NoAnswerError, OSError) as error:
        said = one_line(conversation.said.decode(errors="replace"))
        return Answer(problem=f"{error}: {said}" if said else str(error))
    finally:
        conversation.end()


def _converse(conversation: _Conversation, client: str) -> Answer:
    began = time.monotonic()
    opening = {
        "protocolVersion": PROTOCOL,
        "capabilities": {},
        "clientInfo": {"name": client, "version": __version__},
        "_meta": {PROBE_KEY: True},
    }
    result = conversation.request("initialize", opening)
    seconds = time.monotonic() - began
    conversation.send(_INITIALIZED)
    listed = conversation.request("tools/list", {})
    tools = listed.get("tools")
    return Answer(
        instructions=str(result.get("instructions") or ""),
        descriptions={
            str(tool.get("name")): str(tool.get("description") or "")
            for tool in (tools if isinstance(tools, list) else [])
            if isinstance(tool, dict)
        },
        seconds=seconds,
    )


class _Conversation:
    """One request at a time with a process, until the deadline."""

    def __init__(self, process: subprocess.Popen[bytes], deadline: float) -> None:
        assert process.stdin and process.stdout and process.stderr  # made with pipes
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._process = process
        self._deadline = deadline
        self._rest = b""
        self._last_id = 0
        self.said = b""
        """The end of what came on standard error."""

    def send(self, message: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):  # the end of its output says so
            self._stdin.write(json.dumps(message).encode() + b"\n")
            self._stdin.flush()

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result."""
        self._last_id += 1
        self.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        while True:
            with suppress(ValueError):
                message = json.loads(self._line(method))
                if (
                    isinstance(message, dict)
                    and message.get("id") == self._last_id
                    and "method" not in message
                ):
                    break
        if isinstance(result := message.get("result"), dict):
            return result
        error = message.get("error")
        text = error.get("message") if isinstance(error, dict) else "no result"
        raise _NoAnswerError(f"{method} is answered with an error: {text}")

    def _line(self, method: str) -> bytes:
        """The next line of standard output; what comes on standard error meanwhile is kept."""
        open_streams = [self._stderr, self._stdout]  # the reason before the end
        while b"\n" not in self._rest:
            left_s = self._deadline - time.monotonic()
            ready = readable(open_streams, max(0.0, left_s))
            if not ready or len(self._rest) > LINE_BYTES:
                raise _NoAnswerError(f"does not answer {method} in time")
            for stream in ready:
                chunk = os.read(stream.fileno(), 1 << 16)
                if stream is self._stderr:
                    self.said = (self.said + chunk)[-SAID_BYTES:]
                    if not chunk:
                        open_streams.remove(stream)
                elif not chunk:
                    raise _NoAnswerError(f"ended before it answered {method}")
                else:
                    self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def end(self) -> None:
        """Close its input, and wait for its end; a process that stays is killed, with its group."""
        with suppress(OSError):
            self._stdin.close()
        end(self._process, wait_s=LEAVE_TIMEOUT_S)
        self._stderr.close()

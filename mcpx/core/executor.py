"""The executor: check a call's arguments, send it, shape its result.

`dispatch` is the sending half, used by the router actor: it returns at once and the answer comes into a
reply slot; what cannot be checked at once is checked apart, and sent when that is done. `execute` is the
whole, for programs. Part of the public API.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mcpx.catalog.model import JSON, ToolInfo
from mcpx.config.model import TOON_MAX_SIZE
from mcpx.core.registry import Registry
from mcpx.errors import CallError, Outcome, internal_error
from mcpx.observe.contained import contain
from mcpx.rendering.large_results import is_large
from mcpx.rendering.results import Shaped, read_tool_result, shape_tool_result
from mcpx.upstream.queue import RawReply
from mcpx.upstream.requests import NOBODY, CallTool, Origin
from mcpx.validation.arguments import encode_arguments, read_raw_arguments
from mcpx.validation.checker import ArgumentChecker


class ExecutionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one call, as the upstream gave it and as the model gets it."""

    server_name: str
    tool_name: str
    raw: JSON
    """The upstream's result, unaltered: `{content, structuredContent?, isError?}`.

    Of one that is too large to be read, the essentials (`mcpx.rendering.large_results`)."""
    shaped: Shaped

    @property
    def is_error(self) -> bool:
        """Whether the tool itself reported a failure."""
        return self.shaped.is_error

    @property
    def raw_data(self) -> Any:
        """The data for programs: the structured content as plain JSON, or else the text."""
        if self.shaped.structured_content is not None:
            return self.shaped.structured_content
        return _text(self.raw.get("content", []))

    @property
    def compressed_data(self) -> str:
        """The text for the model: TOON where that is smaller."""
        return _text(self.shaped.content)


def _text(content: list[JSON]) -> str:
    return "\n".join(block["text"] for block in content if block.get("type") == "text")


def _is_safe(tool: ToolInfo) -> bool:
    """Whether the tool says of itself that running it twice does no harm."""
    hints = tool.annotations or {}
    return hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True


class Executor:
    """Runs tools of the registry's servers. Keeps nothing but what it knows of their schemas.

    `checker` is closed by whoever made it.
    """

    def __init__(
        self,
        registry: Registry,
        checker: ArgumentChecker | None = None,
        *,
        toon: bool = True,
        toon_min_size: int = 0,
        toon_max_size: int = TOON_MAX_SIZE,
    ) -> None:
        self._registry = registry
        self._checker = checker or ArgumentChecker()
        self.configure(toon=toon, toon_min_size=toon_min_size, toon_max_size=toon_max_size)

    def configure(self, *, toon: bool, toon_min_size: int, toon_max_size: int) -> None:
        """Shape results by these settings from now on."""
        self._toon = toon
        self._toon_min_size = toon_min_size
        self._toon_max_size = toon_max_size

    def dispatch(
        self,
        server_name: str,
        tool_name: str,
        arguments: msgspec.Raw | bytes,
        reply: RawReply,
        origin: Origin = NOBODY,
    ) -> None:
        """Check a call and put it into its server's queue; `reply` gets the raw result.

        `arguments` is JSON: an object, a string that holds one, null, or nothing at all.

        Raises:
            CallError: With the outcome `not_sent`: unknown names, bad arguments, no server. What is found
                only later goes into `reply`.
        """
        tool = self._registry.tool(server_name, tool_name)
        checked, raw = read_raw_arguments(arguments, tool)
        call = CallTool(tool_name, raw, safe=_is_safe(tool), origin=origin)
        if checked is not None and self._checker.accepts(tool, checked, len(raw)):
            self._registry.session(server_name, origin.client).submit(call, reply)
        else:
            self._check_apart(tool, call, reply)

    def _check_apart(self, tool: ToolInfo, call: CallTool, reply: RawReply) -> None:
        """Send the call when its arguments have been checked, or nobody can tell."""

        def judged(wrong: CallError | None) -> None:
            if reply.settled:
                return
            reply.on_abandon = None
            if wrong is not None:
                reply.reject(wrong)
                return
            try:
                self._registry.session(tool.server_name, call.origin.client).submit(call, reply)
            except CallError as error:
                reply.reject(error)
            except Exception as error:  # noqa: BLE001 - the boundary: this runs in a turn that is everybody's
                contain(error, "send", server=tool.server_name)
                server, name = tool.server_name, tool.name
                reply.reject(internal_error(error, server=server, tool=name, outcome=Outcome.NOT_SENT))

        cancel = self._checker.judge(tool, call.arguments, judged)
        if cancel is not None:
            reply.on_abandon = cancel

    def shape(self, server_name: str, tool_name: str, result: msgspec.Raw) -> ExecutionResult:
        """The upstream's result in the form for model and program. Raises CallError `protocol_error`."""
        raw = read_tool_result(result, server=server_name)
        shaped = shape_tool_result(
            raw,
            toon=self._toon,
            toon_min_size=self._toon_min_size,
            is_large=is_large(result, self._toon_max_size),
            server=server_name,
        )
        return ExecutionResult(server_name=server_name, tool_name=tool_name, raw=raw, shaped=shaped)

    async def execute(self, server_name: str, tool_name: str, arguments: Any = None) -> ExecutionResult:
        """Run one tool and wait for its result.

        `arguments` is an object, a JSON string that holds one, or None for no arguments.

        Raises:
            CallError: With code and outcome. A failure that the tool itself reports is a result.
        """
        await self._registry.upstream(server_name).await_catalogue()
        reply = RawReply()
        encoded = encode_arguments(arguments, server=server_name, tool=tool_name)
        self.dispatch(server_name, tool_name, encoded, reply)
        return self.shape(server_name, tool_name, await reply.wait())

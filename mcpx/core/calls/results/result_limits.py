"""How much of a result a model is shown: the limit of each call.

What the call itself asks for (`max_tokens`) goes before what the tool claims for its results, and that before
the `result_token_budget` of the server. Looked up at each call, so that a reload takes effect at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mcpx.core.calls.results.result_pages import Limit
from mcpx.core.calls.results.results import ResultRenderer
from mcpx.core.config import PerServer
from mcpx.core.protocol.messages import Exec, Read
from mcpx.core.servers.visible_server import VisibleServer

CLAIM: Final = "anthropic/maxResultSizeChars"
MAX_CLAIM_CHARS: Final = 500_000  # as in the client that knows this claim
SURELY_WITHIN: Final = 1024  # bytes of a result; only the limit of a single call can be smaller
_DEFAULT: Final = PerServer().result_token_budget


class ResultLimits:
    """Finds limits. `results` holds the settings in force."""

    def __init__(self, results: ResultRenderer, upstreams: Mapping[str, VisibleServer]) -> None:
        self._results = results
        self._upstreams = upstreams

    def find(self, request: Exec | Read, size: int) -> Limit | None:
        """The limit for a result of `size` bytes; None where it is surely within."""
        return self.of_first(request).of_size(size)

    def of_first(self, request: Exec | Read) -> Limit:
        """The limit for what a call gives."""
        if isinstance(request, Exec) and request.max_tokens is not None:
            return Limit(request.max_tokens)
        return self.of_pages(request)

    def of_pages(self, request: Exec | Read) -> Limit:
        """The limit for further pages of a result, whatever its call asked for."""
        claim, as_resource = None, False
        if isinstance(request, Exec):
            claim, as_resource = self._claim(request), request.rest_as_resource
        if claim is not None:
            return Limit(0, claim, as_resource)
        config = self._results.settings.servers.get(request.server_name)
        budget = _DEFAULT if config is None else config.result_token_budget
        return Limit(budget, as_resource=as_resource)

    def _claim(self, request: Exec) -> int | None:
        """The characters that a tool claims for its results."""
        upstream = self._upstreams.get(request.server_name)
        catalogue = upstream.catalogue if upstream else None
        tool = catalogue.tools.get(request.tool_name) if catalogue else None
        claim = tool.meta.get(CLAIM) if tool and tool.meta else None
        if not isinstance(claim, int) or isinstance(claim, bool) or claim <= 0:
            return None
        return min(claim, MAX_CLAIM_CHARS)

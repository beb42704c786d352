"""Whether a server has subscriptions to resources, and what is said where it has none.

A server is asked even if it does not declare them: many have them all the same (the Python SDK 1.x cannot
declare them). One that answers that it does not know the method is not asked again in that session.
"""

from __future__ import annotations

from collections.abc import Callable

from mcp_types import METHOD_NOT_FOUND
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpx.core.catalog.model import JSON, Catalogue
from mcpx.core.servers.errors import call_error
from mcpx.errors import CallError, Code


class Support:
    """What one server's session is known to have. `catalogue` gives what it last listed.

    With `from_mcpx` another MCPX answers for the server, under the name `peer` if somebody else may run it.
    """

    def __init__(
        self,
        server: str,
        catalogue: Callable[[], Catalogue | None],
        *,
        from_mcpx: bool = False,
        peer: str | None = None,
    ) -> None:
        self._server = server
        self._from_mcpx, self._peer = from_mcpx, peer
        self.catalogue = catalogue
        self._refusal_of_all: JSON | None = None  # the server's error in this session, if it has none

    @property
    def is_modern(self) -> bool:
        """Whether the server speaks 2026-07-28, as far as is known: it may be down."""
        catalogue = self.catalogue()
        return catalogue is not None and catalogue.protocol_version in MODERN_PROTOCOL_VERSIONS

    def require(self) -> None:
        """Check that the server may be asked.

        Raises:
            CallError: It has no resources, or has refused all subscriptions in this session.
        """
        known = self.catalogue()
        has_none = known is not None and not (
            "resources" in known.capabilities or known.resources or known.templates
        )
        if has_none or self._refusal_of_all is not None:
            raise self._not_offered()

    def note(self, error: CallError) -> None:
        """Take in that the server has refused a subscription; perhaps it refuses all of them."""
        said = error.details.get("upstream", {})
        if said.get("code") == METHOD_NOT_FOUND:
            self._refusal_of_all = said

    def forget(self) -> None:
        """Take in that a session has begun or ended."""
        self._refusal_of_all = None

    def refusal(self, error: Exception | None) -> CallError:
        """The error of a subscription that was left out when a stream was opened, or of the stream."""
        if error is not None:
            return call_error(
                error, server=self._server, tool=None, from_mcpx=self._from_mcpx, peer=self._peer
            )
        known = self.catalogue()
        if known is not None and not (known.capabilities.get("resources") or {}).get("subscribe"):
            return self._not_offered()
        text = f"{self._server} does not take the subscription"
        return CallError(Code.PROTOCOL_ERROR, text, server=self._server)

    def _not_offered(self) -> CallError:
        """The error where the server has no subscriptions: its own, or what it would answer."""
        text = f"{self._server} offers no subscriptions to resources"
        said = self._refusal_of_all or {"code": METHOD_NOT_FOUND, "message": text}
        return CallError(
            Code.UPSTREAM_ERROR, said["message"], server=self._server, details={"upstream": said}
        )

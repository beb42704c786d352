"""The policy of one server: which of what it offers there is for clients, in which form, and what may run.

Owned by the server's `Upstream` and shared by its sessions, the direct ones included. Everything that shows,
searches, finds or runs something of a server sees its catalogue through `shown`, so what is not admitted
does not exist anywhere else. What a client names and no listing holds (the URI of a template, a prompt before
the first listing, anything at a transparent door) is held against `admits_...`. `configure` puts other
settings in force, from one turn of the event loop to the next.
"""

from __future__ import annotations

from mcpx.catalog.model import Catalogue, ToolInfo
from mcpx.config import ServerConfig
from mcpx.errors import CallError


class ServerPolicy:
    """What one server may offer. `revision` grows whenever the answers of the methods may have changed."""

    def __init__(self, config: ServerConfig) -> None:
        self.revision = 0
        self._config = config

    def configure(self, config: ServerConfig) -> None:
        """Put these settings in force."""
        self._config = config
        self.revision += 1

    def shown(self, whole: Catalogue | None) -> Catalogue | None:
        """What there is of a catalogue; the same object for as long as that is the same."""
        return whole

    def admits_tool(self, name: str) -> bool:  # noqa: ARG002
        """Whether there is a tool of that name, if the server has it."""
        return True

    def admits_resource(self, uri: str) -> bool:  # noqa: ARG002
        """Whether there is a resource with that URI, if the server has it."""
        return True

    def admits_prompt(self, name: str) -> bool:  # noqa: ARG002
        """Whether there is a prompt of that name, if the server has it."""
        return True

    def refusal(self, tool: str) -> CallError | None:  # noqa: ARG002
        """Why a tool that is listed cannot run: it has changed, and waits for approval."""
        return None

    def asks(self, tool: ToolInfo) -> str | None:  # noqa: ARG002
        """The rule by which a person is asked before the tool, in the form shown, runs; None: nobody is."""
        return None

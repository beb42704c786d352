"""What the server behind a transparent endpoint has listed, there and on its own session.

The clients of an endpoint may be the first, or the only ones, that a server lists anything to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import Catalogue, ToolInfo
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.servers.passthrough.messages import members_of, value_of
from mcpx.core.servers.visible_server import VisibleServer

MAX_LISTED: Final = 10_000  # tools and prompts of pages that clients have got
MAX_TASK_BYTES: Final = 64 << 10  # of a result that is a task
MAX_TASKS: Final = 10_000  # whose tools are known
_TASK_ID: Final = b'"taskId"'


class Offered:
    """What the server of an endpoint offers. `upstream` gives it as it is shown there, or None."""

    def __init__(self, server: str, upstream: Callable[[], VisibleServer | None]) -> None:
        self.server = server
        self.upstream = upstream
        self._tools: dict[
            str, ToolInfo
        ] = {}  # as clients of the endpoint have had them listed, before any rule
        self._prompts: set[str] = set()
        self._tasks: dict[str, str] = {}  # the tool of each

    @property
    def policy(self) -> ServerPolicy | None:
        """The policy of the server."""
        upstream = self.upstream()
        return None if upstream is None else upstream.policy

    @property
    def catalogue(self) -> Catalogue | None:
        """What the server's own session has listed, in this life or the last, as it is shown."""
        upstream = self.upstream()
        return None if upstream is None else upstream.catalogue

    @property
    def is_listed(self) -> bool:
        """Whether the server's own session has listed in this life."""
        known = self.catalogue
        return known is not None and known.generation > 0

    # --- tools and prompts

    def note_page(self, page: Catalogue) -> None:
        """Take in what a client has got of a list, before any rule."""
        if len(self._tools) < MAX_LISTED:
            self._tools |= page.tools
        if len(self._prompts) < MAX_LISTED:
            self._prompts |= {prompt.name for prompt in page.prompts}

    def may_have_tool(self, name: str) -> bool:
        """Whether there may be such a tool: it was listed, or it is not known which there are."""
        known = self.catalogue
        if name in self._tools or known is None or not self.is_listed or not known.tools:
            return True
        return name in known.tools

    def may_have_prompt(self, name: str) -> bool:
        """As `may_have_tool`, for a prompt."""
        known = self.catalogue
        if name in self._prompts or known is None or not self.is_listed or not known.prompts:
            return True
        return any(each.name == name for each in known.prompts)

    def forms_of(self, name: str) -> list[ToolInfo]:
        """A tool as it is shown, by what was listed on the server's own session and at the endpoint.

        One that was not listed says nothing of itself.
        """
        known, policy, own = self.catalogue, self.policy, self._tools.get(name)
        forms = [known.tools[name]] if known is not None and name in known.tools else []
        if own is not None and policy is not None:
            forms += policy.shown_page(Catalogue(generation=0, tools={name: own})).tools.values()
        return forms or [ToolInfo(server_name=self.server, name=name, input_schema={})]

    # --- resources

    def rule_against(self, uri: str) -> str | None:
        """The rule by which there is no resource with that URI; None where there may be one."""
        known, policy = self.catalogue, self.policy
        listed = known is not None and uri in known.resources
        return None if policy is None else policy.rule_against_resource(uri, listed=listed)

    # --- tasks

    def note_task(self, result: msgspec.Raw, tool: str) -> None:
        """Remember the tool of a task that a call was answered with."""
        if len(memoryview(result)) > MAX_TASK_BYTES or _TASK_ID not in bytes(result):
            return
        members = members_of(result)
        task = value_of((members_of(members["task"]) if "task" in members else members).get("taskId"))
        if isinstance(task, str):
            self._tasks.pop(task, None)
            self._tasks[task] = tool
            if len(self._tasks) > MAX_TASKS:
                del self._tasks[next(iter(self._tasks))]

    def rule_against_task(self, task: Any) -> str | None:
        """The rule against the tool of a task; None where there is none, or the tool is not known."""
        policy, tool = self.policy, self._tasks.get(task) if isinstance(task, str) else None
        return None if policy is None or tool is None else policy.rule_against_tool(tool)

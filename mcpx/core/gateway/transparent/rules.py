"""Requests at a transparent endpoint, judged by the policy of its server as it is at the moment.

One for what is not admitted is answered as one for what does not exist, and nothing is sent. Where rules are
set, all tools and prompts that nothing lists are answered in this way, too, so that nobody can tell them from
those that are hidden. Where none are set, requests pass as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from mcp_types.version import LATEST_MODERN_VERSION
from msgspec.structs import replace

from mcpx.core.catalog.model import Catalogue, ToolInfo
from mcpx.core.gateway.native.errors import no_such_resource
from mcpx.core.gateway.transparent.requests import (
    KINDS,
    METHODS,
    NAMELESS,
    OF_SKILLS,
    NotAdmitted,
    Subject,
    is_misspelt,
    kinds_of,
    subject_of,
)
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.protocol.requests import Passed
from mcpx.core.servers.passthrough.messages import members_of, value_of
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.text import cut, shown_name
from mcpx.core.wire.envelope import INVALID_PARAMS, METHOD_NOT_FOUND, MCPError
from mcpx.errors import NAME_LEN, CallError, Code

MAX_LISTED: Final = 10_000  # tools and prompts of pages that clients have got
MAX_TASK_BYTES: Final = 64 << 10  # of a result that is a task
MAX_TASKS: Final = 10_000  # whose tools are known
_TASK_ID: Final = b'"taskId"'


class Offered:
    """The offers of the server of an endpoint. `upstream` gives it as it is shown there, or None.

    The clients of an endpoint may be the first, or the only ones, that a server lists anything to.
    """

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
        """The listing of the server's own session, in this life or the last, as it is shown."""
        upstream = self.upstream()
        return None if upstream is None else upstream.catalogue

    @property
    def is_listed(self) -> bool:
        """True if the server's own session has listed in this life."""
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
        """Return True if there may be such a tool: it was listed, or it is not known which there are."""
        known = self.catalogue
        if name in self._tools or known is None or not self.is_listed or not known.every_tool():
            return True
        return known.tool(name) is not None

    def may_have_prompt(self, name: str) -> bool:
        """Return True if there may be such a prompt, as for a tool."""
        known = self.catalogue
        if name in self._prompts or known is None or not self.is_listed or not known.prompts:
            return True
        return any(each.name == name for each in known.prompts)

    def forms_of(self, name: str) -> list[ToolInfo]:
        """A tool as it is shown, by what was listed on the server's own session and at the endpoint.

        One that was not listed says nothing of itself.
        """
        known, policy, own = self.catalogue, self.policy, self._tools.get(name)
        listed = None if known is None else known.tool(name)
        forms = [] if listed is None else [listed]
        if own is not None and policy is not None:
            forms += policy.shown_page(Catalogue(generation=0, tools={name: own})).tools.values()
        return forms or [ToolInfo(server_name=self.server, name=name, input_schema={})]

    # --- resources

    def rule_against(self, uri: str) -> str | None:
        """The rule by which there is no resource with that URI; None where there may be one."""
        policy = self.policy
        return None if policy is None else policy.rule_against_resource(uri, listed=self.lists_resource(uri))

    def lists_resource(self, uri: str) -> bool:
        """Return True if the server's own session has listed just this URI."""
        known = self.catalogue
        return known is not None and uri in known.resources

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


class Enforcement:
    """Judges the requests of one endpoint. `is_compared` says whether tools were held against their pins."""

    def __init__(self, offered: Offered, is_compared: Callable[[], bool]) -> None:
        self._offered = offered
        self._server = offered.server
        self._is_compared = is_compared
        self._last: tuple[msgspec.Raw | bytes, Subject | MCPError] | None = None

    def read(self, request: Passed) -> Subject:
        """Return what a request names, as far as that can be read.

        Raises:
            NotAdmitted: Rules are set, and it cannot be held against them.
        """
        named = self.named(request)
        if isinstance(named, Subject):
            return named
        if self.is_strict(request.method):
            raise NotAdmitted(named, Code.INVALID_ARGUMENTS, server=self._server)
        return NAMELESS

    def named(self, request: Passed) -> Subject | MCPError:
        """Read what a request names, or why that cannot be read; once in a turn of the event loop."""
        if self._last is None or self._last[0] is not request.raw:
            try:
                found: Subject | MCPError = subject_of(request.method, request.raw)
            except MCPError as error:
                found = error
            self._last = request.raw, found
        return self._last[1]

    def forget(self) -> None:
        """Drop what was read last; to be called when a request has been dealt with."""
        self._last = None

    def is_strict(self, method: str) -> bool:
        """Return True if rules judge requests of that method, so that what they name must be certain."""
        policy = self._offered.policy
        return policy is not None and method in METHODS and any(map(policy.restricts, kinds_of(method)))

    def admitted(self, request: Passed, *, version: str) -> Subject:
        """Return what a request names, if it may be sent; `version` is the client's revision.

        Raises:
            CallError: It may not.
        """
        if request.method not in METHODS:
            if self._is_misspelt(request.method):
                response = MCPError(METHOD_NOT_FOUND, "Method not found", request.method)
                raise NotAdmitted(response, Code.INVALID_ARGUMENTS, server=self._server)
            return NAMELESS
        subject = self.read(request)
        if request.method in OF_SKILLS:  # "not found" is one code there, in each revision
            version = LATEST_MODERN_VERSION
        if (refusal := self.refusal(subject, version=version)) is not None:
            raise refusal
        return subject

    def _is_misspelt(self, method: str) -> bool:
        """Return True if a lenient server may take the method for one that rules are set about."""
        policy = self._offered.policy
        return is_misspelt(method) and policy is not None and any(map(policy.restricts, KINDS))

    def drops(self, method: str) -> bool:
        """Return True if a notification of a client by that name could run something at a lenient server.

        It would be in no audit log, count for no limit, and pass all rules.
        """
        return method in METHODS or self._is_misspelt(method)

    def guarded(self, request: Passed, *, version: str, agreed: bool = False) -> Passed:
        """A request as it may be sent, which is held against the rules again each time when it is.

        Of a call that a person has `agreed` to, it does not matter whether they have to be asked.

        Raises:
            CallError: It may not be sent.
        """
        if request.method not in METHODS:
            return request

        def admit(given: Passed) -> Passed:
            subject = self.admitted(given, version=version)
            if not agreed and subject.tool is not None and (rule := self._asks(subject.tool)) is not None:
                raise self._ask_again(subject.tool, rule)
            return self._certain(given, subject)

        return replace(admit(request), admit=admit)

    def _certain(self, request: Passed, subject: Subject) -> Passed:
        """A request with the params that were held against rules, where there are some."""
        if not self.is_strict(request.method):
            return request
        if hidden := [uri for uri in subject.subscriptions if self._offered.rule_against(uri) is not None]:
            subject = subject.without_subscriptions(hidden)
        return replace(request, raw=subject.params())

    def _asks(self, tool: str) -> str | None:
        """The rule by which a person is to be asked before the tool runs."""
        policy = self._offered.policy
        rules = () if policy is None else map(policy.must_agree, self._offered.forms_of(tool))
        return next(filter(None, rules), None)

    def _ask_again(self, tool: str, rule: str) -> CallError:
        name = _shown(tool)
        text = f"{name} runs only when a person agrees since the rules were changed ({rule}): call it again"
        details = {"rule": rule}
        return CallError(
            Code.NOT_APPROVED, f"{text}; nothing was sent", server=self._server, tool=tool, details=details
        )

    def refusal(self, subject: Subject, *, version: str) -> CallError | None:
        """Say why a request with that subject is not sent; `version` is the client's revision."""
        policy = self._offered.policy
        if policy is None:
            return None
        if subject.tool is not None:
            return self._tool_refusal(policy, subject.tool)
        if (
            subject.resource is not None
            and (rule := self._offered.rule_against(subject.resource)) is not None
        ):
            response = no_such_resource(subject.resource, "Resource not found", version=version)
            return NotAdmitted(response, Code.UNKNOWN_RESOURCE, server=self._server, rule=rule)
        if subject.task is not None and (rule := self._offered.rule_against_task(subject.task)) is not None:
            return self._unknown(f"Task not found: {_shown(subject.task)}", rule)
        return self._reference_refusal(policy, subject)

    def _tool_refusal(self, policy: ServerPolicy, tool: str) -> CallError | None:
        rule = policy.rule_against_tool(tool)
        if rule is None and policy.pins is not None and policy.pins.guards and not self._is_compared():
            return self._not_compared(tool)
        if rule is not None or (policy.restricts("tools") and not self._offered.may_have_tool(tool)):
            return self._unknown(f"Unknown tool: {_shown(tool)}", rule, tool=tool)
        return policy.refusal(tool)

    def _not_compared(self, tool: str) -> CallError:
        text = f"{_shown(tool)} is not run before the tools of {shown_name(self._server)} were listed"
        return CallError(
            Code.NOT_APPROVED,
            f"{text}: what is pinned cannot be compared; nothing was sent, list the tools first",
            server=self._server,
            tool=tool,
        )

    def _reference_refusal(self, policy: ServerPolicy, subject: Subject) -> CallError | None:
        """Refuse a prompt, or what a completion is for."""
        prompt, template = subject.prompt, subject.template
        if template is not None:
            listed = self._offered.lists_resource(template)
            if (rule := policy.rule_against_reference(template, listed=listed)) is not None:
                return self._unknown(f"Unknown resource template: {_shown(template)}", rule)
        if prompt is None:
            return None
        rule = policy.rule_against_prompt(prompt)
        if rule is None and (not policy.restricts("prompts") or self._offered.may_have_prompt(prompt)):
            return None
        return self._unknown(f"Unknown prompt: {_shown(prompt)}", rule)

    def _unknown(self, text: str, rule: str | None, *, tool: str | None = None) -> NotAdmitted:
        code = Code.UNKNOWN_RESOURCE if tool is None else Code.UNKNOWN_TOOL
        return NotAdmitted(MCPError(INVALID_PARAMS, text), code, server=self._server, tool=tool, rule=rule)


def _shown(name: str) -> str:
    return shown_name(cut(name, NAME_LEN))

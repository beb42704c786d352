"""What the policy of a server means at its transparent door.

A request for what is not admitted is answered as one for what does not exist, and nothing is sent; of the
lists only what is admitted is shown; what a server says of a resource that is not admitted is dropped. Where
rules are set, all tools and prompts that nothing lists are answered in this way, too, so that nobody can tell
them from those that are hidden. Where none are set, messages pass as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from mcp import MCPError
from mcp_types import INVALID_PARAMS
from msgspec.structs import replace

from mcpx.catalog.model import Catalogue, ToolInfo
from mcpx.errors import NAME_LEN, CallError, Code
from mcpx.gateway.native.errors import no_such_resource
from mcpx.gateway.transparent.errors import NotAdmitted
from mcpx.gateway.transparent.pages import METHODS as LISTS
from mcpx.gateway.transparent.pages import shown_page
from mcpx.gateway.transparent.pinned_pages import (
    GREETINGS,
    TOOLS_LIST,
    PinnedPages,
    as_approved,
    said_in,
)
from mcpx.gateway.transparent.subjects import METHODS, NAMELESS, Subject, subject_of
from mcpx.text import cut, shown_name
from mcpx.trust.policy import Kind, ServerPolicy
from mcpx.upstream.actor import Upstream
from mcpx.upstream.direct.messages import members_of, result_answer, result_of, value_of
from mcpx.upstream.requests import Passed

UPDATED: Final = "notifications/resources/updated"
TASK_STATUS: Final = "notifications/tasks/status"
MAX_LISTED: Final = 10_000  # tools and prompts of pages that clients have got
MAX_TASKS: Final = 10_000  # whose tools are known
_TASK_ID: Final = b'"taskId"'


class Enforcement:
    """Holds the messages of one door against the policy of its server, as it is at the moment.

    `upstream` gives the server as the door shows it; None where there is none.
    """

    def __init__(
        self, server: str, upstream: Callable[[], Upstream | None], pins_changed: Callable[[], None]
    ) -> None:
        """`pins_changed` is called when what waits for approval has changed."""
        self._server = server
        self._upstream = upstream
        self._pages = PinnedPages(pins_changed)
        self._tools: dict[str, ToolInfo] = {}  # as clients of the door have had them listed
        self._prompts: set[str] = set()
        self._tasks: dict[str, str] = {}  # the tool of each

    # --- requests

    def read(self, method: str, params: msgspec.Raw | bytes) -> Subject:
        """What a request names, as far as that can be read.

        Raises:
            NotAdmitted: Rules are set, and it cannot be held against them.
        """
        try:
            return subject_of(method, params)
        except MCPError as error:
            if self.is_strict(method):
                raise NotAdmitted(error, Code.INVALID_ARGUMENTS, server=self._server) from None
            return NAMELESS

    def named(self, method: str, params: msgspec.Raw | bytes) -> Subject:
        """What a request names, for the audit log: nothing where it cannot be read."""
        try:
            return subject_of(method, params)
        except MCPError:
            return NAMELESS

    def is_strict(self, method: str) -> bool:
        """Whether requests of that method are held against rules, so that what they name must be certain."""
        policy = self._policy()
        return policy is not None and method in METHODS and any(map(policy.restricts, _kinds_of(method)))

    def admitted(self, request: Passed, *, version: str) -> Subject:
        """What a request names, which may be sent; `version` is the client's revision.

        Raises:
            CallError: It may not.
        """
        if request.method not in METHODS:
            return NAMELESS
        subject = self.read(request.method, request.raw)
        if (refusal := self.refusal(subject, version=version)) is not None:
            raise refusal
        return subject

    def held(self, request: Passed, *, version: str, agreed: bool = False) -> Passed:
        """A request as it may be sent, which is held against the rules again each time when it is.

        Of a call that a person has `agreed` to, it does not matter whether they have to be asked.

        Raises:
            CallError: It may not be sent.
        """
        if request.method not in METHODS:
            return request

        def hold(given: Passed) -> Passed:
            subject = self.admitted(given, version=version)
            if not agreed and subject.tool is not None and (rule := self._asks(subject.tool)) is not None:
                raise self._ask_again(subject.tool, rule)
            return self._certain(given, subject)

        return replace(hold(request), hold=hold)

    def _certain(self, request: Passed, subject: Subject) -> Passed:
        """A request with the params that were held against rules, where there are some."""
        if not self.is_strict(request.method):
            return request
        if hidden := self.hidden(subject.subscriptions):
            subject = subject.without_subscriptions(hidden)
        return replace(request, raw=subject.params())

    def _asks(self, tool: str) -> str | None:
        """The rule by which a person is to be asked before the tool runs."""
        policy = self._policy()
        if policy is None:
            return None
        if policy.pins is not None and policy.pins.always(tool):
            return None
        return next((rule for each in self.forms_of(tool) if (rule := policy.asks(each)) is not None), None)

    def _ask_again(self, tool: str, rule: str) -> CallError:
        name = _shown(tool)
        text = f"{name} runs only when a person agrees since the rules were changed ({rule}): call it again"
        details = {"rule": rule}
        return CallError(
            Code.NOT_APPROVED, f"{text}; nothing was sent", server=self._server, tool=tool, details=details
        )

    def refusal(self, subject: Subject, *, version: str) -> CallError | None:
        """Why a request with that subject is not sent; `version` is the client's revision."""
        upstream = self._upstream()
        if upstream is None:
            return None
        policy = upstream.policy
        if subject.tool is not None:
            return self._tool_refusal(upstream, subject.tool)
        if subject.resource is not None:
            uri = subject.resource
            rule = policy.rule_against_resource(uri, listed=_lists(upstream.catalogue, uri))
            if rule is None:
                return None
            response = no_such_resource(uri, "Resource not found", version=version)
            return NotAdmitted(response, Code.UNKNOWN_RESOURCE, server=self._server, rule=rule)
        if subject.task is not None and (tool := self._tasks.get(subject.task)) is not None:
            rule = policy.rule_against_tool(tool)
            return None if rule is None else self._unknown(f"Task not found: {_shown(subject.task)}", rule)
        return self._reference_refusal(upstream, subject)

    def _tool_refusal(self, upstream: Upstream, tool: str) -> CallError | None:
        rule, pins = upstream.policy.rule_against_tool(tool), upstream.policy.pins
        if rule is None and pins is not None and pins.guards and not self._is_compared(upstream):
            return self._not_compared(tool)
        if rule is None and (tool in self._tools or _has_tool(upstream, tool)):
            return upstream.policy.refusal(tool)
        if rule is None and not upstream.policy.restricts("tools"):
            return upstream.policy.refusal(tool)
        return self._unknown(f"Unknown tool: {_shown(tool)}", rule, tool=tool)

    def _is_compared(self, upstream: Upstream) -> bool:
        """Whether the server has listed its tools in this life, so that they were held against their pins."""
        return self._pages.noted or (upstream.catalogue is not None and upstream.catalogue.generation > 0)

    def _not_compared(self, tool: str) -> CallError:
        text = f"{_shown(tool)} is not run before the tools of {shown_name(self._server)} were listed"
        return CallError(
            Code.NOT_APPROVED,
            f"{text}: what is pinned cannot be compared; nothing was sent, list the tools first",
            server=self._server,
            tool=tool,
        )

    def _reference_refusal(self, upstream: Upstream, subject: Subject) -> CallError | None:
        """As `refusal`, for a prompt, and for what a completion is for."""
        prompt, template = subject.prompt, subject.template
        if template is not None and (rule := upstream.policy.rule_against_template(template)) is not None:
            return self._unknown(f"Unknown resource template: {_shown(template)}", rule)
        if prompt is None:
            return None
        rule = upstream.policy.rule_against_prompt(prompt)
        if rule is None and not upstream.policy.restricts("prompts"):
            return None
        if rule is None and (prompt in self._prompts or _has_prompt(upstream, prompt)):
            return None
        return self._unknown(f"Unknown prompt: {_shown(prompt)}", rule)

    def _unknown(self, text: str, rule: str | None, *, tool: str | None = None) -> NotAdmitted:
        code = Code.UNKNOWN_RESOURCE if tool is None else Code.UNKNOWN_TOOL
        return NotAdmitted(MCPError(INVALID_PARAMS, text), code, server=self._server, tool=tool, rule=rule)

    def hidden(self, uris: tuple[str, ...]) -> list[str]:
        """Those of the URIs that are not admitted."""
        return [uri for uri in uris if not self._admits_resource(uri)]

    def forms_of(self, name: str) -> list[ToolInfo]:
        """A tool as the server has listed it on its own session, and to clients of the door.

        One that was not listed says nothing of itself.
        """
        upstream = self._upstream()
        known = None if upstream is None or upstream.catalogue is None else upstream.catalogue.tools.get(name)
        listed = [tool for tool in (known, self._tools.get(name)) if tool is not None]
        return listed or [ToolInfo(server_name=self._server, name=name, input_schema={})]

    # --- answers and notifications

    def shown(self, request: Passed, answer: msgspec.Raw) -> msgspec.Raw:
        """The answer to a request as it is shown."""
        method, tool, result = request.method, request.tool, result_of(answer)
        if result is None:
            return answer
        if tool is not None:
            self._note_task(result, tool)
        elif method in LISTS:
            return self._shown_page(request, answer, result)
        elif method in GREETINGS:
            return self._shown_greeting(answer, result)
        elif method == "tasks/list":
            return self._shown_tasks(answer, result)
        return answer

    def _shown_greeting(self, answer: msgspec.Raw, result: msgspec.Raw) -> msgspec.Raw:
        """What the server says of itself, as it was approved."""
        policy = self._policy()
        if policy is None or policy.pins is None or not policy.pins.is_active:
            return answer
        said = said_in(result)
        self._pages.note_greeting(policy.pins, said)
        shown = policy.shown_page(said)
        return answer if shown is said else result_answer(as_approved(result, said, shown))

    def _shown_page(self, request: Passed, answer: msgspec.Raw, result: msgspec.Raw) -> msgspec.Raw:
        policy, method = self._policy(), request.method
        if policy is None:
            return answer
        strict = any(map(policy.restricts, _kinds_of(method)))
        if not (strict or (method == TOOLS_LIST and policy.reads_tools)):
            return answer

        def show(page: Catalogue) -> Catalogue:
            if method == TOOLS_LIST and policy.pins is not None:
                self._pages.note_page(policy.pins, request.raw, result, page.tools)
            return policy.shown_page(page)

        page = shown_page(method, result, self._server, show, strict=strict)
        if len(self._tools) + len(page.offered.tools) <= MAX_LISTED:
            self._tools |= page.offered.tools
        if len(self._prompts) < MAX_LISTED:
            self._prompts |= {prompt.name for prompt in page.offered.prompts}
        return answer if page.result is result else result_answer(page.result)

    def _note_task(self, result: msgspec.Raw, tool: str) -> None:
        """Remember the tool of a task that a call was answered with."""
        if _TASK_ID not in bytes(result):
            return
        members = members_of(result)
        task = value_of((members_of(members["task"]) if "task" in members else members).get("taskId"))
        if isinstance(task, str):
            self._tasks.pop(task, None)
            self._tasks[task] = tool
            if len(self._tasks) > MAX_TASKS:
                del self._tasks[next(iter(self._tasks))]

    def _shown_tasks(self, answer: msgspec.Raw, result: msgspec.Raw) -> msgspec.Raw:
        policy = self._policy()
        if policy is None or not policy.restricts("tools"):
            return answer
        members = members_of(result)
        tasks = value_of(members.get("tasks"))
        if not isinstance(tasks, list):
            return answer
        kept = [task for task in tasks if isinstance(task, dict) and self._admits_task(task.get("taskId"))]
        listed = msgspec.Raw(msgspec.json.encode(kept))
        return result_answer(msgspec.json.encode(members | {"tasks": listed}))

    def admits_notification(self, method: str, params: msgspec.Raw) -> bool:
        """Whether a notification of the server may pass."""
        if method == UPDATED:
            uri = value_of(members_of(params).get("uri"))
            policy = self._policy()
            strict = policy is not None and policy.restricts("resources")
            return not strict or (isinstance(uri, str) and self._admits_resource(uri))
        if method == TASK_STATUS:
            return self._admits_task(value_of(members_of(params).get("taskId")))
        return True

    def _admits_resource(self, uri: str) -> bool:
        upstream = self._upstream()
        listed = upstream is not None and _lists(upstream.catalogue, uri)
        return upstream is None or upstream.policy.admits_resource(uri, listed=listed)

    def _admits_task(self, task: Any) -> bool:
        policy, tool = self._policy(), self._tasks.get(task) if isinstance(task, str) else None
        return policy is None or tool is None or policy.admits_tool(tool)

    def _policy(self) -> ServerPolicy | None:
        upstream = self._upstream()
        return None if upstream is None else upstream.policy


def _kinds_of(method: str) -> tuple[Kind, ...]:
    """What requests of a method are about."""
    if method == "completion/complete":
        return ("prompts", "resources")
    kind, _, _ = method.partition("/")
    if kind == "subscriptions":
        return ("resources",)
    return ("prompts",) if kind == "prompts" else ("resources",) if kind == "resources" else ("tools",)


def _lists(catalogue: Catalogue | None, uri: str) -> bool:
    return catalogue is not None and uri in catalogue.resources


def _has_tool(upstream: Upstream, name: str) -> bool:
    """Whether the server may have such a tool, as far as it has listed them in this life."""
    known = upstream.catalogue
    return known is None or known.generation == 0 or not known.tools or name in known.tools


def _has_prompt(upstream: Upstream, name: str) -> bool:
    known = upstream.catalogue
    if known is None or known.generation == 0 or not known.prompts:
        return True
    return any(each.name == name for each in known.prompts)


def _shown(name: str) -> str:
    return shown_name(cut(name, NAME_LEN))

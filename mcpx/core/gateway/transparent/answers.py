"""What a server says at its transparent endpoint, as its clients get it.

Of the lists only what is admitted is shown, in the form that is in force, and what the server says of a
resource that is not admitted is dropped. Where no rule is set, all of it passes as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from mcpx.core.catalog.model import Catalogue
from mcpx.core.gateway.transparent.offered import Offered
from mcpx.core.gateway.transparent.pages import METHODS as LISTS
from mcpx.core.gateway.transparent.pages import shown_page
from mcpx.core.gateway.transparent.pinned_pages import (
    GREETINGS,
    TOOLS_LIST,
    PinnedPages,
    about_in,
    as_approved,
)
from mcpx.core.gateway.transparent.subjects import COMPLETE, kinds_of
from mcpx.core.policy.rules import admitted_completion
from mcpx.core.protocol.requests import Passed
from mcpx.core.servers.passthrough.messages import NOTHING, members_of, result_answer, result_of, value_of
from mcpx.core.wire import envelope

UPDATED: Final = "notifications/resources/updated"
TASK_STATUS: Final = "notifications/tasks/status"
TASKS_LIST: Final = "tasks/list"


class Answers:
    """Answers and notifications of one endpoint. `pins_changed`: what waits for approval has changed."""

    def __init__(self, offered: Offered, pins_changed: Callable[[], None]) -> None:
        self.pinned = PinnedPages(pins_changed)
        self._offered = offered

    def shown(self, request: Passed, answer: msgspec.Raw) -> msgspec.Raw:
        """The answer to a request as its client gets it."""
        result, method = result_of(answer), request.method
        if result is None:
            return answer
        if request.tool is not None:
            self._offered.note_task(result, request.tool)
        elif method in LISTS:
            return self._shown_page(request, answer, result)
        elif method in GREETINGS:
            return self._shown_greeting(answer, result)
        elif method == COMPLETE:
            return self._shown_completion(request, answer, result)
        elif method == TASKS_LIST:
            return self._shown_tasks(answer, result)
        return answer

    def _shown_greeting(self, answer: msgspec.Raw, result: msgspec.Raw) -> msgspec.Raw:
        """What the server says of itself, as it was approved."""
        policy = self._offered.policy
        if policy is None or policy.pins is None or not policy.pins.is_active:
            return answer
        about = about_in(result)
        self.pinned.note_greeting(policy.pins, about)
        shown = policy.shown_page(about)
        return answer if shown is about else result_answer(as_approved(result, about, shown))

    def _shown_page(self, request: Passed, answer: msgspec.Raw, result: msgspec.Raw) -> msgspec.Raw:
        policy, method = self._offered.policy, request.method
        if policy is None:
            return answer
        strict = any(map(policy.restricts, kinds_of(method)))
        if not (strict or (method == TOOLS_LIST and policy.reads_tools)):
            return answer

        def show(page: Catalogue) -> Catalogue:
            self._offered.note_page(page)
            if method == TOOLS_LIST and policy.pins is not None:
                self.pinned.note_page(policy.pins, request.raw, result, page.tools)
            return policy.shown_page(page)

        page = shown_page(method, result, self._offered.server, show, strict=strict)
        return answer if page is result else result_answer(page)

    def _shown_completion(self, request: Passed, answer: msgspec.Raw, result: msgspec.Raw) -> msgspec.Raw:
        """The values for an argument of a template that make no resource that is not admitted."""
        policy, members = self._offered.policy, members_of(result)
        if policy is None or not policy.restricts_resources or "completion" not in members:
            return answer
        params = members_of(request.raw)
        template = value_of(members_of(params.get("ref", NOTHING)).get("uri"))
        argument = value_of(members_of(params.get("argument", NOTHING)).get("name"))
        resolved = value_of(members_of(params.get("context", NOTHING)).get("arguments"))
        if not isinstance(template, str) or not isinstance(argument, str):
            return answer
        given = {"completion": value_of(members["completion"])}
        known = resolved if isinstance(resolved, dict) else {}
        shown = admitted_completion(given, policy, template, argument, known)
        if shown is given:
            return answer
        completion = msgspec.Raw(envelope.encode(shown["completion"]))
        return result_answer(envelope.encode(members | {"completion": completion}))

    def _shown_tasks(self, answer: msgspec.Raw, result: msgspec.Raw) -> msgspec.Raw:
        policy = self._offered.policy
        if policy is None or not policy.restricts("tools"):
            return answer
        members = members_of(result)
        tasks = value_of(members.get("tasks"))
        if not isinstance(tasks, list):
            return answer
        kept = [task for task in tasks if isinstance(task, dict) and self._admits_task(task.get("taskId"))]
        return result_answer(envelope.encode(members | {"tasks": msgspec.Raw(envelope.encode(kept))}))

    def admits(self, method: str, params: msgspec.Raw) -> bool:
        """Whether a notification of the server may go to the clients."""
        if method == UPDATED:
            policy = self._offered.policy
            if policy is None or not policy.restricts("resources"):
                return True
            uri = value_of(members_of(params).get("uri"))
            return isinstance(uri, str) and self._offered.rule_against(uri) is None
        return method != TASK_STATUS or self._admits_task(value_of(members_of(params).get("taskId")))

    def _admits_task(self, task: object) -> bool:
        return self._offered.rule_against_task(task) is None

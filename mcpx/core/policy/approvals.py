"""Approvals: which calls a person has agreed to, and which are being asked about.

One for a hub. A call that a policy asks about is handed to `admit` each time before it would be sent. The
first time that raises `ApprovalRequired`, input that the client is asked for as for that of a server; the
client's repeated request brings the answer. An answer counts once, for the very call that was asked about: of
the same client, for the tool in the same form, with the same arguments. What it opens for longer ends with
the client (`session`) or when the tool changes (`always`, which the server's pins keep). A client that may
not agree for all others agrees for its session instead.

A server that wants input during an approved call gets it without another question: its `requestState` is kept
here, and its client gets one of ours in its place, which is bound to the call in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mcpx.core.catalog.model import ToolInfo
from mcpx.core.policy.approval_form import NO_ANSWER, Answer, Decision, form, read_answer
from mcpx.core.policy.asked_arguments import Arguments
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.policy.questions import (
    CANNOT_ASK,
    PREFIX,
    Answers,
    ApprovalRequest,
    ApprovalRequired,
    Question,
    form_of,
    new_state,
)
from mcpx.core.rendering.result_reading import InputRequired
from mcpx.errors import CallError, Code

MAX_OPEN: Final = 64  # questions to one client at a time
MAX_OPEN_SESSIONLESS: Final = 1024  # to all clients without a session together: they cannot be told apart
MAX_KEPT: Final = 1024  # calls that were asked about; the oldest is forgotten, and asked about anew
MAX_INPUT_BYTES: Final = 1 << 18  # of answers and states that are kept for a server; larger ones start anew


class Admitted(msgspec.Struct, frozen=True):
    """A call that may be sent, with these answers. `by` is the decision that it comes of, if any."""

    answers: Any
    by: Decision | None = None


class Approvals:
    """The questions and approvals of one hub. `within_s` gives how long a person may take, in seconds."""

    def __init__(self, within_s: Callable[[], float]) -> None:
        self._within_s = within_s
        self._kept: dict[str, Question] = {}
        self._sessions: dict[Hashable, dict[tuple[ServerPolicy, str], bytes]] = {}
        self.redact: Callable[[str], str] = str
        """Takes secrets out of what a person is shown; set by the hub."""

    def admit(self, call: ApprovalRequest) -> Admitted:
        """Let a call pass, or refuse it.

        Raises:
            ApprovalRequired: A person is to be asked.
            CallError: `not_approved`: the person has refused, or the client cannot be asked;
                `invalid_arguments`: they cannot be shown truly; `overloaded`: too many questions are open.
        """
        state = None if call.answers is None else call.answers.state
        of_server = call.asks_likewise and state not in self._kept  # of the MCPX that the server is at
        if state is None or not state.startswith(PREFIX) or of_server:
            if (passed := self._passed(call)) is not None:
                return Admitted(call.answers, passed.by)
            raise self._ask(call, call.read())
        arguments = call.read()
        question = self._kept.get(state)
        if question is not None and question.is_of(call, arguments.digest):
            if question.stage == "open":
                return self._answered(question, call, arguments)
            if question.stage == "input":
                question.stage = "running"
                return Admitted(replace(call.answers, state=question.server_state), question.by)
        call = replace(call, answers=None)  # they belong to a question that is not known, or to another call
        if (passed := self._passed(call)) is not None:
            return passed
        raise self._ask(call, arguments)

    def _passed(self, call: ApprovalRequest) -> Admitted | None:
        """The call as it may be sent unasked; None where it may not."""
        if call.rule is None:
            return Admitted(call.answers)
        if _is_approved_always(call.policy, call.tool):
            return Admitted(call.answers, "always")
        approved = self._sessions.get(call.session, {}).get((call.policy, call.tool.name))
        return Admitted(call.answers, "session") if approved == form_of(call.tool) else None

    # --- questions

    def _ask(self, call: ApprovalRequest, arguments: Arguments, *, whole: bool = False) -> CallError:
        """The error by which the question goes to the client; or the one that says why it cannot.

        With `whole` the arguments are shown at length.
        """
        if not call.can_be_asked:
            return call.not_approved(CANNOT_ASK)
        now = time.monotonic()
        most = MAX_OPEN_SESSIONLESS if call.session is None else MAX_OPEN
        if sum(each.expires > now for each in self._open_of(call.client)) >= most:
            text = f"{most} calls wait for a person to agree to them; nothing was sent, try again later"
            return call.failure(Code.OVERLOADED, text)
        within_s = self._within_s()
        params, can_show_more = form(call.shown(), arguments, self.redact, whole=whole)
        question = self._keep(
            Question(
                client=call.client,
                policy=call.policy,
                tool=call.tool,
                arguments=arguments.digest,
                rule=call.rule,
                state=new_state(),
                expires=now + within_s,
                answers=_small(call.answers),
                can_show_more=can_show_more,
            )
        )
        return ApprovalRequired(call, question, params, within_s)

    def _keep(self, question: Question) -> Question:
        if len(self._kept) >= MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[question.state] = question
        return question

    def _open_of(self, client: Hashable | None) -> list[Question]:
        """The questions to a client, or to all, that are not answered."""
        kept = self._kept.values()
        return [each for each in kept if each.stage == "open" and client in (None, each.client)]

    def _answered(self, question: Question, call: ApprovalRequest, arguments: Arguments) -> Admitted:
        """Take in the answer to a question."""
        late = time.monotonic() > question.expires
        answer = NO_ANSWER if late else read_answer(call.answers.responses)
        call, question.answers = replace(call, answers=question.answers), None
        if answer.decision is None:
            del self._kept[question.state]
            if answer.wants_all and question.can_show_more:
                raise self._ask(replace(call, rule=question.rule), arguments, whole=True)
            passed = None if answer.is_refusal else self._passed(call)
            if passed is None:
                call = replace(call, rule=question.rule)
                raise call.not_approved(answer.reason, is_refusal=answer.is_refusal)
            return passed
        question.stage, question.by = "running", self._remember(call, answer)
        return Admitted(call.answers, question.by)

    def _remember(self, call: ApprovalRequest, answer: Answer) -> Decision:
        """Keep what was agreed to beyond this call, as far as it can be; how far that is."""
        pins = call.policy.pins
        if answer.decision == "always" and call.for_all and pins is not None:
            pins.approve_always(call.tool.own.name)
            self.reconsider()
            return "always"
        if answer.decision == "once" or call.session is None:
            return "once"
        self._sessions.setdefault(call.session, {})[call.policy, call.tool.name] = form_of(call.tool)
        self._withdraw(lambda each: each.client is call.client and each.tool.name == call.tool.name)
        return "session"

    def _withdraw(self, concerns: Callable[[Question], bool]) -> None:
        """End the waits for answers that are not needed any more; their calls come back to `admit`."""
        for question in self._open_of(None):
            if question.withdraw is not None and concerns(question):
                question.withdraw()

    # --- for the paths of the calls

    def continued(self, sent: Answers | None, need: InputRequired) -> InputRequired:
        """Give a client the input that a server wants during a call which it has made with these answers.

        Where that call was approved, the client comes back with a state of ours, so that it is not asked.
        """
        question = None if sent is None or sent.state is None else self._kept.get(sent.state)
        if question is None or question.stage != "running" or isinstance(need, ApprovalRequired):
            return need
        server_state = need.result.get("requestState")
        if len(server_state or "") > MAX_INPUT_BYTES:
            return need
        del self._kept[question.state]
        question.stage, question.state, question.server_state = "input", new_state(), server_state
        self._keep(question)
        need.result = {**need.result, "requestState": question.state}
        return need

    def forget(self, question: Question) -> None:
        """Drop a question whose call was cancelled."""
        self._kept.pop(question.state, None)

    def reconsider(self) -> None:
        """Have open questions withdrawn that rules or approvals have decided meanwhile."""
        self._withdraw(_is_decided)

    def client_left(self, client: Hashable) -> None:
        """Forget what concerns a client that has left."""
        self._sessions.pop(client, None)
        self._kept = {state: each for state, each in self._kept.items() if each.client is not client}


def _small(answers: Any) -> Any:
    """The answers, where they are not too large to be kept."""
    too_large = answers is not None and len(answers.responses) + len(answers.state or "") > MAX_INPUT_BYTES
    return None if too_large else answers


def _is_approved_always(policy: ServerPolicy, tool: ToolInfo) -> bool:
    return policy.pins is not None and policy.pins.always(tool.own.name)


def _is_decided(question: Question) -> bool:
    """Return True if rules or approvals answer the question by now."""
    policy, tool = question.policy, question.tool
    if not policy.admits_tool(tool.own.name) or policy.refusal(tool.own.name) is not None:
        return True
    return policy.asks(tool) is None or _is_approved_always(policy, tool)

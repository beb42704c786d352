"""The person is asked before a call at a transparent endpoint is sent, where rules want that.

A client of 2026-07-28 gets the question as the result of its call, and repeats the call with the answer; one
of an older revision gets it as a request of its server. `mcpx.core.policy.approvals` decides; nothing is sent
before. The members by which a client answers MCPX do not reach the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Final

import msgspec
from mcp_types import CLIENT_CAPABILITIES_META_KEY
from msgspec.structs import replace

from mcpx.core.calls.asking import noted
from mcpx.core.catalog.model import ToolInfo
from mcpx.core.events.audit.entry import Entry
from mcpx.core.gateway.transparent.subjects import Subject
from mcpx.core.policy.approval_form import KEY
from mcpx.core.policy.approvals import Approvals
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.policy.questions import PREFIX, ApprovalRequest, ApprovalRequired
from mcpx.core.protocol.context import (
    ELICITATION,
    NO_CAPABILITIES,
    Capabilities,
    InputAnswers,
    read_capabilities,
)
from mcpx.core.protocol.requests import Passed
from mcpx.core.rendering.result_reading import INPUT_REQUIRED, InputRequired
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.passthrough.client import DirectClient
from mcpx.core.servers.passthrough.messages import (
    NOTHING,
    Members,
    members_of,
    result_answer,
    result_of,
    value_of,
)
from mcpx.core.wire import envelope
from mcpx.errors import CallError, Code

RESPONSES: Final = "inputResponses"
STATE: Final = "requestState"
_PREFIX: Final = PREFIX.encode()
_INPUT_REQUIRED: Final = INPUT_REQUIRED.encode()

Send = Callable[[Passed], None]
"""Sends a request, or raises the `CallError` that it fails with."""
Again = Callable[[InputAnswers], None]
"""Judges a call once more, with the answers of its client; raises as `Asking.admit`."""


class Asking:
    """The questions of one endpoint."""

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    def admit(
        self,
        call: ApprovalRequest,
        request: Passed,
        reply: RawReply,
        *,
        send: Send,
        again: Again,
        modern: bool,
        entry: Entry | None,
    ) -> None:
        """Have a call sent, at once or when the person has agreed, or answered with the question.

        Raises:
            CallError: As from `Approvals.admit`.
        """
        try:
            admitted = noted(self._approvals, call, entry)
        except ApprovalRequired as need:
            if modern:
                reply.resolve(result_answer(envelope.encode(need.result)))
            else:
                self._ask(need, request, reply, again)
            return
        send(replace(request, raw=with_answers(members_of(request.raw), admitted.answers)))

    def _ask(self, need: ApprovalRequired, request: Passed, reply: RawReply, again: Again) -> None:
        """Ask the client; with the answer, or without one in time, the call is judged again."""
        question, is_over = need.question, False

        def answered(answer: msgspec.Raw) -> None:
            nonlocal is_over
            if is_over:
                return
            is_over, question.withdraw, reply.on_abandon = True, None, None
            timer.cancel()
            responses = envelope.encode({KEY: answer_in(answer)}) if answer else b"{}"
            try:
                again(InputAnswers(responses, question.state))
            except Exception as error:  # noqa: BLE001 - the boundary: it is the answer to the call
                reply.reject(error)

        def withdraw() -> None:
            cancel(msgspec.Raw(b'{"reason":"no answer is needed any more"}'))
            answered(NOTHING)

        def abandoned() -> bool:
            nonlocal is_over
            is_over, question.withdraw = True, None
            timer.cancel()
            self._approvals.forget(question)
            cancel(msgspec.Raw(b'{"reason":"the call was cancelled"}'))
            return False

        timer = asyncio.get_running_loop().call_later(need.within_s, withdraw)
        question.withdraw, reply.on_abandon = withdraw, abandoned
        params = msgspec.Raw(envelope.encode(need.params))
        cancel = request.origin.ask(ELICITATION, params, answered)

    def continued(self, request: Passed, answer: msgspec.Raw) -> msgspec.Raw:
        """The answer to a call; where it wants input, its client comes back with it unasked."""
        result = result_of(answer) if _PREFIX in bytes(request.raw) else None
        if result is None or _INPUT_REQUIRED not in bytes(result):
            return answer
        members = members_of(result)
        if value_of(members.get("resultType")) != INPUT_REQUIRED:
            return answer
        given = {STATE: value_of(members[STATE])} if STATE in members else {}
        sent = answers_in(members_of(request.raw))
        need = self._approvals.continued(sent, InputRequired(given, ""))
        if STATE not in need.result or need.result[STATE] == given.get(STATE):
            return answer
        state = msgspec.Raw(envelope.encode(need.result[STATE]))
        return result_answer(envelope.encode(members | {STATE: state}))

    def client_left(self, client: DirectClient) -> None:
        """Forget what concerns a client that has left."""
        self._approvals.client_left(client)


def approval_request(
    request: Passed,
    subject: Subject,
    forms: Sequence[ToolInfo],
    policy: ServerPolicy,
    *,
    client: Hashable,
    session: DirectClient | None,
    for_all: bool,
    asks_likewise: bool,
    answers: InputAnswers | None,
) -> ApprovalRequest | None:
    """The call as `Approvals` judges it; None for one that nobody need be asked about.

    `forms` are those in which the tool was listed: any of them may have to be asked about. Without `answers`
    the client has brought those of its request.

    Raises:
        CallError: `invalid_arguments`: they are no object, so that nobody can be shown them.
    """
    rules = [(policy.asks(tool), tool) for tool in forms]
    rule, tool = next((each for each in rules if each[0] is not None), (None, forms[0]))
    answers = answers or answers_in(subject.members)
    if rule is None and (answers is None or not (answers.state or "").startswith(PREFIX)):
        return None
    arguments = bytes(subject.members.get("arguments", b"{}"))
    if arguments == b"null":
        arguments = b"{}"
    if not arguments.startswith(b"{"):
        text = "The arguments must be an object; nothing was sent"
        raise CallError(Code.INVALID_ARGUMENTS, text, server=tool.server_name, tool=tool.name)
    return ApprovalRequest(
        client=client,
        session=session,
        can_be_asked=declared_by(request, session).refusal(ELICITATION, {}) is None,
        for_all=for_all,
        policy=policy,
        tool=tool,
        arguments=arguments,
        given=request.raw,
        rule=rule,
        answers=answers,
        asks_likewise=asks_likewise,
    )


def declared_by(request: Passed, session: DirectClient | None) -> Capabilities:
    """What the client has declared, in its request or its handshake."""
    meta = members_of(members_of(request.raw).get("_meta", NOTHING))
    declared = meta.get(CLIENT_CAPABILITIES_META_KEY)
    if declared is None and session is not None:
        declared = msgspec.Raw(session.capabilities)
    return NO_CAPABILITIES if declared is None else read_capabilities(bytes(declared))


def answers_in(members: Members) -> InputAnswers | None:
    """What a client has added to a call that it repeats; None where it is no repetition."""
    if RESPONSES not in members and STATE not in members:
        return None
    state = value_of(members.get(STATE))
    return InputAnswers(members.get(RESPONSES, b""), state if isinstance(state, str) else None)


def with_answers(members: Members, answers: InputAnswers | None) -> bytes:
    """The params with these answers, and no others."""
    kept = {name: value for name, value in members.items() if name not in {RESPONSES, STATE}}
    if answers is not None and answers.responses:
        kept[RESPONSES] = msgspec.Raw(bytes(answers.responses))
    if answers is not None and answers.state is not None:
        kept[STATE] = msgspec.Raw(envelope.encode(answers.state))
    return envelope.encode(kept)


def answer_in(answer: msgspec.Raw) -> object:
    """The client's answer to a question; an error is a `cancel` with its text."""
    result = result_of(answer)
    if result is not None:
        return value_of(result)
    error = value_of(members_of(b"{" + bytes(answer) + b"}").get("error"))
    message = error.get("message") if isinstance(error, dict) else None
    return {"action": "cancel", "error": str(message)}

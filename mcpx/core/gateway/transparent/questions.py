"""Questions to the person before a request at a transparent endpoint is sent: sign in, and agree to a call.

What is asked is decided elsewhere, for all ways in alike: `mcpx.core.policy.approvals` judges calls, and
`mcpx.core.calls.sign_in_links` obtains sign-ins. Here a client is asked, and its answers are read:

1. A client of 2026-07-28 gets the question as the result of its request, and repeats the request with its
   answer. That is a new request, which is judged from the start; nothing of the first is kept but the
   question.
2. A client of an older revision is asked by a request of its server. The request that the question is about
   waits meanwhile: its reply is open, and what it says when it is abandoned ends the task that waits for the
   answer. With the answer the request is judged again.
3. A client that has not shaken hands yet cannot be asked: its `initialize` fails with the command.

A sign-in is tried first: a request goes out with an inner reply, and only where this one fails with
`SignInNeeded` the person is asked, and the request sent for the first time. The members by which a client
answers MCPX do not reach the server. The server may itself want input in its result: then the client comes
back with the server's state, or, where the call was approved, with one of ours that stands for it, so that
the person is not asked about the same call again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import anyio
import msgspec
from msgspec.structs import replace

from mcpx.core.calls.asking import noted, obtain_approval
from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.daemon.hub import Hub
from mcpx.core.events.records import Record
from mcpx.core.gateway.transparent.requests import Subject, as_call_error
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.policy.questions import PREFIX, ApprovalRequest, ApprovalRequired
from mcpx.core.protocol.context import ELICITATION, Caller, InputAnswers, OnStep, read_capabilities
from mcpx.core.protocol.requests import Passed
from mcpx.core.rendering.result_reading import INPUT_REQUIRED, InputRequired
from mcpx.core.servers.call_errors import LINK_KEY, SignInNeeded, without_link
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
from mcpx.core.wire.envelope import CLIENT_CAPABILITIES_META_KEY
from mcpx.errors import CallError, Code, Outcome

SIGN_IN_METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods whose requests may be answered with a question (2026-07-28), or ask one before their answer."""
RESPONSES: Final = "inputResponses"
STATE: Final = "requestState"
_PREFIX: Final = PREFIX.encode()
_INPUT_REQUIRED: Final = INPUT_REQUIRED.encode()
_LINK: Final = LINK_KEY.rpartition("/")[2].encode()
_CANCELLED: Final = msgspec.Raw(b'{"reason":"no answer is needed any more"}')

Send = Callable[[Passed], None]
"""Sends a request, or raises the `CallError` that it fails with."""
SendWith = Callable[[Passed, RawReply], None]
"""Sends or queues a request with that reply; never raises."""
Again = Callable[[InputAnswers], None]
"""Judges a call once more, with the answers of its client; raises as `Questions.admit`."""


class Asker(msgspec.Struct, frozen=True):
    """The sender of a request. `client` stands for who it is: without a `session`, for all that have none."""

    request: Passed
    session: DirectClient | None
    client: DirectClient
    modern: bool

    def caller(self) -> Caller:
        """The client behind the request, which can be asked: read only where a person has to be."""
        raw, session = self.request.raw, self.session
        meta = members_of(members_of(raw).get("_meta", NOTHING))
        known = b"" if session is None else session.capabilities
        return Caller(
            client=self.client,
            capabilities=read_capabilities(bytes(meta.get(CLIENT_CAPABILITIES_META_KEY, known))),
            modern=self.modern,
            is_local=self.request.origin.is_local,
            ask=self._ask,
        )

    async def _ask(self, method: str, params: JSON, _on_progress: OnStep | None) -> JSON:
        """Send the client a request and wait for the result; an error of it is a `cancel`."""
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def take(answer: msgspec.Raw) -> None:
            if not answered.done():
                answered.set_result(_answer_in(answer))

        cancel = self.request.origin.ask(method, msgspec.Raw(envelope.encode(params)), take)
        try:
            answer = await answered
        except asyncio.CancelledError:
            cancel(_CANCELLED)
            raise
        return answer if isinstance(answer, dict) else {}


class Questions:
    """The questions at the endpoint of one server."""

    def __init__(self, hub: Hub, server: str) -> None:
        self._hub = hub
        self._server = server

    # --- signing in

    def may_sign_in(self, request: Passed) -> bool:
        """Return True if a request may have to wait for a sign-in."""
        upstream = self._hub.upstreams.get(self._server)
        return upstream is not None and upstream.account is not None and request.method in SIGN_IN_METHODS

    def submit(self, request: Passed, reply: RawReply, *, send: SendWith, asker: Asker) -> None:
        """Send a request, and again when the person behind `asker` has signed in, where that is needed."""

        def settled(inner: RawReply) -> None:
            need = inner.error
            if need is None:
                reply.resolve(inner.value or msgspec.Raw())
            elif not isinstance(need, SignInNeeded) or not self._hub.links.spawn(
                partial(self._sign_in, need, request, reply, asker, send)
            ):
                reply.reject(need)

        inner = RawReply(settled)
        reply.on_abandon = partial(_abandon, inner)
        send(_without_link(request), inner)

    async def _sign_in(
        self, need: SignInNeeded, request: Passed, reply: RawReply, asker: Asker, send: SendWith
    ) -> None:
        """Ask the person, and send the request when they have signed in."""
        with anyio.CancelScope() as scope:
            reply.on_abandon = scope.cancel
            try:
                upstream = self._hub.registry.upstream(self._server)
                answers = _answers_in(members_of(request.raw))
                asked = await self._hub.links.obtain(
                    need, upstream, asker.caller(), client=asker.client, answers=answers
                )
            except Exception as error:  # noqa: BLE001 - the boundary: it is the answer to the request
                reply.reject(as_call_error(error, self._server, request.method, Outcome.NOT_SENT))
                return
        if reply.settled:
            return
        reply.on_abandon = None
        if asked is not None:
            reply.resolve(result_answer(envelope.encode(asked)))
        else:
            send(_without_link(request), reply)

    # --- agreeing to a call

    def admit(
        self,
        call: ApprovalRequest,
        request: Passed,
        reply: RawReply,
        *,
        send: Send,
        again: Again,
        asker: Asker,
        record: Record | None,
    ) -> None:
        """Have a call sent, at once or when the person has agreed, or answered with the question.

        Raises:
            CallError: As from `Approvals.admit`.
        """
        try:
            admitted = noted(self._hub.approvals, call, record)
        except ApprovalRequired as need:
            if asker.modern:
                reply.resolve(result_answer(envelope.encode(need.result)))
            elif not self._hub.links.spawn(partial(self._ask, need, reply, asker, again)):
                self._hub.approvals.forget(need.question)
                raise
            return
        send(replace(request, raw=_with_answers(members_of(request.raw), admitted.answers)))

    async def _ask(self, need: ApprovalRequired, reply: RawReply, asker: Asker, again: Again) -> None:
        """Ask the client; with the answer, or without one in time, the call is judged again."""
        if reply.settled:
            self._hub.approvals.forget(need.question)
            return
        try:
            with anyio.CancelScope() as scope:
                reply.on_abandon = scope.cancel
                answers = await obtain_approval(self._hub.approvals, need, asker.caller())
            if not reply.settled:
                reply.on_abandon = None
                again(answers)
        except Exception as error:  # noqa: BLE001 - the boundary: it is the answer to the call
            reply.reject(error)

    def continued(self, request: Passed, answer: msgspec.Raw) -> msgspec.Raw:
        """Return the answer to a call; where it wants input, its client comes back with it unasked."""
        result = result_of(answer) if _PREFIX in bytes(request.raw) else None
        if result is None or _INPUT_REQUIRED not in bytes(result):
            return answer
        members = members_of(result)
        if value_of(members.get("resultType")) != INPUT_REQUIRED:
            return answer
        given = {STATE: value_of(members[STATE])} if STATE in members else {}
        sent = _answers_in(members_of(request.raw))
        need = self._hub.approvals.continued(sent, InputRequired(given, ""))
        if STATE not in need.result or need.result[STATE] == given.get(STATE):
            return answer
        state = msgspec.Raw(envelope.encode(need.result[STATE]))
        return result_answer(envelope.encode(members | {STATE: state}))

    def client_left(self, client: DirectClient) -> None:
        """Forget what concerns a client that has left."""
        self._hub.approvals.client_left(client)


def approval_request(
    request: Passed,
    subject: Subject,
    forms: list[ToolInfo],
    policy: ServerPolicy,
    asker: Asker,
    *,
    for_all: bool,
    asks_likewise: bool,
    answers: InputAnswers | None,
) -> ApprovalRequest | None:
    """Return the call as `Approvals` judges it; None for one that nobody need be asked about.

    `forms` are those in which the tool was listed: any of them may have to be asked about. Without `answers`
    the client has brought those of its request.

    Raises:
        CallError: `invalid_arguments`: they are no object, so that nobody can be shown them.
    """
    rules = [(policy.asks(tool), tool) for tool in forms]
    rule, tool = next((each for each in rules if each[0] is not None), (None, forms[0]))
    answers = answers or _answers_in(subject.members)
    if rule is None and (answers is None or not (answers.state or "").startswith(PREFIX)):
        return None
    arguments = bytes(subject.members.get("arguments", b"{}"))
    if arguments == b"null":
        arguments = b"{}"
    if not arguments.startswith(b"{"):
        text = "The arguments must be an object; nothing was sent"
        raise CallError(Code.INVALID_ARGUMENTS, text, server=tool.server_name, tool=tool.name)
    return ApprovalRequest(
        client=asker.client,
        session=asker.session,
        can_be_asked=asker.caller().capabilities.refusal(ELICITATION, {}) is None,
        for_all=for_all,
        policy=policy,
        tool=tool,
        arguments=arguments,
        given=request.raw,
        rule=rule,
        answers=answers,
        asks_likewise=asks_likewise,
    )


# --- what a client has added to a request that it repeats


def _answers_in(members: Members) -> InputAnswers | None:
    """Return its answers; None where it is no repetition."""
    if RESPONSES not in members and STATE not in members:
        return None
    state = value_of(members.get(STATE))
    return InputAnswers(members.get(RESPONSES, b""), state if isinstance(state, str) else None)


def _with_answers(members: Members, answers: InputAnswers | None) -> bytes:
    """Return the params with these answers, and no others."""
    kept = {name: value for name, value in members.items() if name not in {RESPONSES, STATE}}
    if answers is not None and answers.responses:
        kept[RESPONSES] = msgspec.Raw(bytes(answers.responses))
    if answers is not None and answers.state is not None:
        kept[STATE] = msgspec.Raw(envelope.encode(answers.state))
    return envelope.encode(kept)


def _without_link(request: Passed) -> Passed:
    """Return a request without the answer to a link, which is not for its server."""
    if request.method not in SIGN_IN_METHODS or _LINK not in bytes(request.raw):
        return request
    members = members_of(request.raw)
    answers = _answers_in(members)
    rest = without_link(answers)
    return request if rest is answers else replace(request, raw=_with_answers(members, rest))


def _answer_in(answer: msgspec.Raw) -> object:
    """Return the client's answer to a question; an error is a `cancel` with its text."""
    result = result_of(answer)
    if result is not None:
        return value_of(result)
    error = value_of(members_of(b"{" + bytes(answer) + b"}").get("error"))
    message = error.get("message") if isinstance(error, dict) else None
    return {"action": "cancel", "error": str(message)}


def _abandon(inner: RawReply) -> bool:
    """Withdraw a request whose client has gone; true if it may have been begun."""
    inner.abandon()
    return bool(getattr(inner.error, "begun", False))

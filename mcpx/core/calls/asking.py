"""Questions before a call goes on: a person's approval, input that its server requires, a sign-in.

A call that a rule asks about passes `admitted` on its way down the pipeline, or ends there with
`ApprovalRequired`. A server of 2026-07-28 may ask for input in the place of a result (`InputRequired`), and a
call of an account that nobody is signed in to ends with `SignInNeeded`. All three come to `Rounds`. A client
of 2026-07-28 gets the questions as the result of its own request, if it declared that it can be asked such
things, and repeats the request with the answers. A client of an older revision is asked by requests to it,
and the request is sent again with its answers, until there is a result.

Each request of a client that is refused or asked about ends with a CallError, so every way to call a tool is
covered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

import anyio
import msgspec
from msgspec.structs import replace

from mcpx.core.calls.recording import note_question
from mcpx.core.calls.results.large import Apart
from mcpx.core.calls.sign_in_links import SignInLinks
from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.events.records import Approval, Record, Records
from mcpx.core.policy.approval_form import KEY
from mcpx.core.policy.approvals import Admitted, Approvals
from mcpx.core.policy.questions import ApprovalRequest, ApprovalRequired, NotApproved, form_of
from mcpx.core.policy.server_questions import presented_requests
from mcpx.core.protocol.context import ELICITATION, QUESTIONS, Caller, InputAnswers
from mcpx.core.protocol.messages import Request
from mcpx.core.protocol.requests import CallTool
from mcpx.core.rendering.result_reading import InputRequired
from mcpx.core.servers.call_errors import SignInNeeded, without_link
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.relay.session_relay import MAX_OPEN_REQUESTS
from mcpx.core.servers.relay.suspended import to_handshake
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.text import kind_of
from mcpx.core.wire.envelope import MCPError
from mcpx.errors import CallError, Code

R = TypeVar("R")
Render = Callable[[msgspec.Raw], R | Apart[R]]
"""Makes something of a result; a large one apart."""

MAX_INPUT_ROUNDS: Final = 10  # as in the SDKs
MAX_METHOD_SHOWN: Final = 64  # characters of a method that does not exist
RETRY_DELAYS_S: Final = (0.05, 0.1, 0.25)  # where the server only wants to be asked again, by round


# --- approval


def admitted(
    approvals: Approvals,
    upstream: VisibleServer,
    tool: ToolInfo,
    call: CallTool,
    *,
    rule: str | None,
    given: bytes | msgspec.Raw,
    reply: RawReply,
) -> CallTool:
    """The call as it may be sent now; `rule` is the one by which a person is asked, if any.

    `given` is what the client sent, as in `Exec`.

    The audit log learns from the reply's record what became of that.

    Raises:
        CallError: As from `Approvals.admit`.
    """
    context = call.context
    caller = context.caller
    client = context.client or (caller and caller.client)
    asked = ApprovalRequest(
        client=client,
        session=None if context.client is not None and context.client.sessionless else client,
        can_be_asked=caller is not None and caller.capabilities.refusal(ELICITATION, {}) is None,
        for_all=context.client is None or not context.client.principal,
        policy=upstream.policy,
        tool=tool,
        arguments=call.arguments,
        given=given,
        rule=rule,
        answers=context.answers,
        asks_likewise=upstream.config.is_remote_mcpx,
    )
    record = reply.observer
    found = noted(approvals, asked, record if isinstance(record, Record) else None)
    if found.answers is not context.answers:
        context = replace(context, answers=found.answers)
    return replace(call, context=context, approved=form_of(tool) if rule is not None else None)


def noted(approvals: Approvals, call: ApprovalRequest, record: Record | None) -> Admitted:
    """Judge a call by `Approvals`, and note that in the call's record.

    Raises:
        CallError: As from `Approvals.admit`.
    """
    try:
        found = approvals.admit(call)
    except ApprovalRequired:
        _note(record, call.rule, "asked")
        raise
    except NotApproved as error:
        _note(record, call.rule, "refused" if error.is_refusal else None)
        raise
    _note(record, call.rule, found.by)
    return found


def _note(record: Record | None, rule: str | None, approval: Approval | None) -> None:
    if record is not None and rule is not None:
        record.rule, record.approval = rule, approval


class Withdrawable(Protocol):
    """A question that another answer may decide meanwhile."""

    withdraw: Callable[[], None] | None
    """Ends the wait for the answer, where there is one. Must not raise."""


async def put_question(caller: Caller, params: JSON, question: Withdrawable, within_s: float) -> bytes:
    """Ask the client's person by a request; the responses, as those that a repeated request brings."""
    answer: JSON | None = None
    try:
        with anyio.move_on_after(within_s) as scope:
            question.withdraw = scope.cancel
            try:
                answer = await caller.ask(ELICITATION, params, None)
            except MCPError as error:
                answer = {"action": "cancel", "error": error.message}
    finally:
        question.withdraw = None
    return msgspec.json.encode({} if answer is None else {KEY: answer})


async def obtain_approval(approvals: Approvals, need: ApprovalRequired, caller: Caller) -> InputAnswers:
    """Ask the client's person. What comes of it, if only that nobody has answered, `Approvals` judges."""
    question = need.question
    try:
        responses = await put_question(caller, need.params, question, need.within_s)
    except BaseException:
        approvals.forget(question)
        raise
    return InputAnswers(responses, question.state)


# --- input


def input_requests(need: InputRequired, caller: Caller, *, from_mcpx: bool) -> dict[str, JSON]:
    """The input requests by their keys, as the person is shown them, if the client can be asked them.

    `from_mcpx` as in `presented`.

    Raises:
        CallError: One of them is not of the protocol, or not for a person; or the client did not declare it.
    """
    requests = need.result.get("inputRequests") or {}
    if isinstance(requests, dict) and len(requests) > MAX_OPEN_REQUESTS:
        count = f"{len(requests)} questions in one result"
        text = f"{need.server} asks {count}; {MAX_OPEN_REQUESTS} are passed on at most"
        raise CallError(Code.PROTOCOL_ERROR, text, server=need.server)
    for each in requests.values() if isinstance(requests, dict) else [{}]:
        method = each.get("method") if isinstance(each, dict) else None
        if not isinstance(each, dict) or not isinstance(method, str) or method not in QUESTIONS:
            text = f"{need.server} does not keep to the protocol: it asks for {_shown(method)} in a result"
            raise CallError(Code.PROTOCOL_ERROR, text, server=need.server)
        params = each.get("params") or {}
        if not isinstance(params, dict):
            text = f"{need.server} does not keep to the protocol: the parameters of {method} are no object"
            raise CallError(Code.PROTOCOL_ERROR, text, server=need.server)
        if refusal := caller.capabilities.refusal(method, params):
            raise refused(need.server, refusal)
    if not isinstance(requests, dict) or isinstance(need, ApprovalRequired):
        return requests or {}
    server = None if caller.is_peer else need.server
    try:
        shown: dict[str, JSON] = presented_requests(requests, server, from_mcpx=from_mcpx)
    except MCPError as refusal:
        raise refused(need.server, refusal) from None
    return shown


def _shown(method: Any) -> str:
    return repr(method[:MAX_METHOD_SHOWN]) if isinstance(method, str) else kind_of(method)


async def obtain_input(
    need: InputRequired, requests: dict[str, JSON], caller: Caller, *, timeout_s: float, round_number: int
) -> InputAnswers:
    """Ask the client everything at once, and wait for its answers.

    Raises:
        CallError: The client cannot be asked, refuses, or takes longer than `timeout_s`.
    """
    state = need.result.get("requestState")
    if not requests:
        await anyio.sleep(RETRY_DELAYS_S[min(round_number, len(RETRY_DELAYS_S) - 1)])
        return InputAnswers(state=state)
    responses: JSON = {}
    refusal: MCPError | None = None

    async def ask(key: str, request: JSON) -> None:
        nonlocal refusal
        try:
            method = request["method"]
            params = to_handshake(method, request.get("params") or {})
            responses[key] = await caller.ask(method, params, None)
        except MCPError as error:
            refusal = error
            tasks.cancel_scope.cancel()

    with anyio.move_on_after(timeout_s) as scope:
        async with anyio.create_task_group() as tasks:
            for key, request in requests.items():
                tasks.start_soon(ask, key, request)
    if scope.cancelled_caught:
        text = f"The client did not answer what {need.server} asked within {timeout_s:g} s"
        raise CallError(Code.TIMEOUT, text, server=need.server)
    if refusal is not None:
        raise refused(need.server, refusal)
    return InputAnswers(msgspec.json.encode(responses), state)


def refused(server: str, error: MCPError) -> CallError:
    """The failure of a call, or of a task, whose server is not given the input that it wants."""
    text = f"{server} wants input before it goes on, and did not get it: {error.message}"
    answer: dict[str, Any] = {"code": error.code, "message": error.message}
    return CallError(Code.UPSTREAM_ERROR, text, server=server, details={"client": answer})


# --- rounds: a request is repeated with what the client has answered, until there is a result


async def rendered(render: Render[R], raw: msgspec.Raw) -> R:
    """Make of a result what `render` does."""
    made = render(raw)
    return await made if isinstance(made, Apart) else made


class Rounds:
    """Obtains what a request lacks. `result_of` sends it again, and gives the raw result."""

    def __init__(
        self,
        servers: Mapping[str, VisibleServer],
        approvals: Approvals,
        records: Records,
        links: SignInLinks,
        result_of: Callable[[Request], Awaitable[msgspec.Raw]],
    ) -> None:
        self._servers = servers
        self._approvals = approvals
        self._records = records
        self._links = links
        self._result_of = result_of

    async def provide_input(self, request: Request, need: InputRequired, render: Render[R]) -> R | JSON:
        """Obtain the input that the server asks for, or a person's approval, and send the request again.

        A client of 2026-07-28 gets the input requests as its result. An older one is asked, and the request
        repeated with its answers until there is a result; that is rendered.

        Raises:
            CallError: The client cannot be asked, refuses, or takes longer than `call_timeout` for a round;
                the server never stops asking; or the repeated request failed.
        """
        caller, upstream = request.context.caller, self._servers.get(request.server_name)
        if caller is None or upstream is None:
            raise need
        answers = request.context.answers
        if isinstance(need, SignInNeeded):
            return await self._when_signed_in(request, need, render)
        need = self._approvals.continued(answers, need)
        from_mcpx = upstream.config.is_remote_mcpx
        if caller.modern:
            requests = input_requests(need, caller, from_mcpx=from_mcpx)
            return dict(need.result) | ({"inputRequests": requests} if requests else {})
        for round_number in range(MAX_INPUT_ROUNDS + isinstance(need, ApprovalRequired)):
            if isinstance(need, ApprovalRequired):
                answers = await obtain_approval(self._approvals, need, caller)
            else:
                timeout = upstream.config.call_limits.call_timeout
                requests = input_requests(need, caller, from_mcpx=from_mcpx)
                answers = await obtain_input(
                    need, requests, caller, timeout_s=timeout, round_number=round_number
                )
            repeated = replace(request, context=replace(request.context, answers=answers))
            try:
                return await rendered(render, await self._result_of(repeated))
            except SignInNeeded as again:
                return await self._when_signed_in(repeated, again, render)
            except InputRequired as again:
                need = self._approvals.continued(answers, again)
        rounds = f"{need.server} asked for input {MAX_INPUT_ROUNDS} times"
        text = f"{rounds} without a result; it may have taken effect"
        raise CallError(Code.UPSTREAM_ERROR, text, server=need.server)

    async def _when_signed_in(self, request: Request, need: SignInNeeded, render: Render[R]) -> R | JSON:
        """Retry after sign-in, or return the sign-in link.

        Raises:
            CallError: They have not signed in, or the call that was sent then failed.
        """
        context, upstream = request.context, self._servers[request.server_name]
        asked = await self._links.obtain(
            need, upstream, context.caller, client=context.client, answers=context.answers
        )
        note_question(self._records, request, is_answered=asked is None)
        if asked is not None:
            return asked
        request = replace(request, context=replace(context, answers=without_link(context.answers)))
        try:
            return await rendered(render, await self._result_of(request))
        except SignInNeeded:
            raise  # once is enough
        except InputRequired as again:
            return await self.provide_input(request, again, render)

"""Calls that a person has to agree to: what `mcpx.core.policy.approvals` decides about the calls of clients.

The router has each such call admitted before it is sent, and `mcpx.core.calls.calls` asks the person. Each
request of a client that is refused or asked about ends with a CallError, so every way to call a tool is
covered.
"""

from __future__ import annotations

import anyio
import msgspec
from mcp import MCPError
from msgspec.structs import replace

from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.events.audit.entry import Approval, Entry
from mcpx.core.policy.approval_form import KEY
from mcpx.core.policy.approvals import Admitted, Approvals
from mcpx.core.policy.questions import ApprovalRequest, ApprovalRequired, NotApproved, form_of
from mcpx.core.protocol.context import ELICITATION, CallerHandle, InputAnswers
from mcpx.core.protocol.requests import CallTool
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.visible_server import VisibleServer


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

    The audit log learns from the reply's entry what became of that.

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
    entry = reply.observer
    found = noted(approvals, asked, entry if isinstance(entry, Entry) else None)
    if found.answers is not context.answers:
        context = replace(context, answers=found.answers)
    return replace(call, context=context, approved=form_of(tool) if rule is not None else None)


def noted(approvals: Approvals, call: ApprovalRequest, entry: Entry | None) -> Admitted:
    """What `Approvals` says of a call, written into the call's entry.

    Raises:
        CallError: As from `Approvals.admit`.
    """
    try:
        found = approvals.admit(call)
    except ApprovalRequired:
        _note(entry, call.rule, "asked")
        raise
    except NotApproved as error:
        _note(entry, call.rule, "refused" if error.is_refusal else None)
        raise
    _note(entry, call.rule, found.by)
    return found


def _note(entry: Entry | None, rule: str | None, approval: Approval | None) -> None:
    if entry is not None and rule is not None:
        entry.rule, entry.approval = rule, approval


async def obtain_approval(approvals: Approvals, need: ApprovalRequired, caller: CallerHandle) -> InputAnswers:
    """Ask the client's person. What comes of it, if only that nobody has answered, `Approvals` judges."""
    answer: JSON | None = None
    question = need.question
    try:
        with anyio.move_on_after(need.within_s) as scope:
            question.withdraw = scope.cancel
            try:
                answer = await caller.ask(ELICITATION, need.params, None)
            except MCPError as error:
                answer = {"action": "cancel", "error": error.message}
    except BaseException:
        approvals.forget(question)
        raise
    finally:
        question.withdraw = None
    responses = {} if answer is None else {KEY: answer}
    return InputAnswers(msgspec.json.encode(responses), question.state)

"""The pipeline: the one road of every request to a server, to be read from the top of this file to its end.

Whatever way a request comes in by, a decoder makes one value of it (`Exec`, `Read` or `Forward`, with who
asks in its context), and hands it to `send` with the reply that an encoder waits for. Its steps:

    trace    begin its spans, where calls are traced
    record   begin its record, which the audit log has on disk before anything is sent
    resolve  find the server and the tool or resource, among the servers of this view
    permit   refuse what the rules refuse
    check    hold the arguments against the tool's schema; large ones in a worker, then go on at `resolve`
    ask      have a person agree, where a rule wants that (`mcpx.core.calls.asking`)
    queue    hand it to the server, which chooses the session and sends it in its turn (`mcpx.core.servers`)
    settle   what comes back settles the reply: the encoder answers, then record and spans end

No step waits, so a slow server delays nobody else; the answer goes straight to whoever asked. What a step
raises is the answer to that request, which then was not sent. Nothing is kept from one request to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from mcpx.core.calls.asking import admitted
from mcpx.core.calls.names import find_server, list_servers, not_listed, resolve_uri, rule_against
from mcpx.core.calls.recording import Target, target_of
from mcpx.core.catalog.model import JSON, ToolChange, ToolInfo, is_read_only
from mcpx.core.events.records import UNSAID, Record, Records
from mcpx.core.policy.approvals import Approvals
from mcpx.core.policy.changed_calls import cleaned, hidden_in, lacks_project
from mcpx.core.protocol.call_trace import CallTrace, end_with
from mcpx.core.protocol.messages import Exec, Forward, Read, Request, as_call_error, method_of
from mcpx.core.protocol.requests import CallTool, ReadResource, RequestContext, TaskRequest
from mcpx.core.rendering.suggest import unknown_tool
from mcpx.core.servers.admission import is_safe, not_read_only
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.telemetry.tracing import Tracing, served_request
from mcpx.core.text import shown_name, shown_server
from mcpx.core.validation.arguments import ArgumentChecker, Encoded, read_raw_arguments
from mcpx.core.validation.errors import Problem, invalid_arguments
from mcpx.errors import CallError, Code, Outcome

FOR_APPS: Final = "visibility: app"
"""The rule by which a model cannot call a tool that its server has for the page of an app alone."""

NO_PROJECT: Final = "the configuration gives it the client's project, and this client is in none"


class Pipeline:
    """Takes requests to the servers of one view: to no other, for it knows no other."""

    def __init__(
        self,
        servers: Mapping[str, VisibleServer],
        checker: ArgumentChecker,
        approvals: Approvals,
        records: Records,
        tracing: Tracing,
    ) -> None:
        self._servers = servers
        self._checker = checker
        self._approvals = approvals
        self._records = records
        self._tracing = tracing if tracing.on else None

    def send(self, request: Request, reply: RawReply, tool: ToolInfo | None = None) -> None:
        """Take a request to its server; the reply gets the raw result, or a CallError. Never raises.

        `tool` is the one that is called, where the sender has found it in this turn.
        """
        try:
            if self._tracing is not None:
                request = self._trace(self._tracing, request, reply)
            record = self._record(request, reply)
            if isinstance(request, Exec):
                self._exec(request, reply, tool, record)
            else:
                self._pass_on(request, reply)
        except Exception as error:  # noqa: BLE001 - the boundary: one request must not cost the others theirs
            _refuse(request, reply, error)

    # --- trace, record

    def _trace(self, tracing: Tracing, request: Request, reply: RawReply) -> Request:
        """Begin the spans of a request, from here to its reply."""
        server = self._servers.get(request.server_name)
        method, target = method_of(request)
        trace = CallTrace(
            tracing,
            served_request(),
            method=method,
            target=target,
            server=request.server_name,
            transport=None if server is None else server.config.transport,
        )
        end_with(trace, reply)
        return replace(request, context=replace(request.context, trace=trace))

    def _record(self, request: Request, reply: RawReply) -> Record | None:
        """Begin the record of a request, and have its reply end it.

        Raises:
            CallError: `overloaded`: it has to be in the audit log, and cannot.
        """
        context = request.context
        target: Target | None
        if isinstance(request, Exec):
            target = "tool", request.tool_name, request.arguments
        else:
            target = target_of(request)
        if target is None:  # a client asks for a task again and again
            return None
        kind, name, arguments = target
        if context.answers is not None:
            self._records.goes_on(kind, request.server_name, name, context.origin)
        record = self._records.begin(
            kind,
            request.server_name,
            name,
            arguments,
            context.origin,
            request=request,
            trace_id=None if context.trace is None else context.trace.trace_id,
        )
        if reply.observer is None:
            reply.observer = record
        else:
            reply.observe(record)
        return record

    # --- reads, prompts, completions and tasks: resolve, permit, queue

    def _pass_on(self, request: Read | Forward, reply: RawReply) -> None:
        """Send what has no arguments that a schema knows.

        Raises:
            CallError: It was not sent.
        """
        server = find_server(self._servers, request.server_name)
        context = _narrowed(request.context, server)
        if isinstance(request, Read):
            uri = resolve_uri(server, request.uri)
            read = ReadResource(uri=uri, method=request.method, cursor=request.cursor, context=context)
            server.submit(read, reply)
            return
        forwarded = replace(request.request, context=context)
        if (refused := server.refusal_of(forwarded)) is not None:
            raise refused
        known = server.catalogue if isinstance(forwarded, TaskRequest) else None
        for each in () if known is None else known.every_tool().values():  # whose task it is is not known
            if each.change is not None:
                reply, _ = cleaned(each.change, reply, context.project)
        server.submit(forwarded, reply)

    # --- calls: resolve, permit, check, ask, queue

    def _exec(self, request: Exec, reply: RawReply, tool: ToolInfo | None, record: Record | None) -> None:
        """Send a call, or have its arguments checked first.

        Raises:
            CallError: It was not sent. What is found only later goes into the reply.
        """
        server = self._servers.get(request.server_name)
        if server is None:
            server = find_server(self._servers, request.server_name)
        tool = self._tool(server, request, tool)
        checked, raw = read_raw_arguments(request.arguments, tool)
        if record is not None and record.said is UNSAID and checked is not None:
            record.names = tuple(checked)
        context = request.context if server.narrowing is None else _narrowed(request.context, server)
        call = CallTool(
            tool.name,
            raw,
            safe=bool(tool.annotations) and is_safe(tool),
            read_only=request.read_only,
            record=record,
            context=context,
        )
        if checked is None or not self._checker.accepts(tool, checked, len(raw)):
            self._check_apart(request, tool, checked, call, reply)
        else:
            self._ask_and_queue(server, tool, request, call, reply)

    def _tool(self, server: VisibleServer, request: Exec, tool: ToolInfo | None = None) -> ToolInfo:
        """Return the tool of a call, which may run.

        Raises:
            CallError: There is none, or it may not run as it is.
        """
        policy, name = server.policy, request.tool_name
        if tool is None:
            catalogue = server.catalogue
            tool = catalogue.tool(name) if catalogue else None
            if tool is None or not (request.for_app or tool.is_for_model):
                raise self._no_tool(server, name)
        if policy.refused and tool.own.name in policy.refused:
            refused = policy.refusal(tool.own.name)
            if refused is not None:
                raise refused
        if request.read_only and not is_read_only(tool):
            raise not_read_only(tool)
        return tool

    def _no_tool(self, server: VisibleServer, tool_name: str) -> CallError:
        """Say why there is no such tool: it is unknown, or held until somebody approves it."""
        policy = server.policy
        own = policy.own_name(tool_name)
        if policy.admits_tool(own) and (refused := policy.refusal(own)) is not None:
            return refused
        info = server.info()
        if info.catalogue is None:
            error = not_listed(info, tool_name)
        else:
            error = unknown_tool(info, tool_name, list_servers(self._servers))
        error.rule = rule_against([server], "", tool_name) or policy.rule_against_tool(own)
        if info.catalogue is not None and tool_name in info.catalogue.app_tools:
            error.rule = FOR_APPS
        return error

    def _check_apart(
        self, request: Exec, tool: ToolInfo, checked: JSON | None, call: CallTool, reply: RawReply
    ) -> None:
        """Go on with the call when its arguments have been checked in a worker, or cannot be.

        At once, where they surely fit with what their strings spell.
        """

        def judged(verdict: CallError | Encoded) -> None:
            if reply.settled:
                return
            reply.on_abandon = None
            if isinstance(verdict, CallError):
                reply.reject(verdict)
                return
            try:
                server = find_server(self._servers, request.server_name)
                now = self._tool(server, request)  # the rules may have changed meanwhile
                fitting = call if verdict is call.arguments else replace(call, arguments=verdict)
                self._ask_and_queue(server, now, request, fitting, reply)
            except Exception as error:  # noqa: BLE001 - the boundary: this runs in a turn that all calls share
                _refuse(request, reply, error)

        respelled = checked and self._checker.respelled(tool, checked, len(call.arguments))
        if respelled:
            judged(respelled)
            return
        cancel = self._checker.judge(tool, call.arguments, judged, request.context.client)
        if cancel is not None:
            reply.on_abandon = cancel

    def _ask_and_queue(
        self, server: VisibleServer, tool: ToolInfo, request: Exec, call: CallTool, reply: RawReply
    ) -> None:
        """Hand a call whose arguments fit to its server, if a person need not be asked first.

        Raises:
            CallError: A person is asked, or has refused; or the server takes no call now.
        """
        if tool.change is not None:
            _refuse_unfit(tool, tool.change, call.arguments, call.context.project)
            call = replace(call, name=tool.own.name, change=tool.change)
        rule = server.policy.asks(tool)
        if rule is not None or call.context.answers is not None:
            if server.needs_sign_in:
                raise server.queue.unavailable(call)  # before a person is asked in vain
            given = request.given or request.arguments
            call = admitted(self._approvals, server, tool, call, rule=rule, given=given, reply=reply)
        if call.change is not None:
            context = call.context
            reply, on_progress = cleaned(call.change, reply, context.project, context.on_progress)
            if on_progress is not context.on_progress:
                call = replace(call, context=replace(context, on_progress=on_progress))
        server.submit(call, reply)


def _refuse_unfit(tool: ToolInfo, change: ToolChange, given: bytes | msgspec.Raw, project: str) -> None:
    """Refuse a call that gives an argument which no client gives, or lacks the project for a fixed one.

    Raises:
        CallError: `invalid_arguments`, or `server_unavailable`.
    """
    if hidden := hidden_in(change, given):
        raise invalid_arguments(tool, [Problem(f"$.{name}", "there is no such argument") for name in hidden])
    if lacks_project(change, project):
        named = f"{shown_name(tool.name)} of {shown_server(tool.server_name)}"
        text = f"{named} is not available ({NO_PROJECT}); nothing was sent"
        details = {"cause": NO_PROJECT, "missing": ["project"]}
        raise CallError(
            Code.SERVER_UNAVAILABLE, text, server=tool.server_name, tool=tool.name, details=details
        )


def _refuse(request: Request, reply: RawReply, error: Exception) -> None:
    """Answer a request that was not sent: say what was wrong with it, or with MCPX."""
    reply.reject(as_call_error(error, request, "router", Outcome.NOT_SENT))


def _narrowed(context: RequestContext, server: VisibleServer) -> RequestContext:
    """Add the policy of the caller's profile, where it has one: it holds while the request waits, too."""
    return context if server.narrowing is None else replace(context, policy=server.narrowing)

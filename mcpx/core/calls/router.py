"""The router: the one actor that takes every inspect, exec and resources request.

It serves its mailbox one message at a time and never waits: inspect is answered from the snapshots, and a
call or a read is checked and handed on, reply slot and all, into its server's queue. So a slow server delays
nobody else, and the answer goes straight to the requester. Whatever a message makes the actor raise becomes
the answer to that message; no message can end the actor.

Clients that are shown some servers only (`mcpx.core.daemon.hub_view`) have a `Router` over these: their
messages come with it, and are routed and explained by it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mcpx.core.calls.asking import admitted
from mcpx.core.calls.auditing import audited
from mcpx.core.calls.inspection import Inspector
from mcpx.core.calls.names import not_listed, rule_against
from mcpx.core.calls.registry import Registry
from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.config import Era
from mcpx.core.events.audit.audit import Audit
from mcpx.core.policy.approvals import Approvals
from mcpx.core.policy.catalogue_rules import is_read_only
from mcpx.core.protocol.messages import (
    Exec,
    Forward,
    Inspect,
    ListResources,
    Message,
    Read,
    Request,
    as_call_error,
)
from mcpx.core.protocol.requests import CallTool, ReadResource, RequestContext
from mcpx.core.rendering.suggest import unknown_tool
from mcpx.core.servers.admission import is_safe, not_read_only
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.validation.arguments import read_raw_arguments
from mcpx.core.validation.checker import ArgumentChecker, Encoded
from mcpx.errors import CallError, Outcome
from supervisors import Actor, ActorRef, Reply

MAILBOX_SIZE: Final = 4096  # messages are passed on within microseconds; this many means a broken client


class Routed(msgspec.Struct, frozen=True, gc=False):
    """A message that is to be routed by another router than the actor's own."""

    router: Router
    message: Message


Routable = Message | Routed


class RoutedRequests:
    """Takes requests as the actor's reference does, and has them routed by `router`, which is set later."""

    router: Router

    def __init__(self, ref: ActorRef[Routable]) -> None:
        self._ref = ref

    def request(self, message: Message, reply: Reply[Any]) -> object:
        """As `ActorRef.request`."""
        return self._ref.request(Routed(self.router, message), reply)


class Router:
    """Finds the way for each message, among the servers of a registry.

    Keeps no state, so that a restart of the actor loses nothing.
    """

    def __init__(
        self,
        registry: Registry,
        inspector: Inspector,
        checker: ArgumentChecker,
        *,
        approvals: Approvals,
        audit: Audit,
    ) -> None:
        self._audit = audit
        self._registry = registry
        self._inspector = inspector
        self._checker = checker
        self._approvals = approvals

    def route(self, message: Routable, reply: Reply[Any] | None) -> None:
        """Answer the message, or hand it on. Never raises."""
        if reply is None:
            return
        try:
            match message:
                case Exec() | Read() | Forward():
                    self._request(message, reply)
                case ListResources(server):
                    reply.resolve(self._inspector.resources(server))
                case Inspect():
                    self._inspector.look(message, lambda: self._inspect(message, reply))
                case Routed(router, routed):
                    router.route(routed, reply)
        except Exception as error:  # noqa: BLE001 - the boundary: one message must not cost the others theirs
            _refuse(message.message if isinstance(message, Routed) else message, reply, error)

    def _request(self, message: Request, reply: RawReply) -> None:
        """Check a request, and put it into its server's queue; the audit log has it from here on.

        Raises:
            CallError: It was not sent.
        """
        if (entry := audited(self._audit, message)) is not None:
            reply.observe(entry)
        match message:
            case Exec():
                self._exec(message, reply)
            case Read(server, uri, context):
                upstream = self._registry.upstream(server)
                context = _narrowed(context, upstream)
                request = ReadResource(self._registry.resolve_uri(upstream, uri), context=context)
                _session_for(upstream, context).submit(request, reply)
            case Forward(server, given, context):
                upstream = self._registry.upstream(server)
                context = _narrowed(context, upstream)
                forwarded = replace(given, context=context)
                if (refused := upstream.refusal_of(forwarded)) is not None:
                    raise refused
                _session_for(upstream, context).submit(forwarded, reply)

    def _inspect(self, message: Inspect, reply: Reply[Any]) -> None:
        """Answer, now or when the schema has been looked at."""
        try:
            reply.resolve(self._inspector.inspect(message))
        except Exception as error:  # noqa: BLE001 - as in `route`
            _refuse(message, reply, error)

    # --- calls

    def _exec(self, message: Exec, reply: RawReply) -> None:
        """Check a call and put it into its server's queue.

        Raises:
            CallError: With the outcome `not_sent`: unknown names, bad arguments, no server. What is found
                only later goes into `reply`.
        """
        upstream = self._registry.upstream(message.server_name)
        tool = self._tool(upstream, message)
        checked, raw = read_raw_arguments(message.arguments, tool)
        context = message.context if upstream.narrowing is None else _narrowed(message.context, upstream)
        call = CallTool(tool.name, raw, safe=is_safe(tool), read_only=message.read_only, context=context)
        if checked is None or not self._checker.accepts(tool, checked, len(raw)):
            self._submit_when_checked(message, tool, checked, call, reply)
        else:
            self._submit(upstream, tool, message, call, reply)

    def _submit(
        self, upstream: VisibleServer, tool: ToolInfo, message: Exec, call: CallTool, reply: RawReply
    ) -> None:
        """Put a call whose arguments fit into its server's queue, if a person need not be asked first.

        Raises:
            CallError: As from `admitted`, and from `submit`.
        """
        rule = upstream.policy.asks(tool)
        if rule is not None or call.context.answers is not None:
            if upstream.needs_sign_in:
                raise upstream.queue.unavailable(call)  # before a person is asked in vain
            given = message.given or message.arguments
            call = admitted(self._approvals, upstream, tool, call, rule=rule, given=given, reply=reply)
        session = upstream if upstream.serves_all else _session_for(upstream, call.context)
        session.submit(call, reply)

    def _tool(self, upstream: VisibleServer, message: Exec) -> ToolInfo:
        """The tool of a call, which may run.

        Raises:
            CallError: There is none, or it may not run as it is.
        """
        catalogue, policy, name = upstream.catalogue, upstream.policy, message.tool_name
        tool = catalogue.tools.get(name) if catalogue else None
        if tool is None:
            raise self._no_tool(upstream, name)
        if policy.refused and name in policy.refused and (refused := policy.refusal(name)) is not None:
            raise refused
        if message.read_only and not is_read_only(tool):
            raise not_read_only(tool)
        return tool

    def _no_tool(self, upstream: VisibleServer, tool_name: str) -> CallError:
        """Why there is no such tool: it is unknown, or held until somebody approves it."""
        policy = upstream.policy
        if policy.admits_tool(tool_name) and (refused := policy.refusal(tool_name)) is not None:
            return refused
        info = upstream.info()
        if info.catalogue is None:
            error = not_listed(info, tool_name)
        else:
            error = unknown_tool(info, tool_name, self._registry.list_servers())
        error.rule = rule_against([upstream], "", tool_name) or policy.rule_against_tool(tool_name)
        return error

    def _submit_when_checked(
        self, message: Exec, tool: ToolInfo, checked: JSON | None, call: CallTool, reply: RawReply
    ) -> None:
        """Submit the call when its arguments have been checked in another process, or cannot be.

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
                upstream = self._registry.upstream(message.server_name)
                now = self._tool(upstream, message)  # the rules may have changed meanwhile
                fitting = call if verdict is call.arguments else replace(call, arguments=verdict)
                self._submit(upstream, now, message, fitting, reply)
            except Exception as error:  # noqa: BLE001 - the boundary: this runs in a turn that all calls share
                _refuse(message, reply, error)

        respelled = checked and self._checker.respelled(tool, checked, len(call.arguments))
        if respelled:
            judged(respelled)
            return
        cancel = self._checker.judge(tool, call.arguments, judged, message.context.client)
        if cancel is not None:
            reply.on_abandon = cancel


class RouterActor(Router, Actor[Routable]):
    """The router of all servers, which serves the mailbox."""

    def __init__(
        self,
        ref: ActorRef[Routable],
        registry: Registry,
        inspector: Inspector,
        checker: ArgumentChecker,
        *,
        approvals: Approvals,
        audit: Audit,
    ) -> None:
        Router.__init__(self, registry, inspector, checker, approvals=approvals, audit=audit)
        Actor.__init__(self, ref)

    handle = Router.route


def _refuse(message: Message, reply: Reply[Any], error: Exception) -> None:
    """Answer a message that was not sent: what was wrong with it, or with MCPX."""
    reply.reject(as_call_error(error, message, "router", Outcome.NOT_SENT))


def _narrowed(context: RequestContext, upstream: VisibleServer) -> RequestContext:
    """The context with the policy that holds for the clients of a profile, where they have one."""
    return context if upstream.narrowing is None else replace(context, policy=upstream.narrowing)


def _session_for(upstream: VisibleServer, context: RequestContext) -> VisibleServer:
    """What serves this client's requests: its own session, or the server's session for its era.

    A program that uses MCPX as a library is no client, and takes the main session.

    Raises:
        CallError: `server_unavailable`: the client can have no session of its own.
    """
    caller = context.caller
    if upstream.queue.closed:
        return upstream
    if upstream.private is not None and context.client is not None:
        era: Era | None = None if caller is None else "modern" if caller.modern else "handshake"
        return upstream.private.get_or_open(context.client, era)
    if caller is None:
        return upstream
    # input that was asked for in a result goes back to the session that has asked so: a modern one
    return upstream.in_era(caller.modern or context.answers is not None)

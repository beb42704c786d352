"""The faces of servers: a registry of them and the calls to them, for all servers and for those of a view.

All share one checker of arguments, with its worker processes, and the forms that tools are shown in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from mcpx.core.calls.calls import ToolCalls
from mcpx.core.calls.inspection import Inspector
from mcpx.core.calls.pipeline import Pipeline
from mcpx.core.calls.registry import Registry
from mcpx.core.calls.results.shaping import ResultRenderer
from mcpx.core.calls.sign_in_links import SignInLinks
from mcpx.core.events.records import Records
from mcpx.core.policy.approvals import Approvals
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.telemetry.tracing import Tracing
from mcpx.core.validation.checker import ArgumentChecker
from mcpx.core.wire.workers.pool import WorkerPool

SEE_STATUS: Final = "mcpx status says why"  # the reason may name a server that is hidden


class Faces:
    """Makes the registry of some servers and the calls to them; its own are those of `upstreams`, of all.

    `config_problem` says why the configuration file cannot be used, if so; `await_peers` waits until the
    servers of other MCPX are known.
    """

    def __init__(
        self,
        upstreams: Mapping[str, VisibleServer],
        results: ResultRenderer,
        *,
        approvals: Approvals,
        records: Records,
        links: SignInLinks,
        tracing: Tracing,
        config_problem: Callable[[], str | None],
        await_peers: Callable[[], Awaitable[None]],
    ) -> None:
        self._results = results
        self._approvals = approvals
        self._records = records
        self._links = links
        self._tracing = tracing
        self._config_problem = config_problem
        self._await_peers = await_peers
        self.workers = WorkerPool()
        """The processes for what would hold up the event loop."""
        self.checker = ArgumentChecker(self.workers)
        self.inspector = Inspector(upstreams, self.checker, results, config_problem=config_problem)
        self.calls = self._calls(upstreams, self.inspector)
        self.registry = Registry(upstreams, self.calls)

    def among(self, upstreams: Mapping[str, VisibleServer]) -> tuple[Registry, ToolCalls]:
        """Make the registry of these servers, and the calls to them and no others."""
        inspector = Inspector(
            upstreams,
            self.checker,
            self._results,
            config_problem=lambda: self._config_problem() and SEE_STATUS,
            forms=self.inspector.forms,
        )
        calls = self._calls(upstreams, inspector)
        return Registry(upstreams, calls), calls

    def _calls(self, upstreams: Mapping[str, VisibleServer], inspector: Inspector) -> ToolCalls:
        pipeline = Pipeline(upstreams, self.checker, self._approvals, self._records, self._tracing)
        return ToolCalls(
            upstreams,
            pipeline,
            inspector,
            self._results,
            approvals=self._approvals,
            records=self._records,
            links=self._links,
            await_peers=self._await_peers,
        )

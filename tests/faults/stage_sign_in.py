"""The stage for the faults of sign-ins: a hub, a scripted issuer with its MCP server, and a good neighbour.

`sign_in_stage` opens one, where a person has signed in already, or not. In the end nothing is left of it, no
secret has come to another origin, and none is in a file but the record.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from mcpx.core.catalog.snapshot import State
from mcpx.errors import CallError, Code, Outcome
from mcpx.oauth.errors import Problem, SignInError
from tests.faults import traces
from tests.faults.stage import Neighbour, Seen
from tests.mcpx.oauth.scripted_issuer import Fault, ScriptedIssuer, scripted_issuer
from tests.mcpx.oauth.signing_in import sign_in
from tests.mcpx.scripted import Watch, config_of, entry, open_watched
from tests.ports import free_port

PATIENCE_S = 20.0
SOON_S = 2.0  # for what takes milliseconds
SETTINGS: dict[str, Any] = {
    "restart": {"initial": 0.05, "cap": 0.1, "healthy_after": 0.001, "park_after": 1000},
    "call_timeout": 3.0,
    "queue_timeout": 3.0,
}


class SignInStage:
    """One fault being played on the sign-in of the server `r`."""

    def __init__(self, watch: Watch, issuer: ScriptedIssuer, state: Path, seen: Seen) -> None:
        self.watch = watch
        self.issuer = issuer
        self.state = state
        self.seen = seen
        self.check = seen.check
        self.fault_at = time.monotonic()
        self.may_ask = 1
        self._first = self.incarnation()

    def incarnation(self) -> int:
        return self.watch.hub.supervisor.state("r").generation

    def check_same_session(self) -> None:
        """The session of the beginning goes on."""
        self.check(self.incarnation() == self._first, "it was restarted")
        self.seen.ended = "untouched"

    def now(self) -> None:
        """The fault happens now."""
        self.fault_at = time.monotonic()

    def expire(self) -> None:
        """The token expires, now."""
        self.issuer.expire()
        self.now()

    async def answered(self, *, within: float = PATIENCE_S) -> None:
        """A call is answered."""
        try:
            text = await self.watch.text("count", {"key": "answered"}, server="r")
        except CallError as error:
            self._saw(f"{error.code}, {error.outcome}")
            self.check(False, f"the call was not answered: {error}")
            return
        self._saw("the answer", within)
        self.check(text == "answered", f"the answer is {text[:200]!r}")

    async def caught(self, code: Code, *says: str, within: float = SOON_S, tool: str = "count") -> CallError:
        """A call fails with this code, has not run, and the text says these things."""
        ran = len(self.issuer.calls)
        error = await self.watch.failure(tool, {"key": "caught"}, server="r")
        self._saw(f"{error.code}, {error.outcome}", within)
        self.check(error.code is code, f"the code is {error.code}, not {code}: {error}")
        self.check(error.outcome is Outcome.NOT_SENT, f"the outcome is {error.outcome}: {error}")
        self.check(len(self.issuer.calls) == ran, "the call ran")
        for text in says:
            self.check(text in str(error), f"the error does not say {text!r}: {error}")
        return error

    async def needs_sign_in(self, *says: str) -> None:
        """A person has to sign in, and is told so by the state and by every call; nothing else is tried."""
        await self.watch.becomes(State.NEEDS_SIGN_IN, "r")
        self.seen.ended = "needs sign-in"
        cause = self.watch.hub.upstreams["r"].info().cause or ""
        for text in says:
            self.check(text in cause, f"the cause does not say {text!r}: {cause}")
        before = len(self.issuer.requests)
        for _ in range(3):
            await self.caught(Code.SERVER_UNAVAILABLE, "mcpx login r", within=PATIENCE_S)
        self.check(len(self.issuer.requests) == before, "a server that needs a sign-in is tried again")

    async def signs_in(self) -> None:
        """A person signs in; the server is ready then, and answers."""
        self.may_ask += 1
        await sign_in(self.watch, self.issuer, "r")
        await self.watch.becomes(State.READY, "r")
        self.seen.recovery_s = time.monotonic() - self.fault_at
        self.seen.ended = "ready"
        await self.answered()

    async def sign_in_fails(self, problem: Problem, *says: str, within: float = SOON_S) -> None:
        """A person who tries to sign in is told this, and nothing is stored."""
        self.now()
        try:
            await sign_in(self.watch, self.issuer, "r")
        except SignInError as error:
            self._saw(str(error.problem), within)
            self.check(error.problem is problem, f"the problem is {error.problem}, not {problem}: {error}")
            for text in says:
                self.check(text in str(error), f"the error does not say {text!r}: {error}")
            self.check(not any(secret in str(error) for secret in self.issuer.secrets), "it holds a secret")
        else:
            self._saw("signed in")
            self.check(False, "the sign-in succeeded")
        self.check(self.watch.state("r") is State.NEEDS_SIGN_IN, f"the server is {self.watch.state('r')}")
        self.seen.ended = "needs sign-in"

    async def recovers(self, *, within: float = PATIENCE_S) -> None:
        """Calls are answered again, by the same session, and nobody is asked."""
        began = time.monotonic()
        while True:
            try:
                await self.watch.text("count", {"key": "again"}, server="r")
                break
            except CallError as error:
                self.check(error.outcome is Outcome.NOT_SENT, f"the outcome is {error.outcome}: {error}")
                if time.monotonic() - began > within:
                    raise
                await anyio.sleep(0.05)
        self.seen.recovery_s = time.monotonic() - self.fault_at
        self.check_same_session()

    def _saw(self, what: str, within: float = PATIENCE_S) -> None:
        if not self.seen.caller_saw:
            self.seen.caller_saw = what
            self.seen.error_s = took = time.monotonic() - self.fault_at
            self.check(took < within, f"the caller was told after {took:.2f} s")

    def judge(self) -> None:
        """What must hold of every fault."""
        issuer = self.issuer
        verifiers = [each.form["code_verifier"] for each in issuer.seen("token:authorization_code")]
        leaked = issuer.leaked_to("elsewhere", *verifiers)
        self.check(not leaked, f"another origin got secrets: {[each.path for each in leaked]}")
        self.check(not issuer.leaked_in(self.state), f"open to others: {issuer.leaked_in(self.state)}")
        others = [file for file in issuer.holding(self.state) if file.parent.name != "oauth"]
        self.check(not others, f"secrets are in {others}")
        self.check(issuer.asked <= self.may_ask, f"a person was asked {issuer.asked} times")
        calls = [key for key in issuer.calls if key == "caught"]
        self.check(not calls, "a call that was refused ran")


@asynccontextmanager
async def sign_in_stage(
    seen: Seen, *, signed_in: bool = True, faults: dict[str, Fault] | None = None, **options: Any
) -> AsyncIterator[SignInStage]:
    """A running stage: the server is signed in to and has answered, or needs a sign-in.

    `options` are those of the issuer; `faults` are in force from the start.
    """
    before = traces.descriptors(), len(asyncio.all_tasks())
    with scripted_issuer(**options) as issuer, TemporaryDirectory(prefix="mcpx-") as folder:
        issuer.faults.update(faults or {})
        servers = {"r": {"url": issuer.mcp_url, **SETTINGS}, "good": entry()}
        config = config_of(servers, start="eager", login_port=free_port())
        async with open_watched(config, state=Path(folder)) as watch:
            neighbour = Neighbour(watch, seen, server="good", soon=SOON_S, text="x")
            async with anyio.create_task_group() as tasks:
                await watch.becomes(State.READY, "good")
                tasks.start_soon(neighbour.call_on)
                if signed_in:
                    await sign_in(watch, issuer)
                    await watch.text("count", {"key": "first"}, server="r")
                played = SignInStage(watch, issuer, Path(folder), seen)
                yield played
                tasks.cancel_scope.cancel()
            await neighbour.judge()
            issuer.release()
        played.judge()
    after = traces.descriptors(), len(asyncio.all_tasks())
    seen.check(after[0] <= before[0], f"{after[0] - before[0]} file descriptors are left")
    seen.check(after[1] <= before[1], f"{after[1] - before[1]} tasks are left")

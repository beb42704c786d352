"""The stage for the faults of sign-ins: a hub, a scripted issuer with its MCP server, and a good neighbour.

`sign_in_stage` opens one, where a person has signed in already, or not. In the end nothing is left of it, no
secret has come to another origin, and none is in a file but the record.
"""

from __future__ import annotations

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
from tests.faults.stage import Neighbour, Playing, Seen, beside, nothing_added
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


class SignInStage(Playing):
    """One fault being played on the sign-in of the server `r`."""

    name = "r"

    def __init__(self, watch: Watch, issuer: ScriptedIssuer, state: Path, seen: Seen) -> None:
        super().__init__(watch, seen)
        self.issuer = issuer
        self.state = state
        self.may_ask = 1
        self._first = self.incarnation()

    def check_same_session(self) -> None:
        """The session of the beginning goes on."""
        self.check(self.incarnation() == self._first, "it was restarted")
        self.seen.ended = "untouched"

    def expire(self) -> None:
        """The token expires, now."""
        self.issuer.expire()
        self.now()

    async def answered(self, *, within: float = PATIENCE_S) -> None:
        """A call is answered."""
        text = await self.answer_of("count", {"key": "answered"}, within=within)
        self.check(text in {None, "answered"}, f"the answer is {(text or '')[:200]!r}")

    async def caught(self, code: Code, *says: str, within: float = SOON_S, tool: str = "count") -> CallError:
        """A call fails with this code, has not run, and the text says these things."""
        ran = len(self.issuer.calls)
        error = await self.error_of(code, *says, tool=tool, arguments={"key": "caught"}, within=within)
        self.check(error.outcome is Outcome.NOT_SENT, f"the outcome is {error.outcome}: {error}")
        self.check(len(self.issuer.calls) == ran, "the call ran")
        return error

    async def needs_sign_in(self, *says: str) -> None:
        """A person has to sign in, and is told so by the state and by every call; nothing else is tried."""
        await self.watch.becomes(State.NEEDS_SIGN_IN, "r")
        self.seen.ended = "needs sign-in"
        self.check_says("the cause", self.upstream.info().cause, *says)
        before = len(self.issuer.requests)
        for _ in range(3):
            await self.caught(Code.SERVER_UNAVAILABLE, "mcpx login r", within=PATIENCE_S)
        self.check(len(self.issuer.requests) == before, "a server that needs a sign-in is tried again")

    async def signs_in(self) -> None:
        """A person signs in; the server is ready then, and answers."""
        self.may_ask += 1
        await sign_in(self.watch, self.issuer, "r")
        await self.watch.becomes(State.READY, "r")
        self.back()
        await self.answered()

    async def sign_in_fails(self, problem: Problem, *says: str, within: float = SOON_S) -> None:
        """A person who tries to sign in is told this, and nothing is stored."""
        self.now()
        try:
            await sign_in(self.watch, self.issuer, "r")
        except SignInError as error:
            self.saw(str(error.problem), within)
            self.check(error.problem is problem, f"the problem is {error.problem}, not {problem}: {error}")
            self.check_says("the error", error, *says)
            self.check(not any(secret in str(error) for secret in self.issuer.secrets), "it holds a secret")
        else:
            self.saw("signed in")
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
    async with nothing_added(seen):
        with scripted_issuer(**options) as issuer, TemporaryDirectory(prefix="mcpx-") as folder:
            issuer.faults.update(faults or {})
            servers = {"r": {"url": issuer.mcp_url, **SETTINGS}, "good": entry()}
            config = config_of(servers, start="eager", login_port=free_port())
            async with open_watched(config, state=Path(folder)) as watch:
                async with beside(Neighbour(watch, seen, server="good", soon=SOON_S, text="x")):
                    if signed_in:
                        await sign_in(watch, issuer)
                        await watch.text("count", {"key": "first"}, server="r")
                    played = SignInStage(watch, issuer, Path(folder), seen)
                    yield played
                issuer.release()
            played.judge()

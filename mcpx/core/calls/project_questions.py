"""Questions to the person behind a client in a project, about the servers that its files name.

One for a hub. A client is asked once about the same servers, in a form that shows all of them
(`mcpx.core.policy.agreements`), if it takes forms and its person is at this machine. Of the clients in a
project one is asked at a time. A client of 2026-07-28 gets the question as the result of its own request, and
repeats the request with the answer; an older one is asked by a request. "Not now", and whatever else is no
clear answer, holds for as long as the client stays; the other words are kept for all (`settle`). A question
is withdrawn when it has become pointless: the files have changed, or somebody has agreed in a terminal.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import structlog

from mcpx.core.calls.asking import put_question
from mcpx.core.catalog.model import JSON
from mcpx.core.config.project_entries import ProjectServers
from mcpx.core.policy.agreements import Said, form, read_word
from mcpx.core.policy.approval_form import KEY
from mcpx.core.policy.questions import new_state
from mcpx.core.protocol.context import ELICITATION, Caller, ClientId, InputAnswers
from mcpx.core.rendering.result_reading import INPUT_REQUIRED
from mcpx.errors import MCPXError

log = structlog.get_logger()
MAX_ASKED: Final = 4096  # clients that are remembered


class _Question:
    """One that is open: to that client, about these servers."""

    def __init__(self, client: ClientId, found: ProjectServers, params: JSON, within_s: float) -> None:
        self.client, self.found, self.params, self.within_s = client, found, params, within_s
        self.state = new_state()
        self.expires = time.monotonic() + within_s
        self.over = anyio.Event()
        self.withdraw: Callable[[], None] | None = None

    @property
    def is_open(self) -> bool:
        return not self.over.is_set() and time.monotonic() < self.expires

    def result(self) -> JSON:
        """The result by which a client of 2026-07-28 asks."""
        asked = {KEY: {"method": ELICITATION, "params": self.params}}
        return {"resultType": INPUT_REQUIRED, "inputRequests": asked, "requestState": self.state}


class ProjectQuestions:
    """The questions of one hub. `waiting` gives what waits in a project, `settle` keeps what was said.

    `within_s` gives how long a person may take, in seconds.
    """

    def __init__(
        self,
        waiting: Callable[[str | None], ProjectServers | None],
        settle: Callable[[ProjectServers, Said], Awaitable[None]],
        within_s: Callable[[], float],
    ) -> None:
        self._waiting = waiting
        self._settle = settle
        self._within_s = within_s
        self._asked: dict[ClientId, str] = {}  # the digest of what each was asked about last
        self._open: dict[str, _Question] = {}  # by project

    async def ask(self, client: ClientId, caller: Caller, answers: InputAnswers | None = None) -> JSON | None:
        """Ask about what waits in the project of a client, if it has not been; None when that is over.

        Else it is the result by which a client of 2026-07-28 is asked; `answers` is what it has brought.
        """
        question = self._open.get(client.project or "")
        if answers is not None and question is not None and answers.state == question.state:
            if question.client is client:
                await self._answered(question, read_word(answers.responses))
            return None
        if question is not None and question.is_open:
            if not caller.modern:
                with anyio.move_on_after(question.expires - time.monotonic()):
                    await question.over.wait()
            return None
        if (question := self._next(client, caller)) is None:
            return None
        if caller.modern:
            return question.result()
        await self._ask(question, caller)
        return None

    def is_due(self, client: ClientId, caller: Callable[[], Caller]) -> bool:
        """Return True if a client is to be asked: something waits in its project, and it can be."""
        found = self._waiting(client.project)
        return found is not None and self._may_ask(client, caller(), found)

    def _may_ask(self, client: ClientId, caller: Caller, found: ProjectServers) -> bool:
        is_new = self._asked.get(client) != found.digest
        return is_new and caller.is_local and caller.capabilities.refusal(ELICITATION, {}) is None

    def _next(self, client: ClientId, caller: Caller) -> _Question | None:
        """Open the question that a client is to be asked; None if there is none."""
        found = self._waiting(client.project)
        if found is None or not self._may_ask(client, caller, found):
            return None
        if len(self._asked) >= MAX_ASKED:
            del self._asked[next(iter(self._asked))]
        self._asked[client] = found.digest
        if (params := form(found)) is None:  # more than a person would read there
            return None
        log.info("projects.asked", project=found.project, servers=[*found.entries])
        question = self._open[found.project] = _Question(client, found, params, self._within_s())
        return question

    async def _ask(self, question: _Question, caller: Caller) -> None:
        word = None
        try:
            word = read_word(await put_question(caller, question.params, question, question.within_s))
        finally:
            if word is None:
                self._close(question)
        if word is not None:
            await self._answered(question, word)

    async def _answered(self, question: _Question, word: Said | None) -> None:
        try:
            found = self._waiting(question.found.project)
            if word is not None and found is not None and found.digest == question.found.digest:
                await self._settle(question.found, word)
        except MCPXError as error:
            log.warning("projects.not_kept", reason=str(error))
        finally:
            self._close(question)

    def _close(self, question: _Question) -> None:
        question.over.set()
        if self._open.get(question.found.project) is question:
            del self._open[question.found.project]

    def reconsider(self) -> None:
        """Withdraw questions about what does not wait any more."""
        for question in list(self._open.values()):
            found = self._waiting(question.found.project)
            if found is None or found.digest != question.found.digest:
                if question.withdraw is not None:
                    question.withdraw()
                else:
                    self._close(question)

    def client_left(self, client: ClientId) -> None:
        """Forget a client that has left, and what it was asked."""
        self._asked.pop(client, None)
        for question in [each for each in self._open.values() if each.client is client]:
            self._close(question)

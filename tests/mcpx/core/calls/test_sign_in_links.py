"""Links to sign in by: who is given one, how often a person is asked, and what their answer does to calls."""

from __future__ import annotations

from contextlib import asynccontextmanager
from types import SimpleNamespace

import anyio
import msgspec
import pytest
from mcp_types import METHOD_NOT_FOUND

from mcpx.core.calls.sign_in_links import SignInLinks
from mcpx.core.config import Http, ServerConfig
from mcpx.core.protocol.context import ClientId, InputAnswers, read_capabilities
from mcpx.core.protocol.requests import RequestContext
from mcpx.core.servers.call_errors import LINK_KEY, SignInNeeded, answer_to_link, without_link
from mcpx.core.servers.relay.clients import ConnectedClients
from mcpx.core.wire.envelope import MCPError
from mcpx.errors import CallError, Code, Outcome
from mcpx.oauth.errors import Problem, SignInError

pytestmark = pytest.mark.anyio

URL = "https://auth.example/authorize?client_id=c"
SERVER = ServerConfig(name="linear", transport=Http(url="https://mcp.linear.example/mcp"))


class StubAccount:
    """What a call asks an account; `is_stored` is for one whose tokens another process has stored."""

    def __init__(self, *, is_stored=False):
        self.needs_person = True
        self._is_stored = is_stored

    async def attend(self):
        self.needs_person = not self._is_stored


ACCOUNT = StubAccount()
UPSTREAM = SimpleNamespace(config=SERVER, account=ACCOUNT)
OPENS = read_capabilities(b'{"elicitation":{"url":{}}}')
ACCEPTED, DECLINED = {"action": "accept"}, {"action": "decline"}
PATIENCE_S = 50.0


class SignIn:
    """The pending sign-in of a test."""

    def __init__(self) -> None:
        self.wanted = 0
        self.begun = 0
        self.note: str | None = None
        self.over = anyio.Event()
        self.error: SignInError | None = None

    def begin(self, _name):
        self.begun += 1
        self.wanted += 1
        return self

    async def url(self):
        if self.error is not None:
            raise self.error
        return URL

    async def wait(self):
        await self.over.wait()
        if self.error is not None:
            raise self.error

    def leave(self):
        self.wanted -= 1

    def end(self, error=None):
        self.error = error
        self.over.set()


class Caller:
    """A client; one that is asked answers when it is told to."""

    log_level = None

    def __init__(self, *, modern=False, is_local=True, capabilities=OPENS) -> None:
        self.client = ClientId()
        self.modern = modern
        self.is_local = is_local
        self.is_peer = False
        self.capabilities = capabilities
        self.asked: list[dict] = []
        self.notified: list[tuple] = []
        self.is_asked = anyio.Event()
        self.answers = anyio.Event()
        self.answer: dict | MCPError = ACCEPTED

    async def ask(self, method, params, _on_progress):
        assert method == "elicitation/create"
        self.asked.append(params)
        self.is_asked.set()
        await self.answers.wait()
        if isinstance(self.answer, MCPError):
            raise self.answer
        return self.answer

    def answer_with(self, answer):
        self.answer = answer
        self.answers.set()

    def log(self, params): ...

    def notify(self, method, params):
        self.notified.append((method, params))

    def context(self, *, answers=None):
        return RequestContext(client=self.client, caller=self, answers=answers)


def needed(*, wants_more=False):
    return SignInNeeded(
        "linear is not available", server="linear", tool="t", details={"state": "x"}, wants_more=wants_more
    )


async def obtain(links, context, **more):
    given = {"client": context.client, "answers": context.answers}
    return await links.obtain(needed(**more), UPSTREAM, context.caller, **given)


class Stage:
    """Links, with one sign-in behind them."""

    def __init__(self, links, sign_in, clients):
        self.links, self.sign_in, self.clients = links, sign_in, clients

    async def obtain(self, context, **more):
        with anyio.fail_after(PATIENCE_S):
            return await obtain(self.links, context, **more)


@asynccontextmanager
async def stage(within_s=60.0):
    sign_in, clients = SignIn(), ConnectedClients()
    links = SignInLinks(sign_in.begin, clients, lambda: within_s)
    incarnation = SimpleNamespace(ready=lambda: None, stopping=anyio.Event())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(links.run, incarnation)
        await anyio.wait_all_tasks_blocked()
        yield Stage(links, sign_in, clients)
        incarnation.stopping.set()
    assert sign_in.wanted == 0


async def until(condition):
    with anyio.fail_after(PATIENCE_S):
        while not condition():
            await anyio.lowlevel.checkpoint()


def brought(answer):
    return InputAnswers(msgspec.json.encode({LINK_KEY: answer}))


# --- who is given a link


@pytest.mark.parametrize(
    "caller",
    [
        {"is_local": False},
        {"capabilities": read_capabilities(b'{"elicitation":{}}')},
        {"capabilities": read_capabilities(b'{"elicitation":{"form":{}}}')},
        {"capabilities": read_capabilities(b"{}")},
    ],
    ids=["from elsewhere or with a named token", "forms by default", "forms", "nothing"],
)
@pytest.mark.parametrize("modern", [False, True])
async def test_a_client_that_may_not_open_links_gets_the_error_and_nothing_is_begun(caller, modern):
    async with stage() as on:
        with pytest.raises(SignInNeeded):
            await on.obtain(Caller(modern=modern, **caller).context())
        assert on.sign_in.begun == 0


async def test_a_program_without_a_client_gets_the_error():
    async with stage() as on:
        with pytest.raises(SignInNeeded):
            await on.obtain(RequestContext())


async def test_links_that_are_not_run_are_not_given():
    sign_in = SignIn()
    links = SignInLinks(sign_in.begin, ConnectedClients(), lambda: 1.0)
    with pytest.raises(SignInNeeded):
        await obtain(links, Caller().context())
    assert sign_in.begun == 0


async def test_nobody_is_asked_where_somebody_has_signed_in_since(monkeypatch):
    monkeypatch.setattr(ACCOUNT, "needs_person", False)
    async with stage() as on:
        assert await on.obtain(Caller(modern=True).context()) is None
        assert on.sign_in.begun == 0


# --- a client that is asked by a request


async def test_the_question_names_the_server_and_the_hosts_and_the_call_waits_for_the_sign_in():
    async with stage() as on, anyio.create_task_group() as tasks:
        caller, done = Caller(), anyio.Event()
        on.clients.handles[caller.client] = caller
        on.sign_in.note = "you agree at auth.example; token.example gets the token"

        async def call():
            assert await on.obtain(caller.context()) is None
            done.set()

        tasks.start_soon(call)
        await caller.is_asked.wait()
        (params,) = caller.asked
        assert (params["mode"], params["url"]) == ("url", URL)
        assert params["elicitationId"]
        for said in ("linear", "mcp.linear.example", "auth.example", on.sign_in.note):
            assert said in params["message"]
        caller.answer_with(ACCEPTED)
        await anyio.wait_all_tasks_blocked()
        assert not done.is_set()
        on.sign_in.end()
        await done.wait()
        complete = ("notifications/elicitation/complete", {"elicitationId": params["elicitationId"]})
        assert caller.notified == [complete]


async def test_64_calls_share_one_sign_in_and_one_question():
    async with stage() as on, anyio.create_task_group() as tasks:
        caller, passed = Caller(), []

        async def call():
            passed.append(await on.obtain(caller.context()))

        for _ in range(64):
            tasks.start_soon(call)
        await caller.is_asked.wait()
        caller.answer_with(ACCEPTED)
        await anyio.wait_all_tasks_blocked()
        on.sign_in.end()
        await until(lambda: len(passed) == 64)
        assert (len(caller.asked), on.sign_in.begun) == (1, 1)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (DECLINED, "did not open"),
        ({"action": "cancel"}, "did not open"),
        ({"action": 7}, "did not open"),
        (MCPError(METHOD_NOT_FOUND, "no such thing"), "no such thing"),
    ],
)
async def test_a_call_fails_at_once_where_the_person_does_not_open_the_link(answer, why):
    async with stage() as on:
        caller = Caller()
        caller.answer_with(answer)
        with pytest.raises(CallError, match=why) as caught:
            await on.obtain(caller.context())
        error = caught.value
        assert (error.code, error.outcome) == (Code.SERVER_UNAVAILABLE, Outcome.NOT_SENT)
        assert error.details == {"state": "x"}
        assert on.sign_in.wanted == 0


async def test_a_question_that_nobody_answers_ends_in_time():
    async with stage(within_s=0.05) as on:
        with pytest.raises(CallError, match="in time"):
            await on.obtain(Caller().context())


async def test_a_sign_in_that_fails_says_why():
    async with stage() as on, anyio.create_task_group() as tasks:
        caller = Caller()

        async def call():
            with pytest.raises(CallError, match="the code was refused"):
                await on.obtain(caller.context())
            tasks.cancel_scope.cancel()

        tasks.start_soon(call)
        await caller.is_asked.wait()
        caller.answer_with(ACCEPTED)
        await anyio.wait_all_tasks_blocked()
        on.sign_in.end(SignInError(Problem.CODE_REFUSED, "the code was refused"))


async def test_a_sign_in_without_a_link_says_why():
    async with stage() as on:
        on.sign_in.error = SignInError(Problem.NO_METADATA, "it does not say where")
        with pytest.raises(CallError, match="it does not say where"):
            await on.obtain(Caller().context())


async def test_a_sign_in_elsewhere_ends_the_question():
    async with stage() as on, anyio.create_task_group() as tasks:
        caller, done = Caller(), anyio.Event()

        async def call():
            await on.obtain(caller.context())
            done.set()

        tasks.start_soon(call)
        await caller.is_asked.wait()
        on.sign_in.end()
        with anyio.fail_after(PATIENCE_S):
            await done.wait()


async def test_another_call_asks_where_the_first_was_cancelled():
    async with stage() as on, anyio.create_task_group() as tasks:
        caller, first = Caller(), anyio.CancelScope()

        async def call(scope):
            with scope:
                await on.obtain(caller.context())

        tasks.start_soon(call, first)
        await caller.is_asked.wait()
        tasks.start_soon(call, anyio.CancelScope())
        await anyio.wait_all_tasks_blocked()
        assert len(caller.asked) == 1
        first.cancel()
        await until(lambda: len(caller.asked) == 2)
        on.sign_in.end()


async def test_whoever_opened_the_link_can_finish_though_the_call_is_gone():
    async with stage() as on, anyio.create_task_group() as tasks:
        caller, scope = Caller(), anyio.CancelScope()

        async def call():
            with scope:
                await on.obtain(caller.context())

        tasks.start_soon(call)
        await caller.is_asked.wait()
        caller.answer_with(ACCEPTED)
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert on.sign_in.wanted == 1


async def test_two_clients_are_asked_each():
    async with stage() as on, anyio.create_task_group() as tasks:
        callers = Caller(), Caller()
        for caller in callers:
            tasks.start_soon(on.obtain, caller.context())
        for caller in callers:
            await caller.is_asked.wait()
        on.sign_in.end()


# --- a client that gets the link as a result


async def test_a_client_of_2026_gets_the_link_and_comes_back_for_the_result():
    async with stage() as on, anyio.create_task_group() as tasks:
        caller, done = Caller(modern=True), anyio.Event()
        result = await on.obtain(caller.context())
        request = result["inputRequests"][LINK_KEY]
        assert (result["resultType"], request["method"]) == ("input_required", "elicitation/create")
        assert request["params"]["url"] == URL
        assert "elicitationId" not in request["params"]

        async def come_back():
            assert await on.obtain(caller.context(answers=brought(ACCEPTED))) is None
            done.set()

        tasks.start_soon(come_back)
        await anyio.wait_all_tasks_blocked()
        assert not done.is_set()
        on.sign_in.end()
        await done.wait()
        assert caller.asked == []


async def test_its_other_calls_wait_for_what_becomes_of_the_link():
    async with stage() as on, anyio.create_task_group() as tasks:
        caller, results = Caller(modern=True), []

        async def call():
            results.append(await on.obtain(caller.context()))

        for _ in range(64):
            tasks.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        assert len(results) == 1
        on.sign_in.end()
        await until(lambda: len(results) == 64)
        assert results[1:] == [None] * 63
        assert on.sign_in.begun == 1


async def test_its_no_fails_all_calls_that_wait():
    async with stage() as on, anyio.create_task_group() as tasks:
        caller, failed = Caller(modern=True), []

        async def call():
            with pytest.raises(CallError, match="did not open"):
                await on.obtain(caller.context())
            failed.append(1)

        await on.obtain(caller.context())
        for _ in range(3):
            tasks.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(CallError, match="did not open"):
            await on.obtain(caller.context(answers=brought(DECLINED)))
        await until(lambda: len(failed) == 3)


async def test_an_answer_that_comes_too_late_begins_nothing():
    async with stage(within_s=0.05) as on:
        caller = Caller(modern=True)
        await on.obtain(caller.context())
        await until(lambda: not on.sign_in.wanted)
        with pytest.raises(CallError, match="opened the link in time"):
            await on.obtain(caller.context(answers=brought(ACCEPTED)))
        assert on.sign_in.begun == 1


async def test_more_scopes_are_another_matter_than_a_first_sign_in():
    async with stage() as on:
        caller = Caller(modern=True)
        await on.obtain(caller.context())
        again = await on.obtain(caller.context(), wants_more=True)
        assert again["inputRequests"]


# --- what is passed on


def test_the_answer_to_a_link_is_taken_out_of_what_goes_to_the_server():
    both = InputAnswers(msgspec.json.encode({LINK_KEY: ACCEPTED, "1": {"a": 1}}), "state")
    assert answer_to_link(both) == ACCEPTED
    assert without_link(both) == InputAnswers(b'{"1":{"a":1}}', "state")
    assert without_link(brought(ACCEPTED)) is None
    assert without_link(InputAnswers(brought(ACCEPTED).responses, "s")) == InputAnswers(b"", "s")


@pytest.mark.parametrize("responses", [b"", b"{}", b"[]", b"{", b'{"1":{}}', b'"mcpx/sign-in"'])
def test_what_is_no_answer_to_a_link_is_left_alone(responses):
    answers = InputAnswers(responses, "s")
    assert answer_to_link(answers) is None
    assert without_link(answers) is answers
    assert without_link(None) is None


def test_a_link_is_found_however_its_name_is_written():
    assert answer_to_link(InputAnswers(b'{"mcpx\\/sign-in":{"action":"accept"}}')) == ACCEPTED


async def test_a_sign_in_that_another_process_has_stored_is_enough():
    async with stage() as on:
        upstream = SimpleNamespace(config=SERVER, account=StubAccount(is_stored=True))
        assert await on.links.obtain(needed(), upstream, None, client=None, answers=None) is None
        assert on.sign_in.wanted == 0

"""The account of a server: what it puts on requests, and what it makes of those that are refused."""

from __future__ import annotations

import timeit

import anyio
import pytest

from mcpx.core.config import Http, ServerConfig
from mcpx.core.config.server_config import OAuth
from mcpx.core.servers.transport.exchange import ClientRefused, MoreScopesRequired, NoTokenNow, SignInRequired
from mcpx.oauth.account import MAX_SHOWN_SCOPES, MAX_WANTED_SCOPES, AccountState
from mcpx.oauth.errors import Problem, SignInError
from tests.mcpx.oauth.records import (
    NO_SCOPE,
    Clock,
    Issuer,
    MemoryStore,
    account_of,
    record_of,
    refuse,
    request_to,
    server_of,
    token_on,
)

pytestmark = pytest.mark.anyio
UNREACHABLE = SignInError(Problem.UNREACHABLE, "issuer.example cannot be reached")
REFUSED = SignInError(Problem.GRANT_REFUSED, "issuer.example does not take the refresh token")
FULL = SignInError(Problem.NOT_STORED, "the disk is full")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def issuer(monkeypatch, clock):
    return Issuer(monkeypatch, clock=clock)


@pytest.fixture
def store(clock):
    return MemoryStore(record_of(now=clock.now))


@pytest.fixture
def changes():
    return []


@pytest.fixture
def account(store, clock, changes):
    return account_of(store, clock=clock, on_change=lambda: changes.append(1))


# --- tokens on requests


async def test_a_request_has_the_token_that_is_stored(account):
    assert account.state is AccountState.UNKNOWN
    assert await token_on(account) == "Bearer access-0001"
    assert (account.state, account.is_usable, account.scopes) == (AccountState.SIGNED_IN, True, ("read",))


async def test_no_other_origin_is_given_a_token(account):
    await account.load()
    for url in ("http://notes.example/mcp", "https://notes.example:444/mcp", "https://other.example/mcp"):
        request = request_to(url)
        request.headers["Authorization"] = "Bearer access-0001"
        assert await token_on(account, request) is None
    assert await token_on(account, request_to("https://notes.example/elsewhere")) is not None


async def test_a_server_without_a_sign_in_gets_its_requests_as_they_are(clock):
    account = account_of(MemoryStore(), clock=clock)
    assert await token_on(account) is None
    assert account.state is AccountState.UNKNOWN


async def test_a_live_token_costs_a_request_two_microseconds(store):
    account = account_of(MemoryStore(record_of()))
    await account.load()
    request = request_to()

    def authorize():
        with pytest.raises(StopIteration):  # it does not wait for anything
            account.authorize(request).send(None)

    authorize()
    send = account.authorize

    def once():
        try:
            send(request).send(None)
        except StopIteration:
            return

    assert min(timeit.repeat(once, number=2000, repeat=20)) / 2000 < 10e-6  # 2 where nothing else runs


# --- renewal


@pytest.mark.parametrize("calls", [1, 64])
async def test_calls_at_the_expiry_of_a_token_wait_for_one_refresh(account, issuer, clock, calls, store):
    await account.load()
    clock.pass_s(3600)
    had = []

    async def call():
        had.append(await token_on(account))

    async with anyio.create_task_group() as tasks:
        for _ in range(calls):
            tasks.start_soon(call)
    assert had == ["Bearer access-0002"] * calls
    assert issuer.asked == ["refresh-0001"]
    assert store.kept[account.identity] == account.record


async def test_a_token_that_lives_is_used_while_it_is_being_refreshed(account, issuer, clock):
    await account.load()
    issuer.gate = anyio.Event()
    clock.pass_s(3400)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(account.attend)
        await anyio.wait_all_tasks_blocked()
        assert issuer.asked == ["refresh-0001"]
        assert await token_on(account) == "Bearer access-0001"
        issuer.gate.set()
    assert await token_on(account) == "Bearer access-0002"


async def test_what_is_refreshed_is_stored_before_it_is_used(account, issuer, clock, store, monkeypatch):
    await account.load()
    clock.pass_s(3600)
    write, at_write = store.write, []

    async def watched(record):
        at_write.append(account.record.tokens.access_token)
        await write(record)

    monkeypatch.setattr(store, "write", watched)
    await token_on(account)
    assert at_write == ["access-0001"]


async def test_a_call_that_is_cancelled_does_not_cut_off_the_refresh(account, issuer, clock, store):
    await account.load()
    issuer.gate = anyio.Event()
    clock.pass_s(3600)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(token_on, account)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        issuer.gate.set()
    assert store.kept[account.identity].tokens.access_token == "access-0002"
    assert await token_on(account) == "Bearer access-0002"


async def test_a_token_that_another_process_has_refreshed_is_taken(account, issuer, clock, store):
    await account.load()
    clock.pass_s(3600)
    store.kept[account.identity] = record_of(7, now=clock.now, revision=2)
    assert await token_on(account) == "Bearer access-0007"
    assert issuer.asked == []


async def test_calls_fail_for_now_while_the_issuer_is_down_and_work_again_soon_afterwards(
    account, issuer, clock, changes
):
    await account.load()
    clock.pass_s(3600)
    issuer.failures = [UNREACHABLE]
    for _ in range(3):  # within the pause nothing is asked
        with pytest.raises(NoTokenNow, match=r"issuer\.example cannot be reached"):
            await token_on(account)
    assert (len(issuer.asked), account.state) == (1, AccountState.SIGNED_IN)
    assert account.problem == "issuer.example cannot be reached"
    before = len(changes)
    with anyio.fail_after(50):
        while not await renewed(account):  # in a second, or less
            await anyio.lowlevel.checkpoint()
    assert await token_on(account) == "Bearer access-0002"
    assert (account.problem, len(changes)) == (None, before + 1)


async def renewed(account):
    """Whether the token could be renewed."""
    try:
        await token_on(account)
    except NoTokenNow:
        return False
    return True


async def test_a_refresh_that_is_refused_ends_the_sign_in_when_the_token_does(
    account, issuer, clock, changes
):
    await account.load()
    issuer.failures = [REFUSED]
    clock.pass_s(3400)
    await account.attend()
    assert await token_on(account) == "Bearer access-0001"
    assert (account.state, account.problem) == (AccountState.SIGNED_IN, str(REFUSED))
    clock.pass_s(200)
    with pytest.raises(
        SignInRequired, match="does not take the refresh token; needs sign-in: run: mcpx login"
    ):
        await token_on(account)
    assert (account.state, len(issuer.asked)) == (AccountState.NEEDS_SIGN_IN, 1)
    with pytest.raises(SignInRequired):
        await token_on(account)
    assert len(changes) == 2  # signed in, and over


async def test_a_token_without_a_refresh_token_lives_until_it_expires(issuer, clock):
    account = account_of(MemoryStore(record_of(now=clock.now, refresh=False)), clock=clock)
    assert await token_on(account) is not None
    assert account.due_in_s() == pytest.approx(3600, abs=3)
    clock.pass_s(3600)
    await account.attend()
    assert account.state is AccountState.NEEDS_SIGN_IN
    with pytest.raises(SignInRequired, match="has expired"):
        await token_on(account)


async def test_a_token_that_does_not_say_when_it_expires_is_used_until_it_is_refused(issuer, clock):
    account = account_of(MemoryStore(record_of(now=clock.now, lifetime_s=None)), clock=clock)
    await account.load()
    clock.pass_s(1e9)
    assert (await token_on(account), account.due_in_s()) == ("Bearer access-0001", float("inf"))


async def test_a_token_that_is_given_no_time_is_used_for_the_call_that_asked_for_it(account, issuer, clock):
    await account.load()
    clock.pass_s(3600)
    issuer.lifetime_s = 0.0
    assert [await token_on(account) for _ in range(2)] == ["Bearer access-0002", "Bearer access-0003"]
    assert account.due_in_s() == float("inf")


async def test_a_refreshed_token_that_cannot_be_stored_is_used_and_stored_later(
    account, issuer, clock, store
):
    await account.load()
    clock.pass_s(3600)
    store.failure = FULL
    assert await token_on(account) == "Bearer access-0002"
    await account.attend()
    store.failure = None
    await account.attend()
    assert store.kept[account.identity].tokens.access_token == "access-0002"


@pytest.mark.parametrize("step_s", [1e9, -1e9])
async def test_a_clock_that_jumps_costs_one_refresh_at_most(account, issuer, clock, step_s):
    await account.load()
    clock.pass_s(step_s)
    for _ in range(5):
        await account.attend()
        await token_on(account)
    assert len(issuer.asked) <= 1


# --- refusals


async def refused_once(account, **kind):
    """A request that was sent and refused; whether it is to be sent again."""
    request = request_to()
    await account.authorize(request)
    return request, await refuse(account, request, **kind)


async def test_a_token_that_is_refused_before_its_time_is_refreshed_once_for_all_calls(account, issuer):
    again = []

    async def call(request):
        again.append(await refuse(account, request))
        assert await token_on(account, request) == "Bearer access-0002"

    requests = [request_to() for _ in range(64)]
    for each in requests:
        await account.authorize(each)
    async with anyio.create_task_group() as tasks:
        for each in requests:
            tasks.start_soon(call, each)
    assert (again, issuer.asked) == ([True] * 64, ["refresh-0001"])


async def test_a_new_token_that_is_refused_too_needs_a_sign_in(account, issuer):
    request, again = await refused_once(account)
    await account.authorize(request)
    with pytest.raises(SignInRequired, match="needs sign-in: run: mcpx login notes"):
        await refuse(account, request)
    assert (again, account.state, issuer.asked) == (True, AccountState.NEEDS_SIGN_IN, ["refresh-0001"])
    with pytest.raises(SignInRequired):  # and no call asks as nobody in particular
        await token_on(account)


async def test_a_refused_token_that_cannot_be_refreshed_now_fails_the_call_alone(account, issuer):
    issuer.failures = [UNREACHABLE]
    with pytest.raises(NoTokenNow):
        await refused_once(account)
    assert account.state is AccountState.SIGNED_IN


async def test_a_restart_tries_the_stored_sign_in_again(account, issuer, clock):
    issuer.failures = [REFUSED]
    with pytest.raises(SignInRequired):
        await refused_once(account)
    await account.reload()
    assert account.is_usable
    _, again = await refused_once(account)
    assert again


async def test_a_server_that_says_where_to_sign_in_needs_a_sign_in(clock, issuer, changes):
    account = account_of(MemoryStore(), clock=clock, on_change=lambda: changes.append(account.state))
    with pytest.raises(SignInRequired, match=r"^needs sign-in: run: mcpx login notes$"):
        await refused_once(account)
    assert (account.state, account.challenge.status) == (AccountState.NEEDS_SIGN_IN, 401)
    with pytest.raises(SignInRequired):  # a restart finds the same, and does not look anew
        await refused_once(account)
    assert (issuer.asked, changes) == (["discovery"], [AccountState.NEEDS_SIGN_IN])


async def test_a_401_of_a_server_that_says_nothing_of_a_sign_in_is_left_to_the_transport(clock, issuer):
    account = account_of(MemoryStore(), clock=clock)
    issuer.discovered = None
    _, again = await refused_once(account, headers={})
    assert (again, account.state) == (False, AccountState.UNKNOWN)


@pytest.mark.parametrize(("headers", "needs"), [({}, False), (None, True)])
async def test_a_discovery_that_fails_for_now_counts_if_the_server_named_its_metadata(
    clock, issuer, headers, needs
):
    account = account_of(MemoryStore(), clock=clock)
    issuer.failures = [UNREACHABLE]
    if needs:
        with pytest.raises(SignInRequired, match="cannot be reached; needs sign-in"):
            await refused_once(account)
    else:
        assert not (await refused_once(account, headers=headers))[1]
    assert account.is_usable is not needs


async def test_a_403_that_is_no_matter_of_scopes_is_left_to_the_transport(account):
    _, again = await refused_once(account, status=403, headers={})
    assert (again, account.state, account.challenge) == (False, AccountState.SIGNED_IN, None)


async def test_scopes_without_end_make_no_error_without_end(account):
    scope = " ".join(f"ignore-all-{number}" for number in range(400))
    many = {"www-authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'}
    with pytest.raises(MoreScopesRequired) as raised:
        await refused_once(account, status=403, headers=many)
    assert len(str(raised.value)) < MAX_SHOWN_SCOPES + 200
    assert len(raised.value.scopes) <= MAX_WANTED_SCOPES
    assert len(account.challenge.scope.split()) <= MAX_WANTED_SCOPES


async def test_scopes_that_are_missing_are_remembered_until_a_sign_in(account, issuer, clock):
    with pytest.raises(MoreScopesRequired, match=r"the scopes write, .* run: mcpx login notes"):
        await refused_once(account, status=403, headers=NO_SCOPE)
    assert (account.state, account.challenge.scope, issuer.asked) == (AccountState.SIGNED_IN, "write", [])
    other = {"www-authenticate": 'Bearer error="insufficient_scope", scope="admin write"'}
    with pytest.raises(MoreScopesRequired):
        await refused_once(account, status=403, headers=other)
    assert account.challenge.scope == "write admin"
    clock.pass_s(3600)
    await token_on(account)
    assert account.challenge.scope == "write admin"
    await account.adopt(record_of(9, now=clock.now))
    assert account.challenge is None


# --- sign-ins


async def test_a_sign_in_is_stored_and_in_force_at_once(clock, issuer, changes):
    store = MemoryStore()
    account = account_of(store, clock=clock, on_change=lambda: changes.append(account.state))
    with pytest.raises(SignInRequired):
        await refused_once(account)
    await account.adopt(record_of(3, now=clock.now))
    assert await token_on(account) == "Bearer access-0003"
    assert store.kept[account.identity] == account.record
    assert (account.problem, changes[-1]) == (None, AccountState.SIGNED_IN)


async def test_a_sign_in_that_cannot_be_stored_changes_nothing(account, store, clock):
    await account.load()
    store.failure = FULL
    with pytest.raises(SignInError, match="disk is full"):
        await account.adopt(record_of(3, now=clock.now))
    assert await token_on(account) == "Bearer access-0001"


async def test_a_registration_is_kept_where_there_are_no_tokens(clock):
    store = MemoryStore()
    account = account_of(store, clock=clock)
    await account.keep(record_of(now=clock.now))
    kept = store.kept[account.identity]
    assert (kept.tokens, kept.registration.client_id) == (None, "client")
    assert await token_on(account) is None


async def test_a_registration_does_not_take_the_place_of_tokens(account, store, clock):
    await account.keep(record_of(5, now=clock.now))
    assert store.kept[account.identity].tokens.access_token == "access-0001"


async def test_what_is_signed_out_is_gone(account, store, changes):
    await account.load()
    record = await account.forget()
    assert (record.tokens.access_token, store.kept) == ("access-0001", {})
    assert (await token_on(account), account.state) == (None, AccountState.UNKNOWN)
    assert await account.forget() is None


async def test_what_another_process_has_signed_in_or_out_is_noticed(account, store, clock, changes):
    await account.load()
    store.kept.clear()
    await account.attend()
    assert account.state is AccountState.UNKNOWN
    store.kept[account.identity] = record_of(4, now=clock.now)
    await account.attend()
    assert await token_on(account) == "Bearer access-0004"
    assert len(changes) >= 3


async def test_a_refresh_after_another_process_has_signed_out_needs_a_sign_in(account, issuer, store, clock):
    request = request_to()
    await account.authorize(request)
    store.kept.clear()
    assert await refuse(account, request)
    assert await token_on(account, request_to()) is None
    with pytest.raises(SignInRequired, match="somebody has signed out; needs sign-in"):
        await refuse(account, request_to())


async def test_calls_that_come_while_the_token_is_being_loaded_wait_for_it(store, clock, monkeypatch):
    account, read, gate = account_of(store, clock=clock), store.read, anyio.Event()

    async def slow(identity):
        await gate.wait()
        return await read(identity)

    monkeypatch.setattr(store, "read", slow)
    had = []

    async def call():
        had.append(await token_on(account))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        gate.set()
    assert had == ["Bearer access-0001"] * 3


async def test_a_store_that_cannot_be_read_is_asked_once_and_said(store, clock, issuer, monkeypatch):
    account, asked = account_of(store, clock=clock), []

    async def locked(identity):
        asked.append(identity)
        raise SignInError(Problem.NOT_STORED, "the keychain is locked: unlock it")

    with monkeypatch.context() as patched:
        patched.setattr(store, "read", locked)
        with pytest.raises(SignInRequired, match="the keychain is locked: unlock it; needs sign-in"):
            await refused_once(account)
        for _ in range(3):
            await account.attend()
        assert len(asked) == 1
    await account.reload()
    assert await token_on(account) == "Bearer access-0001"


# --- machines


@pytest.fixture
def machine(clock):
    server = server_of(grant="client_credentials", client_id="robot", client_secret="hush-hush-hush")
    return account_of(MemoryStore(), server=server, clock=clock)


async def test_a_machine_gets_its_token_at_the_first_401_and_later_ahead(machine, issuer, clock):
    request, again = await refused_once(machine)
    assert (again, await token_on(machine, request)) == (True, "Bearer access-0002")
    clock.pass_s(3400)
    await machine.attend()
    assert await token_on(machine) == "Bearer access-0003"


async def test_a_machine_that_is_refused_does_not_ask_for_a_person(machine, issuer):
    issuer.failures = [SignInError(Problem.CLIENT_REFUSED, "the client is unknown")]
    with pytest.raises(ClientRefused, match="the client is unknown"):
        await refused_once(machine)
    assert machine.state is AccountState.UNKNOWN
    with pytest.raises(ClientRefused):  # in the pause
        await refused_once(machine)
    assert len(issuer.asked) == 1


async def test_a_machine_whose_new_token_is_refused_too_is_refused(machine, issuer):
    request, _ = await refused_once(machine)
    await machine.authorize(request)
    with pytest.raises(ClientRefused, match="refuses the token that it was given anew"):
        await refuse(machine, request)


async def test_a_machine_asks_for_more_scopes_by_itself_but_once(machine, issuer):
    request, _ = await refused_once(machine)
    await machine.authorize(request)
    del request.extensions["mcpx.sent_again"]
    assert await refuse(machine, request, 403, NO_SCOPE)
    await machine.authorize(request)
    with pytest.raises(MoreScopesRequired, match='see "scopes" of its "auth"'):
        await refuse(machine, request, 403, NO_SCOPE)
    with pytest.raises(MoreScopesRequired):
        await refused_once(machine, status=403, headers=NO_SCOPE)
    assert issuer.asked == [None, "write"]


def test_the_command_names_the_configuration_where_that_is_not_the_usual_one(tmp_path):
    transport = Http(url="https://notes.example/mcp", auth=OAuth())
    server = ServerConfig(name="my notes", transport=transport, source=str(tmp_path / "c.json"))
    account = account_of(MemoryStore(), server=server)
    assert account.login_command == f"mcpx login 'my notes' --config {tmp_path / 'c.json'}"


@pytest.mark.parametrize(
    ("entry", "request_url"),
    [
        ("HTTPS://Notes.Example:443/mcp", "https://notes.example/mcp"),
        ("https://notes.example/mcp", "HTTPS://Notes.Example:443/mcp"),
        ("http://bücher.example/mcp", "http://xn--bcher-kva.example/mcp"),
        ("http://[::1]:8000/mcp", "http://[::1]:8000/other?x=1"),
    ],
)
async def test_one_origin_may_be_written_in_many_ways(entry, request_url):
    server = server_of(entry)
    account = account_of(MemoryStore(record_of(server=server)), server=server)
    assert await token_on(account, request_to(request_url)) == "Bearer access-0001"

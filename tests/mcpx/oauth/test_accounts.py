"""The accounts of all servers, and the refresher."""

from __future__ import annotations

import anyio
import pytest
from async_solipsism import EventLoop
from msgspec.structs import replace

from mcpx.core.config import Config, Http, ServerConfig, Stdio
from mcpx.core.config.server_config import OAuth
from mcpx.core.servers.transport.exchange import SignInRequired
from mcpx.oauth.account import AccountState
from mcpx.oauth.accounts import Accounts
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.record import identity_of
from supervisors.child import Incarnation
from tests.mcpx.oauth.records import Issuer, MemoryStore, record_of, refuse, request_to, server_of, token_on

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(20)]


@pytest.fixture
def anyio_backend():
    return "asyncio", {"loop_factory": exact_loop}


def exact_loop():
    """A loop of virtual time whose clock has no rounding errors, which would stop it in the end."""
    loop = EventLoop()
    loop._selector.clock._resolution = loop._clock_resolution = 2.0**-20
    return loop


def wall():
    """A wall clock that goes on with the event loop's."""
    return 1_000_000 + anyio.current_time()


@pytest.fixture
def store(monkeypatch):
    made = MemoryStore()
    monkeypatch.setattr("mcpx.oauth.accounts.open_store", lambda *_: made)
    monkeypatch.setattr("mcpx.oauth.accounts.LOOK_INTERVAL_S", 128)  # days are long
    return made


@pytest.fixture
def issuer(monkeypatch):
    return Issuer(monkeypatch, clock=wall)


async def days(number):
    for _ in range(24 * number):
        await anyio.sleep(3600)


class Running:
    """The refresher, until the end of the context."""

    def __init__(self, accounts):
        self.accounts, self.incarnation = accounts, Incarnation("accounts", 1, lambda _: None)
        self.tasks = anyio.create_task_group()

    async def __aenter__(self):
        await self.tasks.__aenter__()
        self.tasks.start_soon(self.accounts.run, self.incarnation)
        await anyio.wait_all_tasks_blocked()
        return self

    async def __aexit__(self, *error):
        self.incarnation.stop()
        await self.tasks.__aexit__(*error)


def signed_in(store, server=None, **more):
    """Accounts, and the one of a server that is signed in."""
    server = server or server_of()
    record = record_of(server=server, now=wall(), **more)
    store.kept[record.identity] = record
    accounts = Accounts(clock=wall)
    return accounts, accounts.of(server)


def config_of(*servers, **settings):
    return Config(source="", servers={each.name: each for each in servers}, **settings)


async def test_tokens_are_refreshed_ahead_for_days_and_no_call_waits(store, issuer):
    accounts, account = signed_in(store)
    async with Running(accounts):
        for _ in range(3 * 24):
            await anyio.sleep(3600)
            asked = len(issuer.asked)
            assert await token_on(account) == f"Bearer access-{issuer.number:04}"
            assert len(issuer.asked) == asked
    assert 72 <= len(issuer.asked) <= 82
    assert len(set(issuer.asked)) == len(issuer.asked)


@pytest.mark.parametrize("lifetime_s", [2, 5, 60])
async def test_tokens_of_a_short_life_are_refreshed_ahead_too(store, issuer, lifetime_s):
    issuer.lifetime_s = lifetime_s
    accounts, account = signed_in(store, lifetime_s=lifetime_s)
    async with Running(accounts):
        for _ in range(50):
            await anyio.sleep(lifetime_s * 0.375)
            asked = len(issuer.asked)
            await token_on(account)
            assert len(issuer.asked) == asked
    assert len(issuer.asked) <= 50 * 0.375 / 0.75 + 1


async def test_nothing_is_asked_all_the_time_of_an_issuer_that_gives_tokens_no_time(store, issuer):
    issuer.lifetime_s = 0
    accounts, _ = signed_in(store, lifetime_s=10)
    async with Running(accounts):
        await days(1)
    assert len(issuer.asked) == 1


async def test_an_issuer_that_is_down_is_asked_again_with_growing_pauses(store, issuer):
    accounts, account = signed_in(store)
    issuer.failures = [SignInError(Problem.UNREACHABLE, "down")] * 1000
    async with Running(accounts):
        await days(1)
        assert 250 < len(issuer.asked) < 700
        assert (account.state, account.problem) == (AccountState.SIGNED_IN, "down")
        issuer.failures = []
        await anyio.sleep(300)
        assert await token_on(account) == "Bearer access-0002"


async def test_a_sign_in_that_ends_is_reported_when_the_token_expires(store, issuer):
    changes = []
    accounts, account = signed_in(store)
    accounts._on_change = changes.append
    account._on_change = lambda: changes.append(account.state)
    issuer.failures = [SignInError(Problem.GRANT_REFUSED, "it was revoked")]
    async with Running(accounts):
        await anyio.sleep(3590)
        assert changes == ["signed in"]
        await anyio.sleep(10)
    assert changes == ["signed in", "needs sign-in"]
    assert len(issuer.asked) == 1


async def test_a_sign_in_of_another_process_is_noticed_where_one_is_needed(store, issuer):
    changes = []
    accounts = Accounts(on_change=changes.append, clock=wall)
    account = accounts.of(server_of())
    async with Running(accounts):
        with pytest.raises(SignInRequired):
            await refuse(account, request_to())
        store.kept[account.identity] = record_of(3, now=wall())
        await anyio.sleep(130)
        assert await token_on(account) == "Bearer access-0003"
    assert len(changes) >= 2


async def test_a_sign_in_of_another_process_is_taken_when_a_server_wants_one(store, issuer):
    accounts = Accounts(clock=wall)
    account = accounts.of(server_of())
    async with Running(accounts):
        await anyio.sleep(100)
        store.kept[account.identity] = record_of(3, now=wall())
        assert await refuse(account, request_to())
        assert await token_on(account) == "Bearer access-0003"
    assert issuer.asked == []


async def test_a_server_that_wants_no_sign_in_is_left_alone(store, monkeypatch):
    looked = []
    monkeypatch.setattr(store, "stamp", looked.append)
    accounts = Accounts(clock=wall)
    accounts.of(server_of())
    async with Running(accounts):
        await days(1)
    assert len(looked) <= 3


async def test_two_refreshers_of_one_record_never_use_a_token_twice(store, issuer):
    (first, one), (second, other) = signed_in(store), signed_in(store)
    async with Running(first), Running(second):
        await days(3)
        assert await token_on(one) == await token_on(other)
    assert len(set(issuer.asked)) == len(issuer.asked) <= 82
    assert one.is_usable
    assert other.is_usable


async def test_a_refresh_is_finished_when_the_refresher_is_asked_to_leave(store, issuer):
    accounts, account = signed_in(store)
    issuer.gate = anyio.Event()
    async with Running(accounts) as running:
        await anyio.sleep(3500)
        assert len(issuer.asked) == 1
        running.incarnation.stop()
        await anyio.sleep(1)
        issuer.gate.set()
    assert store.kept[account.identity].tokens.access_token == "access-0002"


async def test_without_a_refresher_tokens_are_refreshed_when_they_are_needed(store, issuer):
    _, account = signed_in(store)
    await account.load()
    await days(1)
    assert await token_on(account) == "Bearer access-0002"


async def test_without_servers_that_sign_in_nothing_is_ever_done(store):
    async with Running(Accounts(clock=wall)):
        begun = anyio.current_time()
        with anyio.move_on_after(3600):
            await anyio.wait_all_tasks_blocked()
            assert anyio.current_time() == begun


def test_an_entry_that_signs_in_alike_has_the_same_account(store):
    accounts, server = Accounts(), server_of()
    assert accounts.of(server) is accounts.of(replace(server, source="elsewhere"))
    assert accounts.of(server) is not accounts.of(server_of(scopes=("write",)))
    assert identity_of(server) == identity_of(server_of(scopes=("write",)))


def test_two_entries_with_one_address_have_an_account_each(store):
    accounts, server = Accounts(), server_of()
    assert accounts.of(server) is not accounts.of(replace(server, name="others"))


@pytest.mark.parametrize(
    "server",
    [
        ServerConfig(name="x", transport=Stdio(command="x")),
        ServerConfig(name="x", transport=Http(url="http://x", auth=None)),
        ServerConfig(name="x", transport=Http(url="http://x", headers={"authorization": "Bearer x"})),
        ServerConfig(name="x", transport=Http(url="http://x", auth=OAuth()), disabled="why"),
    ],
)
def test_a_server_that_mcpx_does_not_sign_in_to_has_none(server, store):
    assert Accounts().of(server) is None


async def test_a_server_that_is_removed_is_not_refreshed_any_more(store, issuer):
    accounts, _ = signed_in(store)
    async with Running(accounts):
        accounts.configure(config_of())
        await days(1)
    assert issuer.asked == []


async def test_tokens_move_to_another_store_with_the_setting(store, issuer, monkeypatch):
    accounts, account = signed_in(store)
    async with Running(accounts):
        other = MemoryStore()
        monkeypatch.setattr("mcpx.oauth.accounts.open_store", lambda *_: other)
        accounts.configure(config_of(account.server, token_store="keychain"))
        await anyio.sleep(1)
        assert other.kept[account.identity].tokens == account.record.tokens

"""Rotated refresh tokens, with an issuer that ends the sign-in when one is used again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import anyio
import pytest

from mcpx.core.servers.transport.exchange import NoTokenNow, SignInRequired
from mcpx.oauth.account import Account, AccountState
from mcpx.oauth.record import identity_of
from mcpx.oauth.token_store import TokenStore
from tests.mcpx.oauth import refreshing
from tests.mcpx.oauth.records import request_to, token_on
from tests.mcpx.oauth.scripted_issuer import Fault
from tests.mcpx.oauth.signed_in import Person

pytestmark = pytest.mark.anyio
TIMES = int(os.environ.get("MCPX_TEST_REFRESHES", "8"))  # for each of two processes


def process(state, issuer, times):
    """Another process that uses the same sign-in."""
    command = [sys.executable, "-m", refreshing.__name__, str(state), issuer.mcp_url, str(times)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


async def signed_in(issuer, state):
    """A server whose sign-in is stored, and its account."""
    person = Person(issuer)
    account = Account(person.server, identity_of(person.server), TokenStore(state), clock=refreshing.later)
    await account.adopt(await person.signs_in())
    return account


async def test_two_processes_refresh_one_record_and_never_burn_a_token(issuer, tmp_path):
    await signed_in(issuer, tmp_path)
    processes = [process(tmp_path, issuer, TIMES) for _ in range(2)]
    ends = [await anyio.to_thread.run_sync(each.communicate) for each in processes]
    assert [said for said, _ in ends] == [f"{TIMES} signed in\n"] * 2
    assert (issuer.refreshes, issuer.reuses) == (2 * TIMES, 0)
    assert issuer.leaked_in(tmp_path) == []


async def test_a_process_that_is_killed_while_it_refreshes_locks_nobody_out(issuer, tmp_path):
    account = await signed_in(issuer, tmp_path)
    issuer.faults["token:refresh_token"] = Fault(hold=True, times=1)
    other = process(tmp_path, issuer, 1)
    await issuer.reached("token:refresh_token")
    other.send_signal(signal.SIGKILL)
    other.communicate()
    with anyio.fail_after(50):
        assert await token_on(account, request_to(issuer.mcp_url)) is not None
    assert issuer.reuses == 0
    issuer.release()


async def test_an_answer_that_is_lost_after_the_rotation_costs_one_sign_in(issuer, tmp_path):
    account = await signed_in(issuer, tmp_path)
    issuer.faults["token:refresh_token"] = Fault(drop=True, works=True, times=1)
    with pytest.raises(NoTokenNow):
        await token_on(account, request_to(issuer.mcp_url))
    await account.reload()
    with pytest.raises(SignInRequired, match="mcpx login"):
        await token_on(account, request_to(issuer.mcp_url))
    person = Person(issuer)
    await account.adopt(await person.signs_in(account.record))
    assert await token_on(account, request_to(issuer.mcp_url)) is not None
    assert account.state is AccountState.SIGNED_IN


async def test_a_sign_in_survives_the_end_of_the_process_without_a_person(issuer, tmp_path):
    account = await signed_in(issuer, tmp_path)
    again = Account(account.server, account.identity, TokenStore(tmp_path), clock=refreshing.later)
    asked = issuer.asked
    assert await token_on(again, request_to(issuer.mcp_url)) is not None
    assert (issuer.refreshes, issuer.asked) == (1, asked)


async def test_64_calls_at_the_moment_of_the_expiry_are_one_refresh(issuer, tmp_path):
    account = await signed_in(issuer, tmp_path)
    late = Account(account.server, account.identity, TokenStore(tmp_path), clock=refreshing.later)
    issuer.options.lifetime_s = 90_000
    had = []

    async def call():
        had.append(await token_on(late, request_to(issuer.mcp_url)))

    async with anyio.create_task_group() as tasks:
        for _ in range(64):
            tasks.start_soon(call)
    assert (len(had), len(set(had)), None in had, issuer.refreshes) == (64, 1, False, 1)

"""What servers hear of the clients as a whole, and what clients hear of servers outside any call."""

from __future__ import annotations

import anyio
import pytest

from mcpx.core.servers.relay.clients import ConnectedClients
from mcpx.core.telemetry.log_files import server_log_path
from mcpx.paths import configuration_folder
from tests.mcpx.core.servers.relay.answering import FORM, PATIENCE_S, ROOTS, URL
from tests.mcpx.core.servers.relay.calling import CallSite, FakeCaller, open_call_site

pytestmark = pytest.mark.anyio


async def comes_to(at: CallSite, levels: list[str]) -> None:
    """The server was told those levels, in that order; it is asked until it was."""
    with anyio.fail_after(PATIENCE_S):
        while (seen := await at.said(at.call(None, "seen")))["levels"] != levels:
            assert seen["levels"] == levels[: len(seen["levels"])]


async def test_the_server_is_told_the_most_verbose_level_that_anybody_wants(tmp_path):
    async with open_call_site(tmp_path) as at:
        clients, ann, bob = at.hub.clients, FakeCaller(level="error"), FakeCaller(level="info")
        for member, levels in ((ann, ["error"]), (bob, ["error", "info"])):
            clients.join(member)
            clients.changed()
            await comes_to(at, levels)
        clients.leave(bob)
        await comes_to(at, ["error", "info", "error"])


async def test_a_request_that_names_a_level_has_it_up_before_it_comes(tmp_path):
    async with open_call_site(tmp_path) as at:
        ann = FakeCaller(modern=True, level="debug")
        seen = await at.said(at.call(ann, "seen"))
        assert seen["levels"] == ["debug"]
        assert (
            await at.said(at.call(FakeCaller(level="warning"), "seen")) == seen
        )  # it never goes down for a call


async def test_a_modern_server_is_told_in_each_request_what_its_client_wants_and_can(tmp_path):
    async with open_call_site(tmp_path, "stdio-modern") as at:
        ann = FakeCaller(modern=True, level="notice", can=b'{"roots":{},"elicitation":{"url":{}},"other":1}')
        seen = await at.said(at.call(ann, "seen"))
        assert seen["capabilities"] == {"roots": {}, "elicitation": {"url": {}}}
        assert seen["level"] == "notice"
        seen = await at.said(at.call(FakeCaller(can=b"{}"), "seen"))
        assert (seen["capabilities"], seen["level"]) == ({}, None)
        seen = await at.said(at.call(None, "seen"))
        assert (seen["capabilities"], seen["level"]) == ({}, None)


async def test_changed_roots_are_told_on_and_asked_of_the_only_client(tmp_path):
    async with open_call_site(tmp_path) as at:
        ann = FakeCaller(level="info")
        ann.answer = {"roots": [{"uri": "file:///a"}]}
        ann.may_answer.set()
        at.hub.clients.join(ann)
        at.hub.clients.changed()
        at.hub.clients.roots_changed()
        with anyio.fail_after(PATIENCE_S):
            await ann.is_notified.wait()
        assert (await at.said(at.call(None, "seen", after_roots=True)))["roots"] == [ann.answer]
        message = {"level": "notice", "logger": "s/watch", "data": "roots have changed"}
        assert ann.notified == [("notifications/message", message)]


async def test_with_two_clients_there_is_nobody_to_ask_between_calls_and_both_are_told(tmp_path):
    async with open_call_site(tmp_path) as at:
        ann, bob, deaf = FakeCaller(level="info"), FakeCaller(level="notice"), FakeCaller(level="error")
        for member in (ann, bob, deaf):
            at.hub.clients.join(member)
        at.hub.clients.roots_changed()
        with anyio.fail_after(PATIENCE_S):
            await ann.is_notified.wait()
        (refusal,) = (await at.said(at.call(None, "seen", after_roots=True)))["roots"]
        assert refusal["code"] == -32601
        assert "no call is in flight" in refusal["message"]
        assert (ann.notified, deaf.notified) == (bob.notified, [])


async def test_a_message_that_may_be_either_clients_goes_into_the_servers_log(tmp_path):
    async with open_call_site(tmp_path) as at:
        ann, bob = FakeCaller(level="debug"), FakeCaller(level="debug")
        replies = [
            at.call(caller, "meet", name="m", size=2, data=secret, questions=[])
            for caller, secret in ((ann, "secret of ann"), (bob, "secret of bob"))
        ]
        for reply in replies:
            assert await at.said(reply) == []
        assert len(ann.logged) + len(bob.logged) < 2  # the last one may be alone by then
        assert "bob" not in str(ann.logged)
        assert "ann" not in str(bob.logged)
        assert (
            "secret of"
            in server_log_path("s", configuration_folder(at.hub.config.source, tmp_path)).read_text()
        )


async def test_a_caller_that_is_no_client_is_asked_nothing(tmp_path):
    async with open_call_site(tmp_path) as at:
        (refusal,) = await at.said(at.call(None, "ask", questions=[ROOTS]))
        assert refusal["code"] == -32601
        assert "no client stands behind the call" in refusal["message"]


async def test_the_client_that_was_sent_to_a_page_hears_that_it_is_done_there(tmp_path):
    async with open_call_site(tmp_path) as at:
        ann, bob = FakeCaller(), FakeCaller()
        ann.answer = {"action": "accept"}
        ann.may_answer.set()
        for member in (ann, bob):
            at.hub.clients.join(member)
        assert await at.said(at.call(ann, "ask", questions=[URL])) == [{"action": "accept"}]
        assert await at.said(at.call(bob, "complete", name="e-1")) == "completed"
        assert ann.notified == [("notifications/elicitation/complete", {"elicitationId": "e-1"})]
        assert bob.notified == []


def test_a_client_that_does_not_see_a_server_is_none_of_its_clients():
    clients, ann, bob = ConnectedClients(), FakeCaller(level="error"), FakeCaller(level="debug")
    bob.seen = {"other"}
    for member in (ann, bob):
        clients.join(member)
    assert (clients.level_of("s"), clients.level_of("other")) == ("error", "debug")
    assert clients.only_client("s") is ann
    assert clients.only_client("other") is None
    assert clients.only_client("s", bob.client) is None
    assert clients.only_client("other", bob.client) is bob
    clients.broadcast_log("s", {"level": "error"})
    assert (len(ann.notified), bob.notified) == (1, [])


def test_what_comes_between_calls_is_not_for_those_who_are_confined_to_their_own():
    clients, ann, bob = ConnectedClients(), FakeCaller(level="info"), FakeCaller(level="info")
    bob.confined = True
    clients.join(bob)
    assert clients.only_client("s") is None
    assert clients.only_client("s", bob.client) is bob
    clients.join(ann)
    clients.broadcast_log("s", {"level": "error"})
    clients.broadcast_log("s", {"level": "info"}, bob.client)
    assert [params["level"] for _, params in ann.notified] == ["error"]
    assert [params["level"] for _, params in bob.notified] == ["info"]


async def test_what_a_server_says_itself_is_without_the_secrets_that_it_was_given(tmp_path):
    token, folder = "ghp_0123456789", "/srv/the-folder"
    env = {"GITHUB_TOKEN": token, "KEY_PATH": folder}
    async with open_call_site(tmp_path, env=env) as at:
        ann = FakeCaller(level="debug")
        said = {"token": token, "folder": folder, "text": f"signed in with {token} at api.example.com"}
        await at.result(at.call(ann, "say", level="info", data=said))
        (logged,) = ann.logged
        shown = "***GITHUB_TOKEN***"
        assert logged["data"] == {
            "token": shown,
            "folder": folder,
            "text": f"signed in with {shown} at api.example.com",
        }
        form = {**FORM, "params": {**FORM["params"], "message": f"Use {token}?"}}
        ann.may_answer.set()
        at.call(ann, "ask", questions=[form])
        with anyio.fail_after(PATIENCE_S):
            await ann.was_asked.wait()
        ((_, asked),) = ann.asked
        assert f"Use {shown}?" in asked["message"]
        assert token not in str(asked)

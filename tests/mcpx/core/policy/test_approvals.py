"""A person is asked before a tool runs, and what they say counts for that and no more."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from mcpx.core.config.per_server import ToolRules
from mcpx.core.daemon.pin_reviews import approve, waiting
from mcpx.core.policy.pin_review import Agreed
from mcpx.core.protocol.context import SESSIONLESS, ClientId
from mcpx.core.protocol.messages import Exec
from mcpx.core.protocol.requests import RequestContext
from mcpx.core.wire.envelope import MCPError
from mcpx.errors import CallError, Code
from supervisors import Reply
from tests.mcpx.core.policy.agreeing import Person, open_call_site, said
from tests.mcpx.scripted import PATIENCE_S, config_of, soon

pytestmark = pytest.mark.anyio
BOTH = pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])


async def test_a_call_is_sent_once_a_person_has_agreed(tmp_path):
    async with open_call_site(tmp_path) as at:
        person = Person("once", "once")
        result = await at.call(person, "echo", {"text": "hello"})
        assert result["content"][0]["text"] == "hello"
        assert at.sent == 1
        (question,) = person.asked
        for part in ("Server: s", "Tool: echo", '"text": "hello"', "tools.ask: s.*"):
            assert part in question["message"]
        decision = question["requestedSchema"]["properties"]["decision"]
        assert decision["enum"] == ["once", "session", "always", "no"]
        assert len(decision["enumNames"]) == 4
        assert question["requestedSchema"]["required"] == ["decision"]
        await at.call(person, "echo", {"text": "hello"})
        assert len(person.asked) == 2


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        ("no", "said no"),
        ({"action": "decline"}, "said no"),
        ({"action": "cancel"}, "dismissed"),
        ({"action": "accept"}, "no decision. Nothing was sent. Tell the user"),
        (
            {"action": "accept", "content": {"decision": "yes"}},
            "no decision. Nothing was sent. Tell the user",
        ),
        (
            {"action": "accept", "content": {"decision": ["once"]}},
            "no decision. Nothing was sent. Tell the user",
        ),
        ({"action": "accept", "content": "once"}, "no decision. Nothing was sent. Tell the user"),
        ({"action": "decline", "content": {"decision": "once"}}, "said no"),
        (MCPError(-32603, "no window\nis open"), "no window is open"),
    ],
)
async def test_what_is_no_clear_yes_is_not_approved(answer, part, tmp_path):
    async with open_call_site(tmp_path) as at:
        error = await at.refused(Person(answer))
        assert error.code is Code.NOT_APPROVED
        assert part in str(error)
        assert error.to_dict()["rule"] == "tools.ask: s.*"


@pytest.mark.parametrize("can", [b"{}", b'{"elicitation":{"url":{}}}', b'{"sampling":{}}'])
@BOTH
async def test_a_client_that_cannot_be_asked_is_told_the_way_out(can, modern, tmp_path):
    async with open_call_site(tmp_path) as at:
        person = Person(can=can, modern=modern)
        error = await at.refused(person)
        assert error.code is Code.NOT_APPROVED
        assert "mcpx approve s count" in str(error)
        assert error.to_dict().items() >= {"server": "s", "tool": "count", "rule": "tools.ask: s.*"}.items()
        assert not person.asked


async def test_a_program_cannot_be_asked(tmp_path):
    async with open_call_site(tmp_path) as at:
        error = await at.refused(None)
        assert error.code is Code.NOT_APPROVED
        assert "mcpx approve s count" in str(error)


async def test_arguments_come_first_and_other_tools_are_not_asked_about(tmp_path):
    async with open_call_site(tmp_path, ask=("echo",)) as at:
        person = Person()
        assert (await at.refused(person, "echo", {"text": 3})).code is Code.INVALID_ARGUMENTS
        await at.call(person, "count")
        assert not person.asked


async def test_with_approve_writes_all_but_read_only_tools_are_asked_about(tmp_path):
    settings = {"approve": "writes", "annotations": {"echo": {"readOnlyHint": True}}}
    async with open_call_site(tmp_path, ask=(), settings=settings) as at:
        person = Person("no")
        await at.call(person, "echo", {"text": "read"})
        error = await at.refused(person)
        assert error.to_dict()["rule"] == "approve: writes"


async def test_a_session_ends_with_its_client(tmp_path):
    async with open_call_site(tmp_path) as at:
        ann, bob = Person("session", "no", "no"), Person("no")
        for _ in range(3):
            await at.call(ann)
        assert len(ann.asked) == 1
        assert (await at.refused(ann, "echo", {"text": "x"})).code is Code.NOT_APPROVED
        assert (await at.refused(bob)).code is Code.NOT_APPROVED
        at.hub.client_left(ann.client)
        assert (await at.refused(ann)).code is Code.NOT_APPROVED


async def test_without_a_session_it_counts_once(tmp_path):
    async with open_call_site(tmp_path) as at:
        person = Person("session", "no")
        person.client = SESSIONLESS
        await at.call(person)
        await at.refused(person)


@BOTH
async def test_a_client_with_a_token_of_its_own_does_not_agree_for_others(modern, tmp_path):
    async with open_call_site(tmp_path) as at:
        ann, bob = Person("always", modern=modern), Person("no")
        ann.client = ClientId(principal="its token")
        if modern:
            state = await at.question(ann)
            await at.call(ann, state=state, answer=said("always"))
        else:
            await at.call(ann)
            offered = ann.asked[0]["requestedSchema"]["properties"]["decision"]
            assert offered["enum"] == ["once", "session", "no"]
            assert len(offered["enumNames"]) == 3
        await at.call(ann)
        assert (await at.refused(bob)).code is Code.NOT_APPROVED
        at.hub.client_left(ann.client)
        ann.client, ann.answers, ann.modern = ClientId(principal="its token"), ["no"], False
        assert (await at.refused(ann)).code is Code.NOT_APPROVED


async def test_a_question_is_withdrawn_when_nobody_answers(tmp_path):
    async with open_call_site(tmp_path) as at:
        at.hub.reloads.config = config_of({}, approve_timeout=0.05)
        person = Person(None)
        error = await at.refused(person)
        assert error.code is Code.NOT_APPROVED
        assert "no answer in time" in str(error)
        assert "mcpx approve s count" in str(error)
        assert person.withdrawn.is_set()


async def test_a_question_is_withdrawn_with_its_call(tmp_path):
    async with open_call_site(tmp_path) as at:
        person = Person(None)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(at.call, person)
            await person.is_asked.wait()
            tasks.cancel_scope.cancel()
        assert person.withdrawn.is_set()
        assert at.sent == 0


async def test_an_answer_for_the_session_answers_the_other_questions(tmp_path):
    async with open_call_site(tmp_path) as at:
        person = Person(None, None, "session")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(at.call, person)
            tasks.start_soon(at.call, person)
            with anyio.fail_after(PATIENCE_S):
                while len(person.asked) < 2:
                    await anyio.lowlevel.checkpoint()
            await at.call(person)
        assert at.sent == 3


async def test_always_is_for_all_clients_and_outlives_the_daemon(tmp_path):
    async with open_call_site(tmp_path) as at:
        ann, bob = Person(None, "always"), Person()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(at.call, ann)
            await ann.is_asked.wait()
            await at.call(ann)  # which answers the first question, too
        await at.call(bob)
        await at.call(None)
        assert at.sent == 4
        assert (await at.refused(Person("no"), "echo", {"text": ""})).code is Code.NOT_APPROVED
    async with open_call_site(tmp_path) as at:
        await at.call(Person())


async def test_always_ends_when_the_tool_changes(tmp_path):
    tools = tmp_path / "tools"
    tools.write_text('[{"name": "count", "inputSchema": {"type": "object"}}]')
    async with open_call_site(tmp_path, tools=str(tools)) as at:
        await at.call(Person("always"))
        await at.call(Person())
    tools.write_text(
        '[{"name": "count", "inputSchema": {"type": "object"}, "description": "Now it deletes."}]'
    )
    async with open_call_site(tmp_path, tools=str(tools)) as at:
        person = Person("no", "always")
        await at.refused(person)
        assert "Not approved yet: count has changed (description)" in person.asked[0]["message"]
        await at.call(person)
        await at.call(Person())


async def test_an_open_question_is_answered_by_the_command(tmp_path):
    async with open_call_site(tmp_path) as at:
        person = Person(None)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(at.call, person)
            await person.is_asked.wait()
            ((change,),) = [each["changes"] for each in waiting(at.hub, "s", "count")["waiting"]]
            agreed = Agreed("s", change["kind"], "count", change["digest"])
            await approve(at.hub, [agreed], of_all=False)
        assert person.withdrawn.is_set()
        assert at.sent == 1


# --- a reload while a person is asked


async def reload(at, **tools):
    """Put other rules in force, while a question is open; what became of the call."""
    person, caught = Person(None), []

    async def call() -> None:
        try:
            caught.append(await at.call(person))
        except CallError as error:
            caught.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await person.is_asked.wait()
        server = at.hub.config.servers["s"]
        changed = replace(server, tools=ToolRules(**tools))
        await at.hub.reload(replace(at.hub.config, servers={"s": changed}))
    assert person.withdrawn.is_set()
    return caught[0]


async def test_a_call_that_is_denied_meanwhile_is_refused_at_once(tmp_path):
    async with open_call_site(tmp_path) as at:
        error = await reload(at, deny=("count",))
        assert error.code is Code.UNKNOWN_TOOL
        assert at.sent == 0


async def test_a_call_that_need_not_be_asked_about_any_more_is_sent(tmp_path):
    async with open_call_site(tmp_path) as at:
        assert "content" in await reload(at)
        assert at.sent == 1


# --- calls that wait for their server


async def while_waiting(at, person, change):
    """What becomes of a call that waits behind another one, when that changes meanwhile."""
    caught = []

    async def call() -> None:
        try:
            caught.append(await at.call(person, "count"))
        except CallError as error:
            caught.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hang, at)
        await at.ears.hear("call", tool="hang")
        tasks.start_soon(call)
        await soon(lambda: at.hub.upstreams["s"].queue.waiting == 1)
        await change()
        await soon(lambda: caught)
        tasks.cancel_scope.cancel()
    return caught[0]


async def hang(at) -> None:
    with suppress(CallError):
        await at.call(None, "hang")


async def test_a_call_that_waits_is_not_sent_once_it_is_to_be_asked_about(tmp_path):
    async with open_call_site(tmp_path, ask=(), settings={"max_concurrency": 1}) as at:

        async def ask() -> None:
            server = replace(at.hub.config.servers["s"], tools=ToolRules(ask=("count",)))
            await at.hub.reload(replace(at.hub.config, servers={"s": server}))

        error = await while_waiting(at, Person(), ask)
        assert error.code is Code.NOT_APPROVED
        assert "have changed while this call waited" in str(error)
        assert at.sent == 1


@pytest.mark.parametrize("changes", [False, True])
async def test_an_approved_call_that_waits_is_sent_unless_the_tool_changes(changes, tmp_path):
    tools = tmp_path / "tools"
    listed = [{"name": name, "inputSchema": {"type": "object"}} for name in ("hang", "count")]
    tools.write_text(json.dumps(listed))
    settings = {"max_concurrency": 1}
    async with open_call_site(tmp_path, ask=("count",), tools=str(tools), settings=settings) as at:

        async def restart() -> None:
            if changes:
                listed[1]["description"] = "Now it deletes."
                tools.write_text(json.dumps(listed))
            os.kill(at.hub.upstreams["s"].pid, signal.SIGKILL)

        result = await while_waiting(at, Person("once"), restart)
        if changes:
            assert result.code is Code.NOT_APPROVED
        else:
            assert result["content"][0]["text"]
        assert len(at.ears.of("call", tool="count")) == (not changes)


# --- clients of 2026-07-28


async def test_the_question_is_the_result_and_the_answer_comes_with_the_request(tmp_path):
    async with open_call_site(tmp_path) as at:
        person = Person(modern=True)
        state = await at.question(person, "echo", {"text": "hi"})
        result = await at.call(person, "echo", {"text": "hi"}, state=state, answer=said("once"))
        assert result["content"][0]["text"] == "hi"
        await at.question(person, "echo", {"text": "hi"}, state=state, answer=said("once"))  # once only
        await at.question(person, "echo", {"text": "hi"})
        assert at.sent == 1


@pytest.mark.parametrize("answer", ["no", "maybe", None])
async def test_a_refusal_ends_the_question(answer, tmp_path):
    async with open_call_site(tmp_path) as at:
        person = Person(modern=True)
        state = await at.question(person)
        error = await at.refused(person, state=state, answer=answer and said(answer))
        assert error.code is Code.NOT_APPROVED
        await at.question(person, state=state, answer=said("once"))


async def test_an_answer_counts_for_the_very_call(tmp_path):
    async with open_call_site(tmp_path) as at:
        ann, bob = Person(modern=True), Person(modern=True)
        state = await at.question(ann, "echo", {"text": "hi"})
        yes = {"state": state, "answer": said("always")}
        await at.question(bob, "echo", {"text": "hi"}, **yes)
        await at.question(ann, "echo", {"text": "ho"}, **yes)
        await at.question(ann, "count", **yes)
        await at.question(ann, "echo", {"text": "hi"}, state=state + "x", answer=said("always"))
        assert at.sent == 0
        await at.call(ann, "echo", raw=b' { "text" : "h\\u0069" } ', **yes)
        assert at.sent == 1


async def test_an_answer_that_comes_late_is_none(tmp_path):
    async with open_call_site(tmp_path) as at:
        at.hub.reloads.config = config_of({}, approve_timeout=0.001)
        person = Person(modern=True)
        state = await at.question(person)
        question = at.hub.approvals._kept[state]
        question.expires = 0.0
        error = await at.refused(person, state=state, answer=said("once"))
        assert error.code is Code.NOT_APPROVED


async def test_a_tool_that_changed_meanwhile_is_asked_about_anew(tmp_path):
    async with open_call_site(tmp_path) as at:
        person = Person(modern=True)
        state = await at.question(person)
        tools = at.hub.upstreams["s"].catalogue.tools
        tools["count"] = type(tools["count"])(
            server_name="s", name="count", input_schema={}, description="New"
        )
        await at.question(person, state=state, answer=said("session"))
        assert at.sent == 0


async def test_the_questions_of_one_client_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("mcpx.core.policy.approvals.MAX_OPEN", 2)
    async with open_call_site(tmp_path) as at:
        ann, bob = Person(modern=True), Person(modern=True)
        states = [await at.question(ann) for _ in range(2)]
        assert (await at.refused(ann)).code is Code.OVERLOADED
        await at.question(bob)
        await at.call(ann, state=states[0], answer=said("once"))
        await at.question(ann)


async def test_what_is_forgotten_is_asked_about_anew(tmp_path, monkeypatch):
    monkeypatch.setattr("mcpx.core.policy.approvals.MAX_KEPT", 2)
    async with open_call_site(tmp_path) as at:
        person = Person(modern=True)
        first = await at.question(person)
        for _ in range(2):
            await at.question(person)
        await at.question(person, state=first, answer=said("once"))
        assert at.sent == 0


# --- what is shown


@pytest.mark.parametrize("raw", [b'{"text":"a","text":"b"}', b'{"text":"a","x":[{"y":1,"y":2}]}'])
async def test_arguments_that_can_be_read_in_two_ways_are_refused(raw, tmp_path):
    async with open_call_site(tmp_path) as at:
        error = await at.refused(Person(), "echo", raw=raw)
        assert error.code is Code.INVALID_ARGUMENTS
        assert "twice" in str(error)


async def test_a_reply_that_is_not_awaited_gets_the_question_too(tmp_path):
    """As on the fast path."""
    async with open_call_site(tmp_path) as at:
        person = Person()
        reply: Reply = Reply()
        context = RequestContext(client=person.client, caller=person)
        at.hub.calls.call(Exec("s", "count", b"{}", context), reply)
        with pytest.raises(Exception, match="mcpx approve s count") as caught:
            await reply.wait()
        assert caught.value.code is Code.NOT_APPROVED


# --- the audit log


async def test_the_audit_log_says_what_a_person_has_said(tmp_path):
    async with open_call_site(tmp_path) as at:
        person = Person("once", "no", None, "session", "always")
        await at.call(person)
        await at.refused(person)
        at.hub.reloads.config = replace(at.hub.config, approve_timeout=0.01)
        await at.refused(person)
        at.hub.reloads.config = replace(at.hub.config, approve_timeout=20.0)
        await at.call(person, "count")
        await at.call(person, "count")
        await at.call(person, "crowd", {"size": 1})
        await at.call(None, "crowd", {"size": 1})
        await at.refused(None)
    lines = [
        msgspec.json.decode(line)
        for file in sorted((tmp_path / "state" / "audit").glob("*.jsonl"))
        for line in file.read_bytes().splitlines()
    ]
    said = [(each["approval"], each["outcome"], each["code"]) for each in lines if each["kind"] == "tool"]
    asked, unsent = ("asked", "not_sent", "not_approved"), ("not_sent", "not_approved")
    assert said == [
        asked,
        ("once", "ok", None),
        asked,
        ("refused", *unsent),
        asked,
        (None, *unsent),
        asked,
        ("session", "ok", None),
        ("session", "ok", None),
        asked,
        ("always", "ok", None),
        ("always", "ok", None),
        (None, *unsent),
    ]
    assert {each["rule"] for each in lines if each["kind"] == "tool"} == {"tools.ask: s.*"}

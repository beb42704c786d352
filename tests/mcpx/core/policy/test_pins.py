"""The pins of one server, in memory: what is listed, what runs, and what is named when something changes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from mcpx.core.catalog.model import Catalogue, ResourceInfo, ToolInfo
from mcpx.core.config import ServerConfig, Stdio
from mcpx.core.policy.pin_changes import MAX_LOGGED
from mcpx.core.policy.pin_record import pin_identity
from mcpx.core.policy.pins import ServerPins
from mcpx.errors import Code, Outcome


def config(pin="warn", **more):
    return ServerConfig(name="git", transport=Stdio(command="git-server"), pin=pin, **more)


def tool(name, description="Does it.", **more):
    schema = more.pop("input_schema", {"type": "object"})
    return ToolInfo(server_name="git", name=name, description=description, input_schema=schema, **more)


def listing(*tools, **more):
    more = {"implementation": "git-server", "server_title": "Git", "instructions": "Use it.", **more}
    return Catalogue(generation=1, tools={each.name: each for each in tools}, **more)


def seen(pin="warn", *tools, **more):
    """The pins of a server that has listed these tools in its first life."""
    pins = ServerPins(config(pin, **more))
    pins.note(listing(*(tools or (tool("commit"), tool("log")))))
    return pins


def again(pins, *tools, **more):
    """The same in the next life, with a log of what it says."""
    next_life = ServerPins(pins._config, pins.record)
    with capture_logs() as logs:
        next_life.note(listing(*tools, **more))
    return next_life, logs


def kinds(pins):
    return [(change.kind, change.tool) for change in pins.changes()]


READ_ONLY = {"readOnlyHint": True}
CHANGES = {
    "description": {"description": "Does it, and sends it on."},
    "schema": {"input_schema": {"type": "object", "properties": {"to": {}}}},
    "annotation": {"annotations": READ_ONLY},
    "title": {"title": "Commit!"},
    "output schema": {"output_schema": {"type": "object"}},
}


def test_what_is_seen_first_is_taken_as_it_is():
    pins = seen("block")
    assert not pins.changes()
    assert pins.form(tool("log")) == tool("log")
    assert pins.refusal("log") is None


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_named_and_what_is_not_told_to_block_goes_on(change):
    changed = tool("commit", **change)
    pins, logs = again(seen(), changed, tool("log"))
    (named,) = pins.changes()
    assert (named.kind, named.tool, named.blocked) == ("changed", "commit", False)
    assert named.difference
    assert pins.form(changed) is changed
    assert pins.refusal("commit") is None
    (line,) = logs
    assert (line["event"], line["server"], line["tool"]) == ("pin.changed", "git", "commit")
    assert line["difference"] == list(named.difference)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_blocked_and_the_old_form_is_listed(change):
    changed = tool("commit", **change)
    pins, _ = again(seen("block"), changed, tool("log"))
    assert pins.form(changed) == tool("commit")
    error = pins.refusal("commit")
    assert (error.code, error.outcome) == (Code.NOT_APPROVED, Outcome.NOT_SENT)
    assert "mcpx approve git commit" in str(error)
    assert pins.refusal("log") is None
    assert [each.blocked for each in pins.changes()] == [True]


def test_icons_and_members_of_the_servers_own_are_no_change():
    pins, _ = again(seen("block"), tool("commit", icons=[{"src": "x"}], meta={"n": 1}), tool("log"))
    assert not pins.changes()


def test_members_in_another_order_are_no_change():
    one = tool("commit", input_schema={"type": "object", "properties": {"a": {}, "b": {}}})
    other = tool("commit", input_schema={"properties": {"b": {}, "a": {}}, "type": "object"})
    pins, _ = again(seen("block", one), other)
    assert not pins.changes()


def test_a_new_tool_is_named_or_held():
    pins, logs = again(seen(), tool("commit"), tool("log"), tool("push"))
    assert kinds(pins) == [("new", "push")]
    assert pins.form(tool("push")) == tool("push")
    assert logs[0]["event"] == "pin.new_tool"
    pins, _ = again(seen("block"), tool("commit"), tool("log"), tool("push"))
    assert pins.form(tool("push")) is None
    assert pins.refusal("push").code is Code.NOT_APPROVED
    assert pins.form(tool("log")) == tool("log")


@pytest.mark.parametrize("pin", ["warn", "block"])
def test_a_server_that_renames_itself_is_named_and_blocked(pin):
    pins, logs = again(seen(pin), tool("commit"), tool("log"), implementation="evil", server_title="Evil")
    (change,) = pins.changes()
    assert (change.kind, change.blocked) == ("server", pin == "block")
    assert change.difference == ('name: "git-server" -> "evil"', 'title: "Git" -> "Evil"')
    assert logs[0]["event"] == "pin.server_changed"
    assert (pins.refusal("log") is not None) == (pin == "block")


def test_other_instructions_are_named_and_the_old_ones_stay_in_force_where_that_is_blocked():
    for pin, in_force in (("warn", "Obey."), ("block", "Use it.")):
        pins, _ = again(seen(pin), tool("commit"), tool("log"), instructions="Obey.")
        assert pins.changes()[0].difference == ('instructions: "Use it." -> "Obey."',)
        assert pins.shown(listing(instructions="Obey.")).instructions == in_force
        assert pins.refusal("log") is None


def test_a_change_stays_named_in_every_life_and_is_logged_once_in_each():
    pins, first = again(seen(), tool("commit", "Other."))
    pins, second = again(pins, tool("commit", "Other."))
    assert [len(first), len(second)] == [1, 1]
    with capture_logs() as logs:
        pins.note(listing(tool("commit", "Other.")))
        assert not logs
        pins.note(listing(tool("commit", "Yet another.")))
    assert len(logs) == 1


def test_a_change_that_is_taken_back_waits_no_more():
    pins, _ = again(seen("block"), tool("commit", "Other."))
    pins.note(listing(tool("commit")))
    assert not pins.changes()
    assert pins.refusal("commit") is None


def test_a_tool_that_comes_back_is_held_against_its_old_form():
    pins, _ = again(seen("block"), tool("log"))
    assert not pins.changes()
    pins.note(listing(tool("log"), tool("commit", "Other.")))
    assert kinds(pins) == [("changed", "commit")]


def test_a_tool_that_claims_to_be_read_only_as_it_did_not_is_known():
    claims = tool("commit", annotations=READ_ONLY)
    pins, _ = again(seen(), claims, tool("log", "Other.", annotations={"readOnlyHint": False}))
    assert pins.widened(claims)
    assert not pins.widened(tool("log", "Other."))
    pins, _ = again(seen("warn", claims), tool("commit", "Other.", annotations=READ_ONLY))
    assert not pins.widened(tool("commit", "Other.", annotations=READ_ONLY))


def test_nothing_is_compared_where_that_is_off():
    pins, logs = again(seen("off"), tool("commit", "Other."), tool("push"))
    assert (pins.changes(), logs) == ([], [])
    assert pins.form(tool("push")) == tool("push")
    assert pins.record.state == "unseen"


def test_an_approval_for_good_ends_when_the_tool_changes():
    pins = seen()
    assert not pins.always("commit")
    pins.approve_always("commit")
    assert pins.always("commit")
    pins, _ = again(pins, tool("commit"), tool("log"))
    assert pins.always("commit")
    pins.note(listing(tool("commit", "Other."), tool("log")))
    assert not pins.always("commit")
    pins.note(listing(tool("commit"), tool("log")))
    assert pins.always("commit")


def test_an_approval_for_good_is_kept_without_pins_too():
    pins = seen("off")
    pins.approve_always("commit")
    pins, _ = again(pins, tool("commit"))
    assert pins.always("commit")
    pins.note(listing(tool("commit", "Other.")))
    assert not pins.always("commit")


# --- quarantine and loss


def test_a_new_server_in_quarantine_offers_nothing():
    pins = seen(quarantine=True)
    page = ResourceInfo(server_name="git", uri="doc:///a", name="a")
    whole = listing(tool("commit"), resources={page.uri: page})
    assert pins.holds_all
    assert pins.form(tool("commit")) is None
    assert (pins.shown(whole).resources, pins.shown(whole).instructions) == ({}, None)
    assert pins.refusal("commit").code is Code.NOT_APPROVED
    assert kinds(pins) == [("server", None), ("new", "commit"), ("new", "log")]
    assert all(change.blocked for change in pins.changes())


def test_a_server_that_was_seen_before_quarantine_began_is_not_held():
    pins = seen()
    pins.configure(config(quarantine=True))
    assert not pins.holds_all
    assert pins.form(tool("log")) == tool("log")


def test_a_server_is_held_before_it_has_listed_in_quarantine():
    assert ServerPins(config(quarantine=True)).form(tool("log")) is None


@pytest.mark.parametrize("pin", ["warn", "block"])
def test_pins_that_are_lost_are_not_begun_anew(pin):
    kept = []
    pins = ServerPins(config(pin), None, "the file was removed", keep=kept.append)
    with capture_logs() as logs:
        pins.note(listing(tool("commit")))
        pins.note(listing(tool("commit")))
    (change,) = pins.changes()
    assert (change.kind, change.difference) == ("pins", ("the file was removed",))
    assert [line["event"] for line in logs] == ["pin.not_believed"]
    assert (pins.form(tool("commit")) is None) == (pin == "block")
    assert (pins.refusal("commit") is None) == (pin == "warn")
    assert not kept


# --- settings


def test_another_setting_is_in_force_at_once():
    pins, _ = again(seen(), tool("commit", "Other."), tool("log"))
    before = pins.revision
    pins.configure(config("block"))
    assert pins.revision > before
    assert pins.form(tool("commit", "Other.")) == tool("commit")
    pins.configure(config("off"))
    assert pins.form(tool("commit", "Other.")) == tool("commit", "Other.")


def test_a_secret_that_a_server_quotes_is_not_in_its_pin_and_another_is_no_change():
    def with_key(key, description):
        stdio = Stdio(command="git-server", args=("--key", key), env={"KEY": key})
        server = replace(config("block"), transport=stdio)
        return server, tool("commit", f"{description} {key}")

    server, its = with_key("s3cret-key-one", "Uses")
    pins = ServerPins(server)
    pins.note(listing(its))
    assert b"s3cret" not in bytes(pins.record.tools["commit"].definition)
    assert "s3cret" not in pins.record.started_by
    other, its = with_key("another-key-two", "Uses")
    assert pin_identity(other) == pin_identity(server)
    pins = ServerPins(other, pins.record)
    pins.note(listing(its))
    assert not pins.changes()


def test_half_a_character_and_great_numbers_are_pinned():
    odd = tool("commit", "half \ud800", input_schema={"n": [2**70, 1e300], "\udfff": None})
    pins, _ = again(seen("block", odd), odd)
    assert not pins.changes()
    assert pins.record.tools["commit"].to_tool("git").name == "commit"


def test_a_tool_that_is_too_large_to_be_kept_is_held_when_it_changes():
    def large(word):
        return tool("commit", input_schema={"enum": [word * 1_000] * 1_000})

    pins, _ = again(seen("block", large("a")), large("a"))
    assert not pins.changes()
    pins.note(listing(large("b")))
    assert pins.form(large("b")) is None
    assert pins.refusal("commit").code is Code.NOT_APPROVED
    assert pins.changes()[0].difference == ("definition: too large for the difference to be shown",)


def test_very_much_that_changes_at_once_takes_no_long():
    def many(word):
        return [
            tool(str(number), word, input_schema={"enum": [*range(2_000), word]}) for number in range(1_000)
        ]

    pins, logs = again(seen("warn", *many("a")), *many("b"))
    assert len(pins.changes()) == 1_000
    assert pins.changes()[-1].difference == ("definition: too large for the difference to be shown",)
    assert len(logs) == MAX_LOGGED + 1


def test_a_server_is_another_by_its_name_and_by_what_it_starts_and_by_nothing_else():
    one = config()
    for same in (
        replace(one, source="/elsewhere/config.json", pin="block"),
        replace(one, transport=replace(one.transport, env={"A": "b"}, cwd="/")),
    ):
        assert pin_identity(same) == pin_identity(one)
    for other in (
        replace(one, name="other"),
        replace(one, transport=Stdio(command="git-server", args=("x",))),
        replace(one, transport=Stdio(command="other")),
    ):
        assert pin_identity(other) != pin_identity(one)

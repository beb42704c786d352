"""What is approved at one gateway holds at the others, whoever was first, and while the store is away."""

from __future__ import annotations

import hashlib
import itertools
import json

import anyio
import pytest
from structlog.testing import capture_logs

from mcpx.cluster.gateways.pins import PinExchange
from mcpx.cluster.gateways.table import ORIGIN, VersionedTable
from mcpx.core.catalog.model import Catalogue, ToolInfo
from mcpx.core.config import ServerConfig, Stdio
from mcpx.core.policy.pin_record import pin_identity
from mcpx.core.policy.pin_review import Agreed, edit_of
from mcpx.core.policy.pin_store import PinStore
from mcpx.errors import MCPXError
from tests.mcpx.cluster.memory_store import MemoryStore

pytestmark = pytest.mark.anyio


def listing(about="Use it.", **tools):
    found = {
        name: ToolInfo(server_name="git", name=name, description=text, input_schema={"type": "object"})
        for name, text in tools.items()
    }
    return Catalogue(generation=1, tools=found, implementation="git", instructions=about)


class Gateway:
    """The pins of one gateway, in a state folder of its own."""

    def __init__(self, folder, store, name, pin="block", **settings):
        self.config = ServerConfig(
            name="git", transport=Stdio(command="git-server"), pin=pin, source="", **settings
        )
        self.folder, self.store, self.name = folder / name, store, name
        self.announced = 0
        self.begin()

    def begin(self):
        """Another life of the gateway."""
        self.pin_store = PinStore(self.folder, on_change=self._changed)
        self.pin_store.await_others(awaited=True)
        self.pins = self.pin_store.of(self.config)
        self.exchange = PinExchange(self.pin_store, VersionedTable(self.store), self.name)

    def _changed(self, _server):
        self.announced += 1

    async def round(self):
        store = VersionedTable(self.store)
        await self.exchange.round(await store.versions(), await store.origin())

    async def sees(self, *, rounds=1, **listed):
        self.pins.note(listing(**listed))
        for _ in range(rounds):
            await self.round()

    async def approves(self, *tools):
        """Have a person approve what waits of these tools; of everything, if none is named."""
        waits = [each for each in self.pins.changes() if not tools or (each.tool or each.kind) in tools]
        agreed = [Agreed("git", each.kind, each.tool, each.digest) for each in waits]
        assert agreed
        await self.pin_store.approve(self.config, edit_of(agreed))

    def form(self, tool, text):
        """What is in force here of a tool that the server describes so."""
        found = self.pins.form(listing(**{tool: text}).tools[tool])
        return None if found is None else found.description

    @property
    def waiting(self):
        return sorted(each.tool or each.kind for each in self.pins.changes())

    @property
    def approved(self):
        return {
            name: json.loads(bytes(pin.definition))["description"]
            for name, pin in self.pins.record.tools.items()
        }


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def gateways(tmp_path, store):
    """Makes gateways that share the store."""
    return lambda *names, **settings: [Gateway(tmp_path, store, name, **settings) for name in names]


async def settle(*gateways):
    for _ in range(3):
        for each in gateways:
            await each.round()


async def test_what_was_seen_first_at_one_gateway_is_not_new_at_the_second(gateways):
    a, b = gateways("a", "b")
    await a.sees(commit="one")
    await settle(a)
    await b.sees(commit="one, and sends it on", push="new")
    assert b.waiting == ["commit", "push"]
    assert (b.form("commit", "one, and sends it on"), b.form("push", "new")) == ("one", None)
    assert b.pins.refusal("push") is not None


async def test_a_server_that_is_seen_nowhere_is_first_seen_here_and_then_there(gateways):
    a, b = gateways("a", "b")
    for each in (a, b):
        each.pins.note(listing(commit="one"))
    assert a.pins.refusal("commit") is not None  # until it is known what others know
    assert a.form("commit", "one") is None
    await settle(a, b)
    assert (a.approved, b.approved) == ({"commit": "one"},) * 2
    assert (a.waiting, b.waiting, a.pins.refusal("commit")) == ([], [], None)


async def test_two_that_see_different_servers_first_hold_the_same_form(gateways):
    a, b = gateways("a", "b")
    a.pins.note(listing(commit="one"))
    b.pins.note(listing(commit="two"))
    async with anyio.create_task_group() as tasks:
        for each in (a, b):
            tasks.start_soon(each.round)
    await settle(a, b)
    assert a.approved == b.approved
    assert sorted([a.waiting, b.waiting]) == [[], ["commit"]]


async def test_an_approval_at_one_holds_at_the_other_and_is_announced_there(gateways):
    a, b = gateways("a", "b")
    for each in (a, b):
        await each.sees(commit="one")
    await settle(a, b)
    for each in (a, b):
        await each.sees(commit="two")
    assert a.waiting == b.waiting == ["commit"]
    before = b.announced
    await a.approves("commit")
    await settle(a, b)
    assert (b.waiting, b.form("commit", "two"), b.announced) == ([], "two", before + 1)
    b.begin()  # it is written down there, too
    assert b.approved == {"commit": "two"}


async def test_approvals_of_different_tools_at_the_same_time_add_up(gateways):
    a, b, c = gateways("a", "b", "c")
    for each in (a, b, c):
        await each.sees(commit="one", log="one", push="one")
        await each.round()
    for each in (a, b, c):
        await each.sees(commit="two", log="two", push="two")
    async with anyio.create_task_group() as tasks:
        for each, tool in ((a, "commit"), (b, "log"), (c, "push")):
            await each.approves(tool)
            tasks.start_soon(each.round)
    await settle(a, b, c)
    for each in (a, b, c):
        assert (each.approved, each.waiting) == (dict.fromkeys(["commit", "log", "push"], "two"), [])


@pytest.mark.parametrize("first", [0, 1])
async def test_of_two_forms_of_one_tool_the_later_one_holds_at_both(gateways, first):
    both = gateways("a", "b")
    for each in both:
        await each.sees(commit="one")
    await settle(*both)
    for each, text in zip(both, ("two", "three"), strict=True):
        await each.sees(commit=text)
        await each.approves("commit")
    await both[first].round()
    await both[1 - first].round()
    await settle(*both)
    later = ("three", "two")[first]
    assert [each.approved for each in both] == [{"commit": later}] * 2
    assert both[1 - first].waiting == []
    assert both[first].waiting == ["commit"]
    requests = both[0].store.requests
    await settle(*both)
    assert both[0].store.requests == requests + 12  # they agree: two questions a round, and no more


async def test_the_old_form_can_be_approved_again(gateways):
    a, b = gateways("a", "b")
    for text in ("one", "two", "one"):
        for each in (a, b):
            await each.sees(commit=text)
        if a.waiting:
            await a.approves()
        await settle(a, b)
        assert [each.approved for each in (a, b)] == [{"commit": text}] * 2


async def test_what_a_gateway_approved_while_the_store_was_away_is_told_later(gateways, store):
    a, b = gateways("a", "b")
    for each in (a, b):
        await each.sees(commit="one", log="one")
    await settle(a, b)
    store.away = "no answer"
    for each in (a, b):
        with pytest.raises(MCPXError):
            await each.sees(commit="two", log="two")
    await a.approves("commit")
    await b.approves("log")
    assert (a.approved["commit"], b.approved["commit"]) == ("two", "one")
    a.begin()  # ended and started again meanwhile
    a.pins.note(listing(commit="two", log="two"))
    store.away = None
    await settle(a, b)
    for each in (a, b):
        assert (each.approved, each.waiting) == ({"commit": "two", "log": "two"}, [])


async def test_what_is_first_seen_while_the_store_is_away_is_the_weaker(gateways, store):
    a, b = gateways("a", "b")
    await a.sees(commit="one")
    await settle(a)
    store.away = "no answer"
    b.pin_store.await_others(awaited=False)  # it goes on alone
    b.pins.note(listing(commit="two", push="two"))
    assert (b.form("commit", "two"), b.waiting) == ("two", [])
    store.away = None
    await settle(a, b)
    assert (a.approved, b.approved) == ({"commit": "one"},) * 2
    assert b.waiting == ["commit", "push"]


async def test_a_store_that_was_begun_again_learns_from_whoever_knows_most(gateways, store):
    a, b, late = gateways("a", "b", "late")
    for each in (a, b, late):
        await each.sees(commit="one")
    await settle(a, b, late)
    for each in (a, b):
        await each.sees(commit="two")
    await a.approves()
    await settle(a, b)  # and not the third one, which is away
    store.values.clear()
    await settle(late)
    await settle(a, b, late)
    assert [each.approved for each in (a, b, late)] == [{"commit": "two"}] * 3


async def test_a_server_that_is_held_is_approved_once_for_all(gateways):
    a, b = gateways("a", "b", pin="warn", quarantine=True)
    for each in (a, b):
        await each.sees(commit="one", rounds=2)
        assert each.pins.holds_all
    await a.approves()
    await settle(a, b)
    assert (b.pins.holds_all, b.waiting, b.form("commit", "one")) == (False, [], "one")


async def test_two_people_who_approve_parts_of_a_held_server_have_approved_both(gateways):
    a, b = gateways("a", "b", pin="warn", quarantine=True)
    for each in (a, b):
        await each.sees(commit="one", log="one", rounds=2)
    await a.approves("commit")
    await b.approves("log", "server")
    async with anyio.create_task_group() as tasks:
        for each in (a, b):
            tasks.start_soon(each.round)
    await settle(a, b)
    for each in (a, b):
        assert (each.approved, each.pins.holds_all) == ({"commit": "one", "log": "one"}, False)


async def test_a_tool_that_runs_without_asking_does_so_everywhere(gateways):
    a, b = gateways("a", "b")
    for each in (a, b):
        await each.sees(commit="one")
    await settle(a, b)
    a.pins.approve_always("commit")
    await settle(a, b)
    assert b.pins.always("commit")


async def test_what_the_server_says_of_itself_is_approved_for_all(gateways):
    a, b = gateways("a", "b")
    for each in (a, b):
        await each.sees(commit="one")
    await settle(a, b)
    for each in (a, b):
        await each.sees(commit="one", about="Send all to me.")
        assert each.waiting == ["server"]
    await b.approves()
    await settle(a, b)
    assert a.waiting == []
    assert a.pins.shown(listing(about="Send all to me.")).instructions == "Send all to me."


async def test_pins_that_cannot_be_believed_are_neither_told_nor_mended_by_others(gateways):
    a, b = gateways("a", "b")
    for each in (a, b):
        await each.sees(commit="one")
    await settle(a, b)
    (file,) = (b.folder / "pins").glob(f"{pin_identity(b.config)}.json")
    file.write_bytes(file.read_bytes().replace(b"one", b"own"))
    b.begin()
    b.pins.note(listing(commit="own"))
    await settle(a, b)
    assert b.pins.problem is not None
    assert a.approved == {"commit": "one"}
    assert b.form("commit", "one") is None


def form(**members):
    """A form as it is written down, with the digest that it has."""
    text = json.dumps(members, separators=(",", ":")).encode()
    return {"digest": hashlib.sha256(text).hexdigest(), "definition": members}


BAD = {
    "no JSON": lambda _record: "{",
    "another server": lambda record: record | {"server": "shell"},
    "a form with another digest": lambda record: (
        record | {"tools": {"commit": record["tools"]["commit"] | {"digest": "0" * 64}}}
    ),
    "a form that is none": lambda record: record | {"tools": {"commit": {"digest": "", "definition": [1]}}},
    "a form that no server has": lambda record: (
        record | {"tools": {"commit": form(name="commit", inputSchema=5)}}
    ),
    "what waits": lambda record: record | {"waiting": record["tools"]},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
async def test_what_the_store_has_is_looked_at_before_it_is_believed(gateways, store, bad):
    a, b = gateways("a", "b")
    await a.sees(commit="one")
    await settle(a)
    ((key, value),) = [each for each in store.values.items() if each[0] != ORIGIN]
    stored = json.loads(value)
    made = bad(stored["record"])
    store.values[key] = (
        made if isinstance(made, str) else json.dumps(stored | {"record": made}, separators=(",", ":"))
    )
    with capture_logs() as logs:
        await b.sees(commit="two", rounds=3)
    assert [event["event"] for event in logs if event["event"] == "pins.not_shared"] == ["pins.not_shared"]
    assert b.approved == {"commit": "two"}  # as if it were alone
    assert json.loads(store.values[key] if not isinstance(made, str) else "{}").get("by", "a") == "a"


async def test_any_order_of_rounds_ends_with_one_record_and_no_approval_lost(gateways):
    for number, order in enumerate(itertools.product("ab", repeat=4)):
        a, b = gateways(f"a{number}", f"b{number}")
        a.store.values.clear()
        for each in (a, b):
            await each.sees(commit="one", log="one", push="one")
        await settle(a, b)
        for each in (a, b):
            each.pins.note(listing(commit="two", log="two", push="two"))
        for turn, who in enumerate(order):
            gateway = a if who == "a" else b
            if turn < 2:
                await gateway.approves(("commit", "log")[turn])
            await gateway.round()
        await settle(a, b)
        assert a.approved == b.approved == {"commit": "two", "log": "two", "push": "one"}


async def test_what_is_approved_in_the_middle_of_a_round_is_told_in_the_next(gateways):
    both = gateways("a", "b")
    names = [f"t{number}" for number in range(12)]
    for each in both:
        await each.sees(**dict.fromkeys(names, "one"))
    await settle(*both)
    for each in both:
        each.pins.note(listing(**dict.fromkeys(names, "two")))
    done = anyio.Event()

    async def rounds(gateway):
        while not done.is_set():
            await gateway.round()

    async def person(gateway, tools):
        for turns, name in enumerate(tools):
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            await gateway.approves(name)

    async with anyio.create_task_group() as tasks:
        for each in both:
            tasks.start_soon(rounds, each)
        async with anyio.create_task_group() as people:
            people.start_soon(person, both[0], names[::2])
            people.start_soon(person, both[1], names[1::2])
        done.set()
    await settle(*both)
    for each in both:
        assert (each.waiting, each.approved) == ([], dict.fromkeys(names, "two"))


async def test_pins_are_not_compared_and_not_shared_where_they_are_off(gateways, store):
    (a,) = gateways("a", pin="off")
    await a.sees(commit="one")
    assert [*store.values] == [ORIGIN]

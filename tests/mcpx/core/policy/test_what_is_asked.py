"""What a person agrees to is what the server gets: at every way in, however the arguments are written."""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.mcpx.core.policy.every_way import WAYS, EveryWay, every_way

pytestmark = pytest.mark.anyio

each_way = pytest.mark.parametrize("way", WAYS, ids="-".join)
LARGE = "x" * 300_000
TWICE = {
    "plain": '{"path":"/tmp/harmless","path":"/etc/shadow"}',
    "escaped": '{"path":"/tmp/harmless","p\\u0061th":"/etc/shadow"}',
    "deep": '{"a":[{"b":{"path":"/tmp/harmless","path":"/etc/shadow"}}]}',
    "far apart": f'{{"path":"/tmp/harmless","pad":"{LARGE}","path":"/etc/shadow","more":"{LARGE}"}}',
    "under deep": f'{{"path":"/tmp/harmless","path":"/etc/shadow","pad":{"[" * 963}{"]" * 963}}}',
    "beside a number": '{"path":"/tmp/harmless","n":%s,"path":"/etc/shadow"}' % ("9" * 5000),
    "empty name": '{"":"/tmp/harmless","":"/etc/shadow"}',
}
REFUSED = TWICE | {
    "half a character": '{"path":"/tmp/\\ud83d"}',
    "half of a name": '{"path\\udc00":"/tmp"}',
    "in a string": json.dumps('{"path":"/tmp/harmless","path":"/etc/shadow"}'),
    "beside themselves": '{"path":"/tmp/harmless"},"arguments":{"path":"/etc/shadow"}',
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """For fixtures of the module, too."""
    return "asyncio"


@pytest.fixture(scope="module")
async def ways(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EveryWay]:
    """Callers at every way in."""
    async with every_way(tmp_path_factory.mktemp("ways")) as ways:
        yield ways


def shown_in(message: str) -> Any:
    """The arguments, as a person reads them."""
    if "Arguments: none" in message:
        return {}
    lines = message.split("Arguments:\n")[1].split("\n\n", maxsplit=1)[0].split("\n")
    decode, found = json.JSONDecoder().raw_decode, {}
    for line in lines:
        name, end = decode(line.strip())
        assert name not in found
        found[name] = json.loads(line.strip()[end + 2 :])
    return found


@each_way
async def test_what_could_be_read_in_two_ways_is_refused(ways, way):
    before = len(ways.received())
    for kind, arguments in REFUSED.items():
        if kind in {"under deep", "beside a number"} and way[1] == "http":
            continue  # the client of these tests cannot read that itself
        outcome = await ways.callers[way].call(arguments)
        unread = re.search('"code": -32(700|602)', outcome.answer)  # it is no message, or of no such tool
        assert not outcome.questions, kind
        assert outcome.refused or unread, (kind, outcome.answer[:500])
    assert len(ways.received()) == before


def some_text(roll: random.Random) -> str:
    """A text in JSON, with as many spellings as there are."""
    letters = []
    for letter in roll.choices('ab"\\/\n\té\u202e\u200b😀\x1b ', k=roll.randrange(6)):
        code = letter.encode("utf-16-be")
        units = [code[at : at + 2].hex() for at in range(0, len(code), 2)]
        spelled = "".join(f"\\u{unit}" for unit in units)
        letters.append(
            roll.choice([json.dumps(letter)[1:-1], spelled, spelled.upper().replace("\\U", "\\u")])
        )
        if letter.isprintable() and letter not in '"\\' and roll.random() < 0.5:
            letters[-1] = letter
    return f'"{"".join(letters)}"'


def some_document(roll: random.Random, depth: int = 0) -> str:
    """JSON in a random spelling."""
    space = roll.choice(["", "", " ", "\t"])
    kind = roll.randrange(5 if depth < 4 else 3)
    if depth and kind == 0:
        return roll.choice(["null", "true", "0", "-0.0", "1.50", "1e2", "12345678901234567", "0.1"])
    if depth and kind in {1, 2}:
        return some_text(roll)
    if depth and kind == 3:
        return "[" + ",".join(some_document(roll, depth + 1) for _ in range(roll.randrange(4))) + f"{space}]"
    members = [f"{some_text(roll)}{space}:{some_document(roll, depth + 1)}" for _ in range(roll.randrange(4))]
    return "{" + f",{space}".join(members) + "}"


def names_twice(document: str) -> bool:
    twice = False

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        twice |= len(dict(pairs)) < len(pairs)
        return dict(pairs)

    json.loads(document, object_pairs_hook=members)
    return twice


@each_way
async def test_what_is_shown_is_what_the_server_gets(ways, way):
    roll = random.Random(":".join(way))
    caller, asked, refused = ways.callers[way], 0, 0
    for number in range(30):
        document = some_document(roll)
        if number % 5 == 0:
            document = f'{{"k":[{document}],"a":0,"\\u006B":{{}}}}'
        outcome = await caller.call(document)
        if names_twice(document):
            assert outcome.refused, (document, outcome)
            refused += 1
            continue
        (message,) = outcome.questions
        assert "outcome: " not in outcome.answer
        got = ways.received()[-1]
        assert shown_in(message) == got == json.loads(document), document
        assert not {"\u202e", "\u200b", "\x1b", "\t"} & set(message)
        asked += 1
    assert len(ways.received()) >= asked >= 10
    assert refused


@pytest.mark.parametrize("way", [way for way in WAYS if way[1] != "slow"], ids="-".join)
async def test_a_person_can_see_all_of_it_first(ways, way):
    caller, before = ways.callers[way], len(ways.received())
    arguments = {"script": "echo harmless; " * 400 + "rm -rf /; " + "echo harmless; " * 400, "n": 1}
    caller.decision = "show"
    outcome = await caller.call(json.dumps(arguments))
    caller.decision = "once"
    brief, whole = outcome.questions[:2]
    assert "rm -rf" not in brief
    assert "Show everything first" in brief
    assert shown_in(whole) == dict(reversed(arguments.items()))
    assert "not_approved" in outcome.answer
    assert len(ways.received()) == before

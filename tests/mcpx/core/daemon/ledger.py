"""A test's own account of what its clients did, and what every surface of MCPX says of it.

`Ledger` knows nothing of MCPX but its definitions (docs/monitoring.md): the test writes down each call with
its end, and what its clients read. `Surfaces` asks each place that shows a figure, as a user would.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx2
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from mcpx.core.daemon.status import Status
from mcpx.core.events.costs import definitions_cost
from mcpx.core.rendering.tokens import estimate_result
from mcpx.top.columns import COLUMNS
from mcpx.top.history import History
from tests.mcpx.core.daemon.daemons import House
from tests.mcpx.page.signed_in import News

ENDS = ("ok", "failed", "refused", "cancelled")
NONE, OTHERS, INSPECT, MENU = "(mcpx)", "(others)", "(inspect)", "(menu)"
"""Where calls to no server are counted, and those of no tool that there is; inspect; and lists of tools."""
LOOK_S = 60.0  # for an answer that takes milliseconds, on a machine that does much else
Ends = dict[str, int]
Tool = dict[str, Any]
Samples = dict[str, dict[tuple[str, ...], float]]


class Ledger:
    """Calls by client, server, end and tool; and tokens by client, and by server and tool."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str, str, str]] = Counter()
        self.direct: Counter[str] = Counter()
        self.spent: Counter[str] = Counter()
        self.direct_by_tool: Counter[tuple[str, str]] = Counter()
        self.spent_by_tool: Counter[tuple[str, str]] = Counter()
        self.menus = 0
        """The tokens spent on lists of tools, of which each server has a share."""

    def call(self, client: str, server: str, tool: str, end: str, *, times: int = 1) -> None:
        """A call that ended so, or is `running`; `tool` is what it is counted under."""
        self.calls[client, server, end, tool] += times

    def ended(self, client: str, server: str, tool: str, end: str) -> None:
        """A call that ran has ended."""
        self.call(client, server, tool, "running", times=-1)
        self.call(client, server, tool, end)

    def read(self, client: str, server: str, tool: str, result: dict[str, Any], said: str = "") -> None:
        """A model has read that result; `said` is what a server had said."""
        direct = estimate_result(said) if said else 0
        spent = sum(estimate_result(each["text"]) for each in result["content"])
        self.direct[client] += direct
        self.spent[client] += spent
        self.direct_by_tool[server, tool] += direct
        self.spent_by_tool[server, tool] += spent

    def menu(self, client: str, tools: list[Tool], behind: Mapping[str, list[Tool]]) -> None:
        """A model was given these tools; directly it would have been given all of the servers behind."""
        self.spent[client] += _cost(tools)
        self.menus += _cost(tools)
        for server, its in behind.items():
            self.direct[client] += _cost(its)
            self.direct_by_tool[server, MENU] += _cost(its)

    def by(self, *places: int) -> dict[Any, Ends]:
        """The ends by client (0), server (1) or tool (3), without those of which there is nothing."""
        found: dict[Any, Ends] = {}
        for key, number in self.calls.items():
            if number:
                name = key[places[0]] if len(places) == 1 else tuple(key[place] for place in places)
                ends = found.setdefault(name, dict.fromkeys((*ENDS, "running"), 0))
                ends[key[2]] += number
        return found

    @property
    def total(self) -> Ends:
        """All together."""
        return {end: sum(each[end] for each in self.by(0).values()) for end in (*ENDS, "running")}


def _cost(tools: list[Tool]) -> int:
    return definitions_cost((each["name"], each.get("description"), each["inputSchema"]) for each in tools)


def ends_of(shown: dict[str, Any]) -> Ends:
    """The ends of a row that has them; and `calls` must be their sum."""
    ends = {end: shown[end] for end in ENDS}
    ends["running"] = shown["running"] if "running" in shown else shown["calls"] - sum(ends.values())
    assert shown["calls"] == sum(ends.values()), shown
    return ends


def _called(rows: Iterable[tuple[Any, dict[str, Any]]]) -> dict[Any, Ends]:
    return {name: ends_of(row) for name, row in rows if row["calls"]}


def _tools(report: dict[str, Any], of: Ledger) -> None:
    """`mcpx stats` by tool, and by server, which is the sum of that."""
    rows = {(row["server"], row["tool"]): row for row in report["tools"]}
    assert _called(rows.items()) == of.by(1, 3)
    assert {key: row["direct"] for key, row in rows.items() if row["direct"]} == +of.direct_by_tool
    spent = {key: row["spent"] for key, row in rows.items() if row["spent"]}
    assert {key: tokens for key, tokens in spent.items() if key[1] != MENU} == +of.spent_by_tool
    assert sum(tokens for key, tokens in spent.items() if key[1] == MENU) == of.menus
    for row in report["servers"]:
        its = [tool for (server, _), tool in rows.items() if server == row["server"]]
        assert all(row[key] == sum(tool[key] for tool in its) for key in ("direct", "spent")), row


def _stats(text: str, ledger: Ledger, all_time: Ledger) -> None:
    """`mcpx stats` as it is printed: the calls of both periods, and of all time those to each server."""
    of_all, since_start, *lines = text.splitlines()
    for line, of in ((of_all, all_time), (since_start, ledger)):
        assert f", {sum(of.total.values())} calls: " in line, line
    rows = [line.split() for line in lines[lines.index("") + 1 :] if line]
    assert rows[0][:2] == ["server", "calls"], rows
    shown = {row[0]: int(row[1]) for row in rows[1:]}
    wanted = {name: sum(ends.values()) for name, ends in all_time.by(1).items()}
    assert {name: number for name, number in shown.items() if number} == wanted


class Surfaces:
    """Everything that shows figures of one daemon; `http` is a browser that is signed in, `token` scrapes."""

    def __init__(self, house: House, http: httpx2.AsyncClient, url: str, token: str) -> None:
        self._house = house
        self._http = http
        self._metrics = url.replace("/mcp", "/metrics")
        self._token = token
        self._scraped_before: dict[str, dict[tuple[str, ...], int]] = {}

    async def run(self, *command: str, codes: Container[int] = (0,)) -> str:
        """What a command prints that ends with one of these codes."""
        done = await anyio.to_thread.run_sync(self._house.run, *command)
        assert done.returncode in codes, done.stderr
        return done.stdout

    async def run_all(self, *commands: tuple[str, ...], codes: Container[int] = (0,)) -> list[str]:
        """What these commands print, run side by side."""
        said: dict[int, str] = {}

        async def one(number: int, command: tuple[str, ...]) -> None:
            said[number] = await self.run(*command, codes=codes)

        async with anyio.create_task_group() as tasks:
            for number, command in enumerate(commands):
                tasks.start_soon(one, number, command)
        return [said[number] for number in range(len(commands))]

    async def topic(self, name: str) -> dict[str, Any]:
        """What somebody is told first who opens that view."""
        async with self._http.stream("GET", f"/ui/api/events?topic={name}", timeout=None) as response:
            return await News(response, LOOK_S).next()

    async def agree(self, ledger: Ledger, all_time: Ledger | None = None) -> None:
        """Each surface says what the ledger says of the time since the start; `all_time` is for stats."""
        by_client, by_server, total = ledger.by(0), ledger.by(1), ledger.total
        servers = {name: ends for name, ends in by_server.items() if name != NONE}
        printed, stated, table, listed = await self.run_all(
            ("stats", "--json"), ("status", "--json"), ("status",), ("stats",)
        )
        stats, plain = json.loads(printed), json.loads(stated)
        for report, of in ((stats["since_start"], ledger), (stats["all_time"], all_time or ledger)):
            assert _called((row["client"], row) for row in report["clients"]) == of.by(0)
            assert _called((row["server"], row) for row in report["servers"]) == of.by(1)
            assert ends_of(report["total"]) == of.total
            for key, tokens in (("direct", of.direct), ("spent", of.spent)):
                shown = {row["client"]: row[key] for row in report["clients"] if row[key]}
                assert shown == +tokens
                assert report["total"][key] == tokens.total()
            _tools(report, of)
        _stats(listed, ledger, all_time or ledger)
        assert _called((row["name"], row) for row in plain["servers"]) == servers
        assert all(row["errors"] == row["failed"] + row["refused"] for row in plain["servers"])
        assert ends_of(plain["daemon"]["calls"]) == total
        assert plain["daemon"]["tokens"]["since_start"]["direct"] == ledger.direct.total()
        assert plain["daemon"]["tokens"]["since_start"]["spent"] == ledger.spent.total()
        self._table(table, servers)
        self._top(plain, servers)
        await self._page(ledger, all_time or ledger, servers, total)
        await self._scraped(ledger, by_client, by_server)

    def _table(self, text: str, servers: dict[str, Ends]) -> None:
        """`mcpx status` as it is printed."""
        lines = text.splitlines()
        at = next(number for number, line in enumerate(lines) if line.startswith("server "))
        heads = lines[at].replace("p99 ms", "p99").split()
        for line in lines[at + 1 : lines.index("", at)]:
            words = line.split()
            row = dict(zip(heads[2:], words[2 - len(heads) :], strict=True))  # a state may be two words
            if (ends := servers.get(words[0])) is not None:
                shown = int(row["calls"]), int(row["fail"]), int(row["ref"])
                assert shown == (sum(ends.values()), ends["failed"], ends["refused"]), line

    def _top(self, plain: dict[str, Any], servers: dict[str, Ends]) -> None:
        overview = History().take(msgspec.convert(plain, Status), at=0.0)
        cell = {column.header: column.cell for column in COLUMNS}
        for row in overview.rows:
            ends = servers.get(row.name, dict.fromkeys(ENDS, 0))
            shown = [cell[head](row, {}).plain for head in ("calls", "fail", "ref")]
            assert shown == [str(sum(ends.values())), str(ends["failed"]), str(ends["refused"])], row.name

    async def _page(self, ledger: Ledger, all_time: Ledger, servers: dict[str, Ends], total: Ends) -> None:
        await self._history(total)
        overview = await self.topic("overview")
        assert _called((card["name"], card) for card in overview["servers"]) == servers
        assert ends_of(overview["daemon"]["calls"]) == total
        for period, of in (("since_start", ledger), ("all_time", all_time)):
            tokens = overview["daemon"]["tokens"][period]
            assert (tokens["direct"], tokens["spent"]) == (of.direct.total(), of.spent.total()), period
        for name, ends in servers.items():
            card = (await self.topic(f"server:{name}"))["card"]
            assert ends_of(card) == ends
        for client in overview["clients"]:
            ends = ledger.by(0).get(client["name"], {})
            assert client["calls"] == sum(ends.values()), client

    async def _history(self, total: Ends) -> None:
        """The curves of the last hour, in which all of it was: they come with steps that end meanwhile."""
        wanted = sum(total.values()), total["failed"]  # a refusal with a question is taken back later
        ended = opened = (0, 0)
        async with self._http.stream("GET", "/ui/api/events?topic=history", timeout=None) as response:
            news = News(response, LOOK_S)
            while tuple(map(sum, zip(ended, opened, strict=True))) != wanted:
                piece = await news.next()
                for point in [*piece.get("points", ()), *filter(None, [piece.get("point")])]:
                    ended = ended[0] + point[0], ended[1] + point[1]
                opened = tuple(piece.get("open", (0, 0) if "point" in piece else opened)[:2])

    async def scrape(self) -> Samples:
        """The metrics: by name, and by the values of the labels in the order of their names."""
        headers = {"Authorization": f"Bearer {self._token}"}
        async with httpx2.AsyncClient(timeout=LOOK_S, trust_env=False) as client:
            text = (await client.get(self._metrics, headers=headers)).text
        found: Samples = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = tuple(value for _, value in sorted(sample.labels.items()))
                found.setdefault(sample.name, {})[labels] = sample.value
        return found

    async def _scraped(self, ledger: Ledger, by_client: dict[str, Ends], by_server: dict[str, Ends]) -> None:
        found = await self.scrape()
        ended = {(end, name): ends[end] for name, ends in by_server.items() for end in ENDS}
        self._rose(found, "mcpx_server_calls_ended_total", ended)
        calls = {(name,): sum(ends.values()) for name, ends in by_server.items()}
        self._rose(found, "mcpx_server_calls_total", calls)
        calls = {(name,): sum(ends.values()) for name, ends in by_client.items()}
        self._rose(found, "mcpx_client_calls_total", calls)
        for key, tokens in (("direct", ledger.direct), ("spent", ledger.spent)):
            expected = {(name,): number for name, number in tokens.items()}
            self._rose(found, f"mcpx_client_{key}_tokens_total", expected)
        direct: Counter[tuple[str, ...]] = Counter()
        for (name, _), number in ledger.direct_by_tool.items():
            direct[(name,)] += number
        self._rose(found, "mcpx_server_direct_tokens_total", direct)

    def _rose(self, found: Samples, name: str, expected: dict[tuple[str, ...], int]) -> None:
        """That counter is as expected; where that has fallen since the last scrape, it has stood still."""
        before = self._scraped_before.setdefault(name, {})
        before |= {labels: max(number, before.get(labels, 0)) for labels, number in expected.items()}
        shown = {labels: int(value) for labels, value in found[name].items() if value}
        assert shown == {labels: number for labels, number in before.items() if number}, name

    async def rows(self) -> list[dict[str, Any]]:
        """The page's view of calls, opened now; what runs, and nothing else, is said to run."""
        told = await self.topic("calls")
        runs = [row["id"] for row in told["calls"] if row["end"] is None]
        assert (sorted(told["running"]), told["more_running"]) == (sorted(runs), 0)
        return list(told["calls"])

    async def lines(self) -> list[dict[str, Any]]:
        """The audit log."""
        printed = await self.run("audit", "--json", "-n", "100000")
        return [json.loads(line) for line in printed.splitlines()]


def home_with_clients(house: House) -> dict[str, str]:
    """The environment of a home in which three clients have MCPX."""
    home = Path(house.folder, "home")
    (home / ".claude").mkdir(parents=True, exist_ok=True)
    return {"HOME": str(home), "SHELL": "/bin/false"}

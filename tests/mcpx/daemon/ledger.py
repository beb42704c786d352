"""A test's own account of what its clients did, and what every surface of MCPX says of it.

`Ledger` knows nothing of MCPX but its definitions (docs/monitoring.md): the test writes down each call with
its end, and what its clients read. `Surfaces` asks each place that shows a figure, as a user would.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from mcpx.cli.top.columns import COLUMNS
from mcpx.cli.top.history import History
from mcpx.core.costs import definitions_cost
from mcpx.core.status import Status
from mcpx.rendering.tokens import estimate_result
from tests.mcpx.daemon.daemons import House
from tests.mcpx.page.signed_in import News

ENDS = ("ok", "failed", "refused", "cancelled")
NONE = "(mcpx)"
"""Where calls to no server are counted."""
Ends = dict[str, int]
Samples = dict[str, dict[tuple[str, ...], float]]


class Ledger:
    """Calls by client, server and end; and tokens by client."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str, str]] = Counter()
        self.direct: Counter[str] = Counter()
        self.spent: Counter[str] = Counter()

    def call(self, client: str, server: str, end: str, *, times: int = 1) -> None:
        """A call that ended so, or is `running`."""
        self.calls[client, server, end] += times

    def ended(self, client: str, server: str, end: str) -> None:
        """A call that ran has ended."""
        self.calls[client, server, "running"] -= 1
        self.call(client, server, end)

    def read(self, client: str, result: dict[str, Any], said: str = "") -> None:
        """A model has read that result; `said` is what a server had said."""
        self.direct[client] += estimate_result(said) if said else 0
        self.spent[client] += sum(estimate_result(each["text"]) for each in result["content"])

    def menu(self, client: str, tools: list[dict[str, Any]], behind: Iterable[list[dict[str, Any]]]) -> None:
        """A model was given these tools; directly it would have been given all of the servers behind."""
        self.spent[client] += _cost(tools)
        self.direct[client] += sum(map(_cost, behind))

    def by(self, place: int) -> dict[str, Ends]:
        """The ends by client (0) or server (1), without those of which there is nothing."""
        found: dict[str, Ends] = {}
        for key, number in self.calls.items():
            if number:
                ends = found.setdefault(key[place], dict.fromkeys((*ENDS, "running"), 0))
                ends[key[2]] += number
        return found

    @property
    def total(self) -> Ends:
        """All together."""
        return {end: sum(each[end] for each in self.by(0).values()) for end in (*ENDS, "running")}


def _cost(tools: list[dict[str, Any]]) -> int:
    return definitions_cost((each["name"], each.get("description"), each["inputSchema"]) for each in tools)


def ends_of(shown: dict[str, Any]) -> Ends:
    """The ends of a row that has them; and `calls` must be their sum."""
    ends = {end: shown[end] for end in ENDS}
    ends["running"] = shown["running"] if "running" in shown else shown["calls"] - sum(ends.values())
    assert shown["calls"] == sum(ends.values()), shown
    return ends


def _called(rows: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, Ends]:
    return {name: ends_of(row) for name, row in rows if row["calls"]}


class Surfaces:
    """Everything that shows figures of one daemon; `http` is a browser that is signed in, `token` scrapes."""

    def __init__(self, house: House, http: httpx2.AsyncClient, url: str, token: str) -> None:
        self._house = house
        self._http = http
        self._metrics = url.replace("/mcp", "/metrics")
        self._token = token
        self._scraped_before: dict[str, dict[tuple[str, ...], int]] = {}

    async def run(self, *command: str) -> str:
        """What a command prints."""
        done = await anyio.to_thread.run_sync(self._house.run, *command)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def topic(self, name: str) -> dict[str, Any]:
        """What somebody is told first who opens that view."""
        async with self._http.stream("GET", f"/ui/api/events?topic={name}", timeout=20) as response:
            return await News(response).next()

    async def agree(self, ledger: Ledger, all_time: Ledger | None = None) -> None:
        """Each surface says what the ledger says of the time since the start; `all_time` is for stats."""
        by_client, by_server, total = ledger.by(0), ledger.by(1), ledger.total
        servers = {name: ends for name, ends in by_server.items() if name != NONE}
        stats = json.loads(await self.run("stats", "--json"))
        for report, of in ((stats["since_start"], ledger), (stats["all_time"], all_time or ledger)):
            assert _called((row["client"], row) for row in report["clients"]) == of.by(0)
            assert _called((row["server"], row) for row in report["servers"]) == of.by(1)
            assert ends_of(report["total"]) == of.total
            for key, tokens in (("direct", of.direct), ("spent", of.spent)):
                assert {row["client"]: row[key] for row in report["clients"] if row[key]} == +tokens, key
                assert sum(row[key] for row in report["tools"]) == sum(row[key] for row in report["servers"])
                assert report["total"][key] == tokens.total()
        plain = json.loads(await self.run("status", "--json"))
        assert _called((row["name"], row) for row in plain["servers"]) == servers
        assert all(row["errors"] == row["failed"] + row["refused"] for row in plain["servers"])
        assert ends_of(plain["daemon"]["calls"]) == total
        assert plain["daemon"]["tokens"]["since_start"]["direct"] == ledger.direct.total()
        assert plain["daemon"]["tokens"]["since_start"]["spent"] == ledger.spent.total()
        self._table(await self.run("status"), servers)
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

    async def scrape(self) -> Samples:
        """The metrics: by name, and by the values of the labels in the order of their names."""
        headers = {"Authorization": f"Bearer {self._token}"}
        async with httpx2.AsyncClient(timeout=20, trust_env=False) as client:
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

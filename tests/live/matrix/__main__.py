"""Runs clients of others against servers of others, directly and through MCPX. Started by `scripts/matrix`.

Each client does at each way what it does directly, and the results are held against each other. Progress and
what differs go to stderr, two tables to stdout: the features of server-everything for each client, and the
other servers for each client. A cell is the number of ways that gave what the direct one did, of those tried.
The exit code is 1 if some did not.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import anyio
import click
import msgspec

from tests.live import servers as live
from tests.live.matrix.jobs import FEATURES, JSON, SERVERS, essence, spelt
from tests.live.matrix.ways import (
    CLIENTS,
    ENDPOINTS,
    EXPOSURES,
    ClientProgram,
    Ways,
    directly,
    opened,
    servers,
)

JOB_S: Final = 240.0
EVERYTHING: Final = "everything"


class Asked(msgspec.Struct, frozen=True):
    """A step, and the row of the tables that it belongs to."""

    row: str
    step: JSON


class Way(msgspec.Struct, frozen=True):
    """How a client comes to a server."""

    client: str
    endpoint: str
    exposure: str

    def __str__(self) -> str:
        return f"{self.client}, {self.endpoint}, {self.exposure}"


class Cell(msgspec.Struct):
    """How many ways gave the same, of how many."""

    same: int = 0
    tried: int = 0

    def __str__(self) -> str:
        return f"{self.same}/{self.tried}" if self.tried else "-"


@click.command(context_settings={"max_content_width": 110})
@click.option("--client", "client", metavar="WORDS", help="The clients whose name contains this.")
@click.option("--server", "server", metavar="NAME", help="This server alone.")
@click.option("--endpoint", type=click.Choice(ENDPOINTS), help="This endpoint alone.")
@click.option(
    "--keep",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep each client's results in this file, and print those that it holds already too.",
)
def main(client: str | None, server: str | None, endpoint: str | None, keep: Path | None) -> None:
    """Run the matrix of clients, servers and ways, and print it as Markdown."""
    clients = [each for each in CLIENTS if client is None or client in each.name]
    endpoints = [each for each in ENDPOINTS if endpoint in {None, each}]
    matrix = Matrix(keep)
    anyio.run(_run, matrix, clients, endpoints, server)
    matrix.show()
    sys.exit(1 if matrix.different else 0)


async def _run(matrix: Matrix, clients: list[ClientProgram], endpoints: list[str], only: str | None) -> None:
    with tempfile.TemporaryDirectory(prefix="matrix-") as folder:
        scratch = Path(folder)
        live.make_media(scratch / "files")
        live.make_memory(scratch / "memory.jsonl")
        entries = {name: entry for name, entry in servers(scratch).items() if only in {None, name}}
        asked = {name: list(_asked(name, scratch)) for name in entries}
        async with opened(scratch / "mcpx", entries) as ways:
            for client in clients:
                steps = {name: each for name, each in asked.items() if client.uses(name)}
                matrix.begin(client.name)
                alone = {name: await _directly(client, entries[name], each) for name, each in steps.items()}
                for endpoint in endpoints:
                    for exposure in EXPOSURES:
                        click.echo(f"{client.name}: {endpoint}, {exposure}", err=True)
                        way = Way(client.name, endpoint, exposure)
                        for name, found in (await _through(client, way, steps, ways)).items():
                            matrix.compare(way, name, zip(steps[name], alone[name], found, strict=True))
                matrix.end()


async def _directly(client: ClientProgram, entry: JSON, steps: list[Asked]) -> list[JSON]:
    return await _perform(client, directly(entry), [each.step for each in steps])


async def _through(
    client: ClientProgram, way: Way, steps: dict[str, list[Asked]], ways: Ways
) -> dict[str, list[JSON]]:
    """What a client got of each server: of all in one session, or of each at its own transparent endpoint."""
    sessions = [[name] for name in steps] if way.exposure == "transparent" else [list(steps)]
    found: dict[str, list[JSON]] = {}
    for names in sessions:
        spelled = [spelt(each.step, name, way.exposure) for name in names for each in steps[name]]
        results = iter(await _perform(client, ways.transport(way.endpoint, way.exposure, names[0]), spelled))
        found |= {name: [next(results) for _ in steps[name]] for name in names}
    return found


def _asked(server: str, scratch: Path) -> Iterator[Asked]:
    """Each step for a server."""
    if server == EVERYTHING:
        yield from (Asked(feature, step) for feature, steps in FEATURES.items() for step in steps)
        return
    text = json.dumps(SERVERS[server]).replace("REPOSITORY", str(scratch / "repository"))
    text = text.replace("hello.txt", str(scratch / "files" / "hello.txt"))
    yield from (Asked(server, step) for step in json.loads(text))


async def _perform(client: ClientProgram, transport: JSON, steps: list[JSON]) -> list[JSON]:
    """What a client says to each step; the same error to all of them if it could not do any."""
    job = json.dumps({"transport": transport, "steps": steps})
    said: Any = {"error": "timed out"}
    with anyio.move_on_after(JOB_S):
        ran = await anyio.run_process([*client.command, job], check=False, stdin=subprocess.DEVNULL)
        lines = [line for line in ran.stdout.splitlines() if line.startswith((b"[", b"{"))]
        try:
            said = json.loads(lines[-1])
        except (IndexError, ValueError):  # it failed before it could say so
            said = {"error": ran.stderr.decode(errors="replace")[-300:]}
    results: list[JSON] = said if isinstance(said, list) else [said] * len(steps)
    return results + [{"error": "no answer"}] * (len(steps) - len(results))


class Matrix:
    """What all clients got, cell by cell."""

    def __init__(self, keep: Path | None) -> None:
        self._keep = keep
        self._cells: dict[str, dict[str, Cell]] = {}  # by client and row
        if keep is not None and keep.exists():
            self._cells = msgspec.json.decode(keep.read_bytes(), type=dict[str, dict[str, Cell]])
        self.different = False

    def begin(self, client: str) -> None:
        """Forget what is known of a client."""
        self._cells[client] = {}

    def end(self) -> None:
        """Keep what is known, where it is to be kept."""
        if self._keep is not None:
            self._keep.write_bytes(msgspec.json.encode(self._cells))

    def compare(self, way: Way, server: str, results: Iterable[tuple[Asked, JSON, JSON]]) -> None:
        """Take in each step with what a client got directly and this way."""
        same: dict[str, bool] = {}
        left_out: set[str] = set()  # what the client, or the revision that it speaks here, does not have
        for asked, theirs, ours in results:
            skipped = theirs.get("skipped") or ours.get("skipped")
            if skipped and asked.row in FEATURES:  # what follows in the row has no meaning without it
                left_out.add(asked.row)
            if skipped or asked.row in left_out:
                continue
            expected = _essence(asked.step, theirs, server, "transparent")
            if expected == "error" and "cancel_after_s" not in asked.step:
                continue  # it does not work directly
            got = _essence(asked.step, ours, server, way.exposure)
            same[asked.row] = same.get(asked.row, True) and got == expected
            if got != expected:
                told = f"{str(expected)[:300]} became {str(got)[:300]} {str(ours.get('error', ''))[:300]}"
                click.echo(f"  DIFFERENT {way}: {asked.row}: {asked.step['do']}: {told}", err=True)
        for row, is_same in same.items():
            if row in left_out:
                continue
            cell = self._cells[way.client].setdefault(row, Cell())
            cell.tried += 1
            cell.same += is_same
            self.different = self.different or not is_same

    def show(self) -> None:
        """Print both tables."""
        clients = [each.name for each in CLIENTS if each.name in self._cells]
        for title, rows in (("feature", FEATURES), ("server", SERVERS)):
            click.echo(f"| {title} | {' | '.join(clients)} |")
            click.echo("|---" * (len(clients) + 1) + "|")
            for row in rows:
                cells = [str(self._cells[client].get(row, Cell())) for client in clients]
                click.echo(f"| {row} | {' | '.join(cells)} |")
            click.echo()


def _essence(step: JSON, result: JSON, server: str, exposure: str) -> Any:
    try:
        return essence(step, result, server, exposure)
    except (KeyError, TypeError, AttributeError) as error:
        return f"unreadable: {error!r}"


if __name__ == "__main__":
    main()

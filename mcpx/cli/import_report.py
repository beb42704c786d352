"""What `mcpx import` says: what it found and where, what it would write, and what is left to do.

Values of `env` and of headers, passwords and queries of URLs are never in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcpx.cli.changing import short
from mcpx.cli.printing import echo
from mcpx.clients import ClientServers, ImportPlan, Planned, Server, masking
from mcpx.paths import config_hint


def show(
    found: Sequence[ClientServers], missing: Mapping[str, Sequence[str]], plan: ImportPlan, path: Path
) -> None:
    """Print what was found, client by client, and how the configuration would change."""
    by_origin = {(origin.path, origin.name): server for server in plan.servers for origin in server.origins}
    for each in found:
        echo(f"{each.file.client.title}  {short(each.file.path)}", bold=True)
        for line, colour in _lines(each, by_origin):
            echo(f"  {line}", fg=colour)
    for name, places in missing.items():
        echo(f"{name}: no such file: {', '.join(short(place) for place in places)}", fg="yellow")
    if not found:
        add = f"mcpx add{config_hint(path)} NAME -- COMMAND"
        echo(f"no file of a client was found; to add a server by hand: {add}")
        return
    if plan.new:
        echo("")
        echo(masking.masked_diff(plan.before, plan.after, short(path)))
        echo("")
    elif plan.servers:
        echo(f"nothing to do: {short(path)} has all of them")
    elif not any(each.problem for each in found):
        echo("nothing to do: no server that MCPX could take over")


def show_done(plan: ImportPlan, path: Path, reloaded: str | None) -> None:
    """Print what was done, and what the person has to do before every server works."""
    echo(f"wrote {counted(len(plan.new), 'server')} to {short(path)}; mcpx undo takes it back")
    if reloaded:
        echo(reloaded)
    todo = [(server.name, need) for server in plan.new for need in server.needs]
    for name, need in todo:
        echo(f"to do for {name}: {need}", fg="yellow")
    if others_read(path):
        echo(f"others can read {short(path)}, and it may hold secrets: chmod 600 {path}", fg="yellow")
    echo(f"next: mcpx install{config_hint(path)} puts MCPX into your clients")


def as_json(
    found: Iterable[ClientServers],
    missing: Mapping[str, Sequence[str]],
    plan: ImportPlan,
    path: Path,
    *,
    changed: bool,
    reloaded: str | None,
) -> dict[str, Any]:
    """The same as plain JSON."""
    by_origin = {(origin.path, origin.name): server for server in plan.servers for origin in server.origins}
    report: dict[str, Any] = {
        "file": str(path),
        "changed": changed,
        "clients": [_client(each, by_origin) for each in found],
        "missing": missing,
        "servers": [
            {
                "name": server.name,
                "entry": masking.masked_entry(server.entry),
                "state": _state(server, changed=changed),
                "from": [
                    {"client": origin.client, "file": str(origin.path), "name": origin.name}
                    for origin in server.origins
                ],
                "notes": server.notes,
                "needs": server.needs,
            }
            for server in plan.servers
        ],
    }
    if plan.new:
        report["diff"] = masking.masked_diff(plan.before, plan.after, str(path))
    if reloaded:
        report["daemon"] = reloaded
    return report


def counted(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def others_read(path: Path) -> bool:
    """Whether other users can read a file."""
    try:
        return bool(path.stat().st_mode & 0o044)
    except OSError:
        return False


def _lines(
    each: ClientServers, by_origin: Mapping[tuple[Path, str], Planned]
) -> Iterator[tuple[str, str | None]]:
    """The lines of one file, each with its colour."""
    if each.problem:
        yield f"cannot be used: {each.problem}", "red"
    for server in each.servers:
        planned = by_origin.get((each.file.path, server.name))
        yield _server_line(each, server, planned), None
        for note in (*masking.commands_shown(server.entry), *server.notes):
            yield f"  {note}", "yellow"
        for need in planned.needs if planned else server.needs:
            yield f"  to do: {need}", "yellow"
    for left_out in each.left_out:
        yield f"{left_out.name}: not taken over: {left_out.reason}", "yellow"
    for name in each.own:
        yield f"{name}: MCPX itself", None
    for note in each.notes:
        yield note, "yellow"
    if others_read(each.file.path) and any(masking.holds_secrets(server.entry) for server in each.servers):
        yield f"others can read this file, and it may hold secrets: chmod 600 {each.file.path}", "yellow"
    if not (each.problem or each.servers or each.left_out or each.own or each.notes):
        yield "no servers", None


def _server_line(each: ClientServers, server: Server, planned: Planned | None) -> str:
    names = [f"{key}: {', '.join(values)}" for key in ("env", "headers") if (values := server.entry.get(key))]
    line = f"{server.name}: {masking.command_line(server.entry)}"
    line += f" ({'; '.join(names)})" if names else ""
    line += ", disabled" if server.entry.get("disabled") else ""
    if planned is None:
        return f"{line}: MCPX itself"
    first = planned.origins[0]
    if planned.present:
        return f"{line}: in the configuration already" + (
            f", as {planned.name}" if planned.name != server.name else ""
        )
    if (first.path, first.name) != (each.file.path, server.name):
        return f"{line}: the same as {first.name} of {first.client}"
    return line if planned.name == server.name else f"{line}: becomes {planned.name}, as the name is taken"


def _client(each: ClientServers, by_origin: Mapping[tuple[Path, str], Planned]) -> dict[str, Any]:
    report: dict[str, Any] = {
        "client": each.file.client.name,
        "title": each.file.client.title,
        "file": str(each.file.path),
        "servers": [
            {
                "name": server.name,
                "as": planned.name if (planned := by_origin.get((each.file.path, server.name))) else None,
                "entry": masking.masked_entry(server.entry),
                "notes": server.notes,
                "needs": server.needs,
            }
            for server in each.servers
        ],
        "left_out": [{"name": entry.name, "reason": entry.reason} for entry in each.left_out],
        "mcpx": each.own,
        "notes": each.notes,
    }
    return report | ({"problem": each.problem} if each.problem else {})


def _state(server: Planned, *, changed: bool) -> str:
    if server.present:
        return "present"
    return "added" if changed else "new"

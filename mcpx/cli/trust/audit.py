"""`mcpx audit`: what was run, by whom, and how it ended; and whether the log of that is whole.

Reads the files, whether a daemon runs or not. A line of the table is cleaned of what a terminal would obey.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
import msgspec

from mcpx.cli.group import Group
from mcpx.cli.options import duration_of, json_option, with_config
from mcpx.cli.printing import counted, echo, print_json
from mcpx.core.daemon.lifecycle import located
from mcpx.core.events.audit.chain_files import known_chains
from mcpx.core.events.audit.merging import (
    FollowerOfAll,
    GatewayVerified,
    Log,
    NoSuchLogError,
    clocks_ahead,
    last_of_all,
    logs_of,
    verify_all,
)
from mcpx.core.events.audit.reading import Follower, Line, Selection, last_lines
from mcpx.core.events.audit.verifying import Verified
from mcpx.core.events.audit.verifying import verify as look
from mcpx.core.store.paths import daemon_paths
from mcpx.core.text import cut, one_line
from mcpx.paths import AUDIT_FOLDER

LINES: Final = 50  # shown by default
MAX_PROBLEMS: Final = 20  # that are printed, and remarks
POLL_INTERVAL_S: Final = 0.2
MAX_TARGET_CHARS: Final = 200  # of a server and what is asked of it
MAX_ARGUMENTS_CHARS: Final = 60  # of the names of arguments

merge_option = click.option(
    "--merge",
    multiple=True,
    metavar="[NAME=]FOLDER",
    help="With the log of another gateway, by its state folder; again for more.",
)


@click.group(cls=Group, invoke_without_command=True, short_help="What was run, by whom, and how it ended.")
@with_config
@click.option("--server", help="Of that server alone.")
@click.option("--tool", help="Of the tool or prompt of that name, or the resource with that URI.")
@click.option("--client", help="Of clients that call themselves so.")
@click.option("--code", help="With that code or outcome: unknown_tool, not_sent, tool_error, ...")
@click.option("--since", metavar="TIME", help="From then on: 90s, 30m, 1h, 7d, or 2026-11-22[T14:30].")
@click.option("-n", "--lines", type=click.IntRange(1), default=LINES, show_default=True, help="How many.")
@click.option("--json", "as_json", is_flag=True, help="Print the lines as they stand in the log.")
@click.option("-f", "--follow", is_flag=True, help="Keep printing as they are written.")
@merge_option
@click.pass_context
def audit(
    ctx: click.Context,
    *,
    config_path: str | None,
    server: str | None,
    tool: str | None,
    client: str | None,
    code: str | None,
    since: str | None,
    lines: int,
    as_json: bool,
    follow: bool,
    merge: tuple[str, ...],
) -> None:
    """Show the audit log: each request of a client to a server, sent or refused, of all configurations.

    It is in the folder `audit` of the state folder, and says the names of arguments, not their values.
    --merge: with those of other gateways, by time, each verified; exits with 1 if one is not whole.
    """
    if ctx.invoked_subcommand is not None:
        return
    wanted = Selection(server=server, tool=tool, client=client, code=code, since=_since(since))
    folder = _folder(config_path)
    if merge:
        _show_merged(_logs(merge, folder), wanted, lines, as_json=as_json, follow=follow)
        return
    follower = Follower(folder) if follow else None
    found = last_lines(folder, wanted, lines)
    new = [] if follower is None else follower.more(wanted)
    written_meanwhile = {line.raw for line in new}
    _print([*(line for line in found if line.raw not in written_meanwhile), *new], as_json=as_json)
    if not found and follower is None and not as_json:
        echo(_why_nothing(folder, wanted), err=True)
    while follower is not None:
        time.sleep(POLL_INTERVAL_S)
        _print(follower.more(wanted), as_json=as_json)


def _show_merged(logs: list[Log], wanted: Selection, lines: int, *, as_json: bool, follow: bool) -> None:
    """Print the lines of several logs by time, and on standard error what is wrong with any of them."""
    follower = FollowerOfAll(logs) if follow else None
    found = last_of_all(logs, wanted, lines)
    new = [] if follower is None else follower.more(wanted)
    written_meanwhile = {line.raw for line in new}
    found = [*(line for line in found if line.raw not in written_meanwhile), *new]
    _print(found, as_json=as_json)
    for log in logs:
        if not log.is_there:
            echo(f"{log.gateway}: there is no audit log in {log.folder.parent}", fg="yellow", err=True)
    for gateway, seconds in clocks_ahead(found, datetime.now(UTC)).items():
        echo(f"{gateway}: its clock is {seconds:.0f} s ahead of this machine's", fg="yellow", err=True)
    if not found and follower is None and not as_json:
        echo(f"no line in {', '.join(str(log.folder) for log in logs)} fits", err=True)
    verified = verify_all([log for log in logs if log.is_there])
    for each in verified:
        _print_problems(each, "", f"{each.gateway}: ", remarks=False, err=True)
    while follower is not None:
        time.sleep(POLL_INTERVAL_S)
        _print(follower.more(wanted), as_json=as_json)
    if any(each.problems for each in verified):
        sys.exit(1)


@audit.command(short_help="Whether the log is whole.")
@with_config
@json_option
@merge_option
@click.pass_context
def verify(ctx: click.Context, *, config_path: str | None, as_json: bool, merge: tuple[str, ...]) -> None:
    """Look for lines of the audit log that were changed or are missing; exits with 1 if there are any.

    --merge: also verify the logs of other gateways, each separately.
    """
    given = (*(ctx.parent.params.get("merge", ()) if ctx.parent else ()), *merge)
    folder = _folder(config_path)
    if given:
        _verify_merged(_logs(given, folder), as_json=as_json)
        return
    found = look(folder)
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        _print_problems(found, folder)
        _print_count(found)
    if found.problems:
        sys.exit(1)


def _verify_merged(logs: list[Log], *, as_json: bool) -> None:
    found = verify_all(logs)
    if as_json:
        print_json({"gateways": msgspec.to_builtins(found)})
    else:
        for each in found:
            _print_problems(each, each.folder, f"{each.gateway}: ")
            _print_count(each, f"{each.gateway}: ")
    if any(each.problems for each in found):
        sys.exit(1)


def _print_problems(
    found: Verified | GatewayVerified,
    folder: str | Path,
    who: str = "",
    *,
    remarks: bool = True,
    err: bool = False,
) -> None:
    """Print the first problems and the last remarks of `who`, each with its place in the folder."""
    shown_remarks = found.remarks[-MAX_PROBLEMS:] if remarks else []
    for each in (*found.problems[:MAX_PROBLEMS], *shown_remarks):
        file = os.path.normpath(Path(folder) / each.file)
        place = file if each.line is None else f"{file}:{each.line}"
        color = "red" if each in found.problems else "yellow"
        echo(f"{who}{place}: {each.problem}", fg=color, err=err)
    if (more := len(found.problems) - MAX_PROBLEMS) > 0:
        echo(f"and {more} more; mcpx audit verify --json has all of them", fg="red", err=err)


def _print_count(found: Verified | GatewayVerified, who: str = "") -> None:
    if not found.chains and not found.problems:
        return  # there is nothing of which it could be said
    problems = counted(len(found.problems), "problem") if found.problems else "nothing is changed or missing"
    echo(f"{who}{found.lines} lines in {counted(found.chains, 'chain')}: {problems}")


def _logs(given: Sequence[str], own: Path) -> list[Log]:
    """The logs that are merged."""
    try:
        return logs_of(given, own)
    except NoSuchLogError as error:
        raise click.UsageError(str(error)) from None


def _folder(config_path: str | None) -> Path:
    """The folder of the log: in the state folder of the daemon, which may have another than this command."""
    return located(daemon_paths(config_path)).folder.parent.parent / AUDIT_FOLDER


def _since(text: str | None) -> str | None:
    """A time as the lines have it."""
    if text is None:
        return None
    try:
        if (age := duration_of(text.strip())) is not None:
            at = datetime.now(UTC) - age
        else:
            at = datetime.fromisoformat(text).astimezone(UTC)  # without a zone: that of this machine
    except (ValueError, OverflowError):
        problem = "--since takes 90s, 30m, 1h, 7d, or a time such as 2026-11-22T14:30"
        raise click.UsageError(problem) from None
    return at.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _why_nothing(folder: Path, wanted: Selection) -> str:
    if wanted != Selection():
        return f"no line in {folder} fits"
    if known_chains(folder):
        return f"the audit log in {folder} is gone or has no lines; mcpx audit verify says what is missing"
    return f"nothing was run yet ({folder})"


def _print(lines: list[Line], *, as_json: bool) -> None:
    for line in lines:
        echo(_raw(line) if as_json else shown(line))
    if lines:
        sys.stdout.flush()


def _raw(line: Line) -> str:
    """A line as it stands in the log, with its gateway as the last member where there are several."""
    text = line.raw.decode()
    if line.gateway is None:
        return text
    return f'{text.rstrip()[:-1]},"gateway":{json.dumps(line.gateway)}}}'


def shown(line: Line) -> str:
    """A line for people, in local time."""
    at = datetime.fromisoformat(line.time).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    if line.gateway is not None:
        at += f"  {one_line(line.gateway)}"
    if line.kind == "audit":
        return f"{at}  audit log: {one_line(line.what)}"
    by = (("profile", line.profile), ("token", line.token))
    who = [line.client or line.transport or "", *(f"{what}={name}" for what, name in by if name)]
    kind = "" if line.kind == "tool" else f"{line.kind} "
    target = cut(".".join(part for part in (line.server, line.name) if part), MAX_TARGET_CHARS)
    arguments = cut(", ".join(line.arguments or ()), MAX_ARGUMENTS_CHARS)
    ended = " ".join(part for part in (line.outcome, line.code or "") if part)
    parts = [at, " ".join(who), f"{kind}{target}({arguments})", ended]
    if line.ms is not None:
        parts.append(f"{line.ms:.1f} ms")
    if line.approval or line.rule:
        parts.append(f"[{' '.join(part for part in (line.approval, line.rule) if part)}]")
    return "  ".join(map(one_line, parts))

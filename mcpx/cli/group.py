"""The group of all commands: its help and completion, what an unknown command is told, and how errors end it.

Ctrl-C ends every command with 130 and without a word. An error of MCPX or of the system is one
line on standard error, never a traceback; with `--json` it is also `{"error": TEXT}` on standard output.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO

import click

from mcpx.cli.options import ARGUMENTS
from mcpx.cli.printing import echo
from mcpx.core.daemon.startup_report import report, take_starter
from mcpx.errors import CallError, ConfigError, MCPXError, leaves
from mcpx.paths import config_hint

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130  # 128 and the number of SIGINT, as shells have it
Section = Mapping[str, tuple[str, str]]
"""The commands of a section of the help by name: each its place, and what it does in a line."""
HIDDEN: Final = frozenset({"list", "mcp", "reload"})
"""Commands that completion leaves out: others do the same."""
_CURE: Final = re.compile(
    r"(?:^|[ `(])(?:mcpx (?!command\b)[a-z]|(?:chmod|kill|rm|export|ray|pip install) |--[a-z]|MCPX_[A-Z])"
    "|try again"
)
"""Of a text: it names what to type, or an option or variable to set."""
_PLACE: Final = re.compile(r"(?::\d+:\d+|: \$.*)$")
_TYPED: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST})
"""Errors of a path that somebody has typed."""
_NO_SERVER: Final = re.compile(r"no server ", re.IGNORECASE)
EVERY: Final = "mcpx.every"
"""Of the context's `meta`: whether the help is of all commands."""
_AS_JSON: Final = "mcpx.as_json"


class Group(click.Group):
    """A group that names the nearest command where there is none of a name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        is_name = bool(args) and not args[0].startswith("-") and not ctx.resilient_parsing
        if is_name and self.get_command(ctx, args[0]) is None:
            raise no_such_command(args[0], self.list_commands(ctx), ctx)
        return super().resolve_command(ctx, args)


class Cli(Group):
    """The root command, with the commands of a table: each is imported when it is used.

    Help and completion are made of the table alone. The help is of the `common` commands, by task, those that
    share a line in one text, and fits a screen; with --all it has them all.
    """

    def __init__(
        self, *args: Any, table: Mapping[str, Section], common: Mapping[str, Sequence[str]], **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._table = table
        self._common = common
        self._known = {name: known for section in table.values() for name, known in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(self._known)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands and cmd_name in self._known:
            self.add_command(imported(self._known[cmd_name][0]), cmd_name)
        return super().get_command(ctx, cmd_name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem  # for completion alone

        names = (
            each for each in self.list_commands(ctx) if each.startswith(incomplete) and each not in HIDDEN
        )
        items = [CompletionItem(name, help=self._known[name][1]) for name in names]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command; what was printed is written out before the exit code is decided."""
        try:
            return super().main(*args, **options)
        finally:
            _flush()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[ARGUMENTS] = [*args]
        ctx.meta[EVERY] = "--all" in takewhile(lambda word: word.startswith("-"), args)
        ctx.meta[_AS_JSON] = "--json" in args[: args.index("--") if "--" in args else None]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        as_json = ctx.meta[_AS_JSON]
        take_starter()
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if as_json:
                _print_error(error.format_message(), {})
            raise
        except (KeyboardInterrupt, click.Abort, MCPXError, OSError, ExceptionGroup) as error:
            end(error, as_json=as_json, arguments=ctx.meta[ARGUMENTS])

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if ctx.meta.get(EVERY):
            super().format_help(ctx, formatter)
            return
        self.format_usage(ctx, formatter)
        formatter.write(f"\n  {self.short_help}\n\n")
        rows = {
            (title, ", ".join(names)): " ".join(self._known[name][1] for name in names)
            for title, lines in self._common.items()
            for names in (line.split() for line in lines)
        }
        indent = max(len(names) for _, names in rows)
        for title in self._common:
            formatter.write(f"{title}:\n")
            for (section, names), text in rows.items():
                if section == title:
                    formatter.write(f"  {names:{indent}}  {text}\n")
        formatter.write(
            f"mcpx COMMAND --help says more of one; mcpx help --all has all {len(self._known)}.\n"
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        """Write a section for each task."""
        limit = formatter.width - 6 - max(map(len, self._known))
        for title, commands in self._table.items():
            rows = [
                (name, click.Command(name, help=text).get_short_help_str(limit))
                for name, (_, text) in commands.items()
            ]
            with formatter.section(title):
                formatter.write_dl(rows)


def imported(place: str) -> click.Command:
    """The command at a place in `mcpx`: a module and a name."""
    module, _, name = place.partition(":")
    command: click.Command = getattr(import_module(f"mcpx.{module}"), name)
    return command


def no_such_command(name: str, known: Iterable[str], ctx: click.Context) -> click.UsageError:
    """The error for a command that there is not, with the nearest one."""
    from mcpx.core.text.nearest import nearest  # for a mistake alone

    near = nearest(name, known)
    is_inner = ctx.parent is not None and isinstance(ctx.command, click.Group)
    listed = f"{ctx.command_path} --help" if is_inner else "mcpx help --all"
    hint = f"; did you mean {near[0]}?" if near else f"; {listed} lists them"
    return click.UsageError(f"no such command: {name}{hint}", ctx)


def end(raised: BaseException, *, as_json: bool, arguments: Sequence[str] = ()) -> NoReturn:
    """End the process as a command that has raised this, and report it to who waits for the start.

    `arguments` are the words of the command, by which the configuration is known.

    Raises:
        BaseException: What it was given, where that is no error of MCPX or of the system.
    """
    if isinstance(raised, KeyboardInterrupt | click.Abort):
        _end_interrupted()
    error = next(leaves(raised)) if isinstance(raised, ExceptionGroup) else raised
    if not isinstance(error, MCPXError | OSError):
        raise raised
    text = str(error)
    if isinstance(error, OSError):
        if error.errno == errno.EPIPE:
            raise error
        problem = error.strerror or text or type(error).__name__
        text = f"{error.filename}: {problem}" if error.filename else problem
    report(text)
    text = with_cure(text, error, arguments)
    try:
        echo(f"mcpx: {text}", err=True, fg="red")
    except OSError:  # it is a file on a full disk; what is still in its buffer must not fail at the end
        _discard(sys.stderr)
    if as_json:
        _print_error(text, _details(error))
    sys.exit(EXIT_USAGE if isinstance(error, ConfigError) else 1)


def with_cure(text: str, error: Exception, arguments: Sequence[str] = ()) -> str:
    """A text that ends with what cures the error, or finds its cause, where it names no command by itself."""
    if _CURE.search(text):
        return text
    text, then = (text, "\n") if "\n" in text else (text.removesuffix("."), "; ")
    if isinstance(error, ConfigError):
        file = _PLACE.sub("", error.where)
        option = config_hint(file) if os.path.exists(file) else ""
        return f"{text}{then}to see every mistake: mcpx check{option}"
    words = [*takewhile(lambda word: word != "--", arguments), ""]
    given = next((after for word, after in pairwise(words) if word == "--config"), None)
    option = config_hint(given) if given else ""
    details = _details(error)
    code, server = details.get("code"), shlex.quote(str(details.get("server", "")))
    lists = words[0] in {"prompts", "resources"}
    if code in {"unknown_tool", "unknown_resource", "invalid_arguments"} or (
        lists and code == "upstream_error"
    ):
        return f"{text}{then}to see what there is: mcpx {words[0] if lists else 'inspect'} {server}{option}"
    if code is not None and code != "unknown_server":
        return f"{text}{then}its state: mcpx status {server}{option}"
    if code is not None or _NO_SERVER.match(text):
        return f"{text}{then}to see the servers: mcpx status{option}"
    if (details.get("problem") or getattr(error, "problem", None)) == "not_for_people":
        return f"{text}{then}for those that need one: mcpx login --all{option}"
    if "did you mean" in text or (isinstance(error, OSError) and error.errno in _TYPED):
        return text
    if text.startswith("there is no profile"):
        return f"{text}{then}leave --profile out, or write it under $.profiles of the configuration"
    return f"{text}{then}to look for the cause: mcpx doctor{option}"


def _print_error(text: str, details: dict[str, Any]) -> None:
    echo(json.dumps({"error": text, **details}, indent=2, ensure_ascii=False))


def _details(error: Exception) -> dict[str, Any]:
    """Details of an error of the daemon or of a call, besides its text."""
    from mcpx.core.daemon.control_client import RefusedError  # a command that was refused has it already

    if isinstance(error, RefusedError):
        return error.response
    return error.to_dict() if isinstance(error, CallError) else {}


def _end_interrupted() -> NoReturn:
    """End without a word: but the shell's prompt is to begin a line, where the terminal has written `^C`."""
    if sys.stderr.isatty():
        click.echo(err=True)
    sys.exit(EXIT_INTERRUPTED)


def _flush() -> None:
    """Write out what was printed; where there is no room for it, say so and exit with 1."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard(sys.stdout)
        raise SystemExit(1) from None
    except OSError as error:
        _discard(sys.stdout)
        echo(f"mcpx: standard output: {error.strerror}", err=True, fg="red")
        raise SystemExit(1) from None


def _discard(stream: TextIO) -> None:
    """Have Python write nothing more to a standard stream as it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

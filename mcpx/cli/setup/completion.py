"""`mcpx completion`: completes commands, options, and the names of servers and tools, as the person types.

The script of a shell asks `mcpx` itself what may follow (click's protocol, `_MCPX_COMPLETE`).
`--install` writes the script into the person's data folder and has the shell's start file read it by one
marked line, which `--uninstall` takes out again; fish reads a folder of its own.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import click
from click.shell_completion import FishComplete, ZshComplete

from mcpx.cli.options import Manner
from mcpx.cli.printing import echo
from mcpx.core.store.private_files import replace_file
from mcpx.errors import MCPXError
from mcpx.paths import home

MARK: Final = "# mcpx completion"
SHELLS: Final = ("bash", "zsh", "fish")
_BASH: Final = """\
_mcpx_completion() {
    local IFS=$'\\n' line kind value words
    words="${COMP_WORDS[*]}"
    COMPREPLY=()
    while IFS= read -r line; do
        kind=${line%%,*} value=${line#*,}
        case $kind in
            dir) compopt -o dirnames 2>/dev/null ;;
            file) compopt -o default 2>/dev/null ;;
            plain)
                COMPREPLY+=("$value")
                [[ $value == *= ]] && compopt -o nospace 2>/dev/null
                ;;
        esac
    done < <(env COMP_WORDS="$words" COMP_CWORD="$COMP_CWORD" _MCPX_COMPLETE=bash_complete "$1" 2>/dev/null)
    return 0
}
complete -F _mcpx_completion mcpx
"""
_ZSH_LOADS: Final = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }"


@click.command(short_help="Complete names in your shell.")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.option("--install", is_flag=True, help="Have the shell read it, from its next start on.")
@click.option("--uninstall", is_flag=True, help="Take it out again.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do it without asking.")
def completion(*, shell: str | None, install: bool, uninstall: bool, dry_run: bool, yes: bool) -> None:
    """Print the script that completes commands, options, servers and tools in SHELL (else in $SHELL).

    \b
    For this shell alone:     eval "$(mcpx completion bash)"
    For all, from now on:     mcpx completion --install
    """  # noqa: D301 - click's own mark, not an escape
    if install and uninstall:
        raise click.UsageError("--install and --uninstall do not go together")
    shell = shell or _own_shell()
    if not (install or uninstall):
        click.echo(script(shell), nl=False)
        return
    place = place_of(shell, os.environ)
    steps = _removal(place) if uninstall else _installation(place, script(shell))
    if not steps:
        click.echo(f"nothing to do: {place.script} is {'not there' if uninstall else 'there already'}")
        return
    for step, _ in steps:
        echo(step)
    manner = Manner(yes, dry_run, as_json=False)
    if not manner.agrees(f"Change this for {shell}?"):
        manner.exit_unchanged()
    for _, act in steps:
        act()
    click.echo(
        "done" if uninstall else f"done: open a new {shell}, or type: . {shlex.quote(str(place.script))}"
    )


def script(shell: str) -> str:
    """The script for a shell."""
    if shell == "bash":
        return _BASH
    made = ZshComplete if shell == "zsh" else FishComplete
    root = click.get_current_context().find_root().command
    source = made(root, {}, "mcpx", "_MCPX_COMPLETE").source()
    if shell == "zsh":
        first, _, rest = source.partition("\n")  # `#compdef mcpx`
        source = f"{first}\n{_ZSH_LOADS}\n{rest}".replace("compadd -U -V", "compadd -U -S '' -V")
    return source


class Place(NamedTuple):
    """The files of an installed completion."""

    script: Path
    start_file: Path | None
    """What the shell reads when it starts; None where it finds the script by itself."""

    @property
    def line(self) -> str:
        """The line of the start file."""
        quoted = shlex.quote(str(self.script))
        return f"[ -r {quoted} ] && . {quoted}  {MARK}"


def place_of(shell: str, environ: Mapping[str, str]) -> Place:
    """The place for the completion of a shell."""
    own = Path(home(environ))
    data = Path(environ.get("XDG_DATA_HOME") or own / ".local" / "share")
    if shell == "fish":
        config = Path(environ.get("XDG_CONFIG_HOME") or own / ".config")
        return Place(config / "fish" / "completions" / "mcpx.fish", None)
    if shell == "zsh":
        return Place(data / "mcpx" / "completion.zsh", Path(environ.get("ZDOTDIR") or own) / ".zshrc")
    return Place(data / "mcpx" / "completion.bash", own / ".bashrc")


def _own_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise click.UsageError(f"which shell? Say one of {', '.join(SHELLS)}")
    return name


Step = tuple[str, Callable[[], None]]
"""What is done, for the person, and what does it."""


def _installation(place: Place, text: str) -> list[Step]:
    steps: list[Step] = []
    if _read(place.script) != text.encode():
        steps.append((f"write {place.script}", lambda: _write(place.script, text.encode())))
    if place.start_file is not None and MARK.encode() not in (before := _read(place.start_file) or b""):
        start, line = place.start_file, place.line
        after = before + b"\n" * (bool(before) and not before.endswith(b"\n")) + f"{line}\n".encode()
        steps.append((f"add to {start}: {line}", lambda: _write(start, after)))
    return steps


def _removal(place: Place) -> list[Step]:
    steps: list[Step] = []
    before = None if place.start_file is None else _read(place.start_file)
    if place.start_file is not None and before is not None and MARK.encode() in before:
        start, lines = place.start_file, before.splitlines(keepends=True)
        after = b"".join(line for line in lines if not line.rstrip().endswith(MARK.encode()))
        steps.append((f"take out of {start}: {place.line}", lambda: _write(start, after)))
    if place.script.exists():
        steps.append((f"remove {place.script}", place.script.unlink))
    return steps


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _write(path: Path, content: bytes) -> None:
    """Replace a file whole; of a link the file that it leads to, with the mode that it has."""
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o7777 if target.exists() else None
        replace_file(target, content, mode=0o666 if mode is None else mode)
        if mode is not None:
            target.chmod(mode)  # what the umask has taken from it
    except OSError as error:
        raise MCPXError(f"{path} cannot be written: {error.strerror}") from None

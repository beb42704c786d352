"""The command line of `mcpx attach`: read by hand, because a parser costs more than all the rest."""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

from mcpx.attach.connecting import Connecting, NoDaemon
from mcpx.attach.remembered import RememberedAnswers
from mcpx.attach.shim import Shim
from mcpx.core.store.paths import daemon_paths
from mcpx.core.system.endpoint import EXPOSURES, Endpoint, greeting, only_of
from mcpx.errors import MCPXError

USAGE: Final = """Usage: mcpx attach [--config CONFIG] [--expose HOW] [--profile NAME] [--only NAMES]
       mcpx attach [--config CONFIG] --server NAME
       mcpx attach [--config CONFIG] [--profile NAME] --peer NAME

  Join standard input and output to the daemon, which is started if none runs.
  This is what desktop clients start.

Options:
  --config FILE  Configuration file; else $MCPX_CONFIG, else the usual one.
  --expose HOW   three: the three tools of MCPX; all: every tool of every server
                 under its own name; both. Else what the configuration says.
  --profile NAME The servers and tools of a profile of the configuration, no others.
  --only NAMES   These servers and no others, separated by commas.
  --server NAME  This server alone, exactly as it is, under supervision.
  --peer NAME    This server, for another MCPX to offer as one of its own. The
                 name may be percent-encoded.
  -h, --help     Show this message and exit.
"""
WAITS_FOR_CLIENT: Final = (
    "mcpx {} waits for an MCP client on standard input: desktop clients start it. Ctrl-C ends it;"
    " for people there are mcpx status and mcpx inspect."
)
"""Said where standard input is a terminal."""
_OPTIONS: Final = {
    "--config": "a file",
    "--expose": "three, all or both",
    "--profile": "a profile's name",
    "--only": "the names of servers, separated by commas",
    "--server": "a server's name",
    "--peer": "a server's name",
}


def main(arguments: list[str]) -> int:
    """Run to the client's end; the exit code."""
    given: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        if word in {"-h", "--help"}:
            sys.stdout.write(USAGE)
            return 0
        option, equals, value = word.partition("=")
        if option in _OPTIONS:
            found = value if equals else next(words, "")
            if not found:
                return _usage(f"{option} wants {_OPTIONS[option]}")
            given[option] = found
        elif word.startswith("-") or "--config" in given:
            return _usage(f"no such option: {word}")
        else:
            given["--config"] = word
    if (problem := _problem_with(given)) is not None:
        return _usage(problem)
    expose = next((each for each in EXPOSURES if each == given.get("--expose")), None)
    only = only_of([given["--only"]]) if "--only" in given else None
    endpoint = Endpoint(
        expose, given.get("--server"), only, given.get("--profile"), _decoded(given.get("--peer"))
    )
    return _attach(given.get("--config"), endpoint)


def _problem_with(given: dict[str, str]) -> str | None:
    """Return the mistake in the options or their combination, if any."""
    if given.get("--expose", EXPOSURES[0]) not in EXPOSURES:
        return f"--expose wants {_OPTIONS['--expose']}"
    if "--expose" in given and "--server" in given:
        return "--server shows one server as it is; --expose says how all are shown: give one of them"
    if "--server" in given and ("--only" in given or "--profile" in given):
        return "--server shows one server as it is; --only and --profile choose among all of them"
    if "--peer" in given and given.keys() - {"--peer", "--config", "--profile"}:
        return "--peer gives one server to another MCPX; only --config and --profile go with it"
    if "--only" in given and not only_of([given["--only"]]):
        return f"--only wants {_OPTIONS['--only']}"
    return None


def _decoded(name: str | None) -> str | None:
    """A name without its percent-encoding, by which it passes every shell on its way."""
    if name is None or "%" not in name:
        return name
    from urllib.parse import unquote  # noqa: PLC0415 - few names need it

    return unquote(name)


def _usage(problem: str) -> int:
    """Serve a client that starts this with wrong options, so that it can say what is wrong."""
    sys.stderr.write(f"mcpx attach: {problem}\n\n{USAGE}")
    if not os.isatty(0):
        reason = f"mcpx attach, as this client starts it: {problem}. Correct the client's configuration"
        serve_client(NoDaemon(reason), Endpoint())
    return 2


def _attach(config: str | None, endpoint: Endpoint) -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        paths = daemon_paths(config)
    except MCPXError as error:
        sys.stderr.write(f"mcpx: {error}\n")
        serve_client(NoDaemon(str(error)), endpoint)
        return 1
    if os.isatty(0):
        sys.stderr.write(WAITS_FOR_CLIENT.format("attach") + "\n")
    answers = None if endpoint.alone is not None else RememberedAnswers(paths, greeting(endpoint))
    failure = serve_client(Connecting(paths), endpoint, answers)
    if failure is None:
        return 0
    sys.stderr.write(f"mcpx attach: {failure}\n")
    return 1


def serve_client(
    connecting: Connecting, endpoint: Endpoint, answers: RememberedAnswers | None = None
) -> str | None:
    """Serve the client on standard input and output until it is done; why that failed for another MCPX."""
    diverted = [fd for fd in (0, 1) if not os.isatty(fd)]  # a terminal is shared with the shell
    before = {fd: os.get_blocking(fd) for fd in diverted}
    try:
        for fd in diverted:
            os.set_blocking(fd, False)
        shim = Shim(connecting, endpoint, 0, 1, answers)
        shim.run()
    finally:
        for fd, blocking in before.items():
            os.set_blocking(fd, blocking)
    return shim.failure

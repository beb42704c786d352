"""`python -m mcpx`, and the console script.

`python -m mcpx CONFIG` is `mcpx serve CONFIG`; so is no argument at all where a client has started it
(standard input is not a terminal). Everything else is a command. `attach` is a process for each desktop
client and must be quick and small: it goes its own way before the command line is imported.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the exit code is the process's."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["attach"]:
        from mcpx.attach.command import main as attach  # noqa: PLC0415 - the fast path

        sys.exit(attach(arguments[1:]))
    from mcpx.cli.main import cli  # noqa: PLC0415 - half a second that the shim does not pay

    if not arguments and not sys.stdin.isatty():
        arguments = ["serve"]
    elif arguments and arguments[0].endswith(".json"):
        arguments = ["serve", *arguments]
    cli.main(arguments, prog_name="mcpx")


if __name__ == "__main__":
    main()

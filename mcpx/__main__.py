"""`python -m mcpx`, and the console script.

`python -m mcpx CONFIG` is `mcpx serve CONFIG`; so is no argument at all where a client has started it
(standard input is not a terminal). Everything else is a command.
"""

from __future__ import annotations

import sys

from mcpx.cli.main import cli


def main() -> None:
    """Run the command line; the exit code is the process's."""
    arguments = sys.argv[1:]
    if not arguments and not sys.stdin.isatty():
        arguments = ["serve"]
    elif arguments and arguments[0].endswith(".json"):
        arguments = ["serve", *arguments]
    cli.main(arguments, prog_name="mcpx")


if __name__ == "__main__":
    main()

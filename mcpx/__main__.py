"""`python -m mcpx`, and the console script.

`python -m mcpx CONFIG` means `mcpx serve CONFIG`; without arguments it means `mcpx serve`, if a client has
started it (standard input is not a terminal). Everything else is a command. `attach` is one process for each
desktop client and must be quick and small, so it starts before the command line is imported.

`python -m` puts the working folder first on the module path, and a client may start MCPX in any folder.
`main` takes it off again, so that nothing is loaded from there. Modules of Python that were imported before
could still come from it; `python -P -m mcpx` and the console script do not have that gap.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; the exit code is the process's."""
    _forget_start_folder()
    arguments = sys.argv[1:]
    if arguments[:1] == ["attach"]:
        _import_msgspec_alone()
        from mcpx.attach.command import main as attach  # noqa: PLC0415 - the fast path

        sys.exit(attach(arguments[1:]))
    try:
        if arguments[:2] == ["daemon", "run"]:
            from mcpx.cli.operations import foreground  # noqa: PLC0415 - without what a daemon does not use

            foreground.main(arguments[2:])
        from mcpx.cli.main import cli  # noqa: PLC0415 - half a second that the shim does not pay
    except KeyboardInterrupt:
        sys.exit(130)
    if not arguments and not sys.stdin.isatty():
        arguments = ["serve"]
    elif arguments and arguments[0].endswith((".json", ".jsonc")):
        arguments = ["serve", *arguments]
    cli.main(arguments, prog_name="mcpx")


def _import_msgspec_alone() -> None:
    """Import msgspec without `typing_extensions`, which it does not need: a fifth of the shim's start."""
    if "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # cannot be imported
    try:
        import msgspec  # noqa: F401, PLC0415
    except ImportError:  # a version that needs it
        pass
    finally:
        del sys.modules["typing_extensions"]


def _forget_start_folder() -> None:
    """Take the working folder or the script's off the module path, unless MCPX lies there (a checkout)."""
    if sys.flags.safe_path or not sys.path:
        return
    try:
        first, working = os.path.abspath(sys.path[0]), os.getcwd()
    except FileNotFoundError:  # the working folder is gone, and nothing is loaded from there
        return
    script = os.path.dirname(os.path.abspath(sys.argv[0]))
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if first in {working, script} and first != own:
        del sys.path[0]


if __name__ == "__main__":
    main()

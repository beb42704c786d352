"""The files that `env_file` names, for all servers or for one: their variables, or why there are none.

At the top level of the configuration they are a source for `${VAR}`, before the environment. In the entry of
a server they are that, and the program is started with them, under those of its `env`.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mcpx.core.config.document import Location
from mcpx.core.config.expand import Values, expand
from mcpx.core.config.notices import ConfigNotices
from mcpx.core.running.env_file import EnvFileError, parse_env_file

MAX_BYTES: Final = 1 << 20


class EnvFileProblem(Exception):  # noqa: N818 - a condition
    """Why a file's variables cannot be had; the text names it. `missing` and `remedy` as in `Obstacle`."""

    def __init__(self, problem: str, missing: str, remedy: str = "") -> None:
        super().__init__(problem)
        self.missing = missing
        self.remedy = remedy


def read_env_file(
    written: str, at: Location, values: Values, folder: str, notices: ConfigNotices
) -> Mapping[str, str]:
    """The variables of the file that is named at a place of the configuration.

    A relative path starts at `folder`, `~` is the home folder. A file that others can read is noted.

    Raises:
        EnvFileProblem: It is missing, or cannot be read.
    """
    named = expand(written, values)
    if named.problems:
        first = named.problems[0]
        raise EnvFileProblem("; ".join(map(str, named.problems)), first.name, first.remedy)
    path = values.home + named.text[1:] if named.text.startswith("~/") else named.text
    file = Path(os.path.normpath(os.path.join(folder, path)))  # noqa: PTH118 - text to text
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
            raise EnvFileProblem(f"{file} is no file of variables", str(file))
        text = file.read_text("utf-8")
        variables = parse_env_file(text, values.environ)
    except FileNotFoundError:
        remedy = f"write the variables of the server into {file}"
        raise EnvFileProblem(f"no such file: {file}", str(file), remedy) from None
    except (OSError, UnicodeDecodeError, EnvFileError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        is_text = not isinstance(error, UnicodeDecodeError)
        problem = f"{file}: {reason or (error if is_text else 'not UTF-8 text')}"
        raise EnvFileProblem(problem, str(file)) from None
    if variables and found.st_mode & stat.S_IROTH:
        notices.note(
            at, f"every user of this machine can read {file}; type: chmod 600 {shlex.quote(str(file))}"
        )
    return variables

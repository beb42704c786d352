r"""Files of variables in the form of `.env`, which `env_file` names for all servers or for one.

At the top level of the configuration they are a source for `${VAR}`, before the environment. In the entry of
a server they are that, and the program is started with them, under those of its `env`.

A line is `NAME=VALUE`, with or without `export` before it; empty lines and lines that begin with `#` do not
count. A value in single quotes stands as it is. One in double quotes may go over several lines, and has `\n`,
`\t`, `\"`, `\\` and `\$`. One without quotes ends at the end of its line or at ` #`. In the latter two
`${NAME}` and `${NAME:-default}` are replaced, by variables of the file above or of the environment; what is
not set is empty. Of a name that stands twice the last one counts. Errors never show a value.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mcpx.core.config.document import ConfigNotices, Location
from mcpx.core.config.expand import Values, expand

_NAME: Final = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*")
_BLANK: Final = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|$)")
_SINGLE: Final = re.compile(r"'([^']*)'")
_DOUBLE: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_PLAIN: Final = re.compile(r"[^\n]*")
_COMMENT: Final = re.compile(r"(?:^|[ \t])#.*")
_ESCAPE: Final = re.compile(r"\\(.)|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$"}
MAX_BYTES: Final = 1 << 20


class EnvFileError(ValueError):
    """A line that is no variable. The text has its number, and nothing of it."""


def parse_env_file(text: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of a file.

    Raises:
        EnvFileError: A line cannot be read.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        if blank := _BLANK.match(text, at):
            at = blank.end() if blank.end() > at else len(text)
            continue
        line = text.count("\n", 0, at) + 1
        name = _NAME.match(text, at)
        if name is None:
            raise EnvFileError(f"line {line}: expected NAME=VALUE")
        value, at = _value(text, name.end(), {**environ, **found}, line)
        if "\0" in value:
            raise EnvFileError(f"line {line}: the value holds a character that is not text")
        found[name[1]] = value
    return found


def _value(text: str, at: int, environ: Mapping[str, str], line: int) -> tuple[str, int]:
    """The value that begins at an offset, and where the next line begins."""
    quote = text[at : at + 1]
    if quote not in {"'", '"'}:
        plain = _PLAIN.match(text, at)
        assert plain is not None  # it matches nothing, too
        written = _COMMENT.sub("", plain[0]).strip()
        return _replaced(written, environ, escapes=False), plain.end() + 1
    quoted = (_SINGLE if quote == "'" else _DOUBLE).match(text, at)
    if quoted is None:
        raise EnvFileError(f"line {line}: the quote is not closed")
    after = _BLANK.match(text, quoted.end())
    if after is None:
        raise EnvFileError(f"line {line}: there is more after the closing quote")
    value = quoted[1] if quote == "'" else _replaced(quoted[1], environ, escapes=True)
    return value, max(after.end(), quoted.end())


def _replaced(written: str, environ: Mapping[str, str], *, escapes: bool) -> str:
    def replace(found: re.Match[str]) -> str:
        if found[1] is not None:
            return _ESCAPED.get(found[1], found[0]) if escapes else found[0]
        value = environ.get(found[2], "")
        return value or (found[3] or "")

    return _ESCAPE.sub(replace, written)


class EnvFileProblem(Exception):
    """A file whose variables cannot be had; the text names it. `missing` and `remedy` as in `Obstacle`."""

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
    if named.names_project:
        problem = "a file of variables cannot be named by the project: it is read before there is a client"
        raise EnvFileProblem(problem, "project", "write the variables into env, or the path of the file")
    path = values.home + named.text[1:] if named.text.startswith("~/") else named.text
    file = Path(os.path.normpath(os.path.join(folder, path)))
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
        remark = f"every user of this machine can read {file}; type: chmod 600 {shlex.quote(str(file))}"
        notices.add(at, remark, is_warning=False)
    return variables

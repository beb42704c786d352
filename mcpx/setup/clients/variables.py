"""The variables in a client's strings, as MCPX writes them: `${NAME}`, from the environment.

Clients spell them `${env:NAME}`, `$NAME`, `{env:NAME}`, `${{ secrets.NAME }}`; an editor asks for its
`${input:id}`. Each string is cut into what its client replaces, and text. Text stays text: a `${` in it is
written `$${`, so that nothing which is harmless in the client's file is a command or a secret in MCPX's.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from mcpx.core.config.document import quote
from mcpx.setup.clients.rows import Client


class NotImportedError(Exception):
    """An entry is not imported; the text says why."""


class OwnText(str):
    """A string in MCPX's own form already, which is not rewritten."""

    __slots__ = ()


_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_DEFAULT: Final = rf"(?::-((?:[^${{}}]|\$(?!\{{)|\$\{{{_NAME}\}})*))?"
"""A default: text, and whole variables in it. One that holds more than that is read as text altogether."""
_PLAIN: Final = re.compile(rf"\$\{{({_NAME}){_DEFAULT}\}}")
_ENV: Final = re.compile(rf"\$\{{env:({_NAME}){_DEFAULT}\}}")
_DOLLAR: Final = re.compile(rf"(?<!\$)\$({_NAME})")
_OPENCODE: Final = re.compile(rf"(?<!\$)\{{env:({_NAME})\}}")
_OPENCODE_FILE: Final = re.compile(r"(?<!\$)\{file:([^}]*)\}")
_SECRET: Final = re.compile(r"\$\{\{\s*(?:secrets|inputs)\.([\w.-]+)\s*\}\}")
_INPUT: Final = re.compile(r"\$\{input:([^}]+)\}")
_SEPARATOR: Final = re.compile(r"\$\{(?:pathSeparator|/)\}")
_HOME: Final = re.compile(r"\$\{userHome\}")
_EDITOR: Final = re.compile(
    r"\$\{(?:(?:workspaceFolder|workspaceRoot|fileWorkspaceFolder|fileDirname|file|relativeFile|cwd|selectedText"
    r"|lineNumber|columnNumber|execPath|extensionInstallFolder|defaultBuildTask|CLAUDE_PROJECT_DIR)\w*(?::[^}]*)?"
    r"|(?:command|config):[^}]+)\}"
)
_PROJECT: Final = re.compile(r"\$\{(?:workspaceFolder|workspaceRoot|CLAUDE_PROJECT_DIR)\}")
"""What MCPX knows of each client as well (`mcpx.core.config.projects`)."""
_SHELL_COMMAND: Final = re.compile(r"\$\(")
_READ_BY_MCPX: Final = re.compile(rf"\$\{{((?:cmd|keychain|env):|{_NAME}(?:\}}|:-))")
_MCPX: Final = "mcpx"
"""The name of the client that stands for MCPX's own configuration: its strings are as MCPX writes them."""


class Variables:
    """Rewrites the strings of one entry.

    `needs` gathers what the person must do before the server works, and `texts` what is text to this client
    and would be a variable to MCPX.
    """

    def __init__(self, client: Client, inputs: Mapping[str, Mapping[str, Any]]) -> None:
        self.needs: list[str] = []
        self.texts: list[str] = []
        self.is_off = False
        """Whether it cannot work before a person has given what only the client has."""
        self._client, self._inputs = client, inputs
        self._rules = _rules(client, self)

    def __call__(self, written: str) -> str:
        """The string with its variables as MCPX writes them.

        Raises:
            NotImportedError: It holds something that MCPX cannot do.
        """
        if isinstance(written, OwnText) or self._client.name == _MCPX:
            return str(written)
        done, at = "", 0
        while (found := self._next(written, at)) is not None:
            match, replacement = found
            done += self._text(written[at : match.start()])
            value = replacement(match)
            if done.endswith("$") and value.startswith("${"):
                raise NotImportedError("MCPX has no spelling for a $ directly before a variable")
            done, at = done + value, match.end()
        return done + self._text(written[at:])

    def reference(self, name: str, asked: str) -> OwnText:
        """The reference to a variable that the client gets elsewhere; `asked` says where."""
        self.is_off = True
        self._need(
            f"{asked}: set {name} in your environment, or keep it with `mcpx secret set {name}` and write"
            f" ${{keychain:{name}}}"
        )
        return variable(name)

    def ask(self, written_id: str) -> str:
        """The reference to what an editor asks for."""
        name = variable_name(written_id)
        asked = self._inputs.get(written_id, {})
        default = asked.get("default")
        if isinstance(default, str) and default and not asked.get("password") and not {*"${}"} & {*default}:
            return f"${{{name}:-{default}}}"
        return self.reference(name, f"the editor asks for {quote(written_id)}")

    def only_there(self, written: str) -> str:
        """Return what only the editor knows as it is written: MCPX says the same. A default in it is text."""
        self.is_off = True
        self._need(f"{quote(written)} is known to the editor only: write a value in its place")
        return self._text(written) if ":-" in written or "${" in written[2:] else written

    def _next(self, written: str, at: int) -> tuple[re.Match[str], Callable[[re.Match[str]], str]] | None:
        """The first variable from an offset on; of two that begin there, that of the earlier rule."""
        if "$" not in written and "{" not in written:
            return None
        found = [
            (match, replacement)
            for pattern, replacement in self._rules
            if (match := pattern.search(written, at)) is not None
        ]
        return min(found, key=lambda each: each[0].start(), default=None)

    def _text(self, literal: str) -> str:
        """A piece that is text to the client, as MCPX writes text."""
        for found in _READ_BY_MCPX.finditer(literal):
            what = found[1].rstrip("}")
            shown = f"${{{what}...}}" if what.endswith((":", "-")) else f"${{{what}}}"
            if shown not in self.texts:
                self.texts.append(shown)
        return literal.replace("${", "$${")

    def _need(self, what: str) -> None:
        if what not in self.needs:
            self.needs.append(what)


def variable(name: str) -> OwnText:
    """The reference to an environment variable that a client names.

    Raises:
        NotImportedError: No variable can have that name.
    """
    if re.fullmatch(_NAME, name, re.ASCII) is None:
        raise NotImportedError("it names an environment variable that cannot have that name")
    return OwnText(f"${{{name}}}")


_Rule = tuple[re.Pattern[str], Callable[[re.Match[str]], str]]
"""A pattern of what a client replaces, and what MCPX writes in its place."""


def _rules(client: Client, variables: Variables) -> list[_Rule]:
    """Return the patterns of what a client replaces in a string, with what MCPX writes in its place."""
    rules: list[_Rule] = [
        (_INPUT, lambda found: variables.ask(found[1])),
        (_SEPARATOR, lambda _: "/"),
        (_HOME, lambda found: found[0]),
        (_PROJECT, lambda found: found[0]),
        (_EDITOR, lambda found: variables.only_there(found[0])),
    ]
    if client.form == "continue":
        rules.insert(0, (_SECRET, partial(_kept, variables, "keeps")))
    if client.form == "opencode":
        rules += [(_OPENCODE, _bare), (_OPENCODE_FILE, partial(_kept, variables, "reads"))]
    if client.name == "crush":
        rules.append((_SHELL_COMMAND, _command))
    if "${env:NAME}" in client.variables:
        rules.append((_ENV, _with_default))
    if "${NAME}" in client.variables:
        rules.append((_PLAIN, _with_default))
    if "$NAME" in client.variables:
        rules.append((_DOLLAR, _bare))
    return rules


def _bare(found: re.Match[str]) -> str:
    return f"${{{found[1]}}}"


def _with_default(found: re.Match[str]) -> str:
    return f"${{{found[1]}}}" if found[2] is None else f"${{{found[1]}:-{found[2]}}}"


def _kept(variables: Variables, how: str, found: re.Match[str]) -> str:
    return variables.reference(variable_name(found[1]), f"the client {how} {quote(found[1])}")


def _command(_: re.Match[str]) -> str:
    raise NotImportedError("a value in it is what a command prints: mcpx add takes it in as ${cmd:COMMAND}")


def variable_name(name: str) -> str:
    """The name of an environment variable for something with any name: `api-key` is `API_KEY`."""
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").upper() or "VALUE"
    return f"_{word}" if word[0].isdigit() else word

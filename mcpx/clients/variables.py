"""The variables in a client's strings, as MCPX writes them: `${NAME}`, from the environment.

Clients spell them `${env:NAME}`, `$NAME`, `{env:NAME}`, `${{ secrets.NAME }}`; an editor asks for its
`${input:id}`. What only the client knows stays as written, and is named. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from mcpx.clients.rows import Client
from mcpx.config.document import quote

_ENV: Final = re.compile(r"\$\{env:([A-Za-z_]\w*)")
_DOLLAR: Final = re.compile(r"(?<!\$)\$([A-Za-z_]\w*)")
_OPENCODE: Final = re.compile(r"(?<!\$)\{env:([A-Za-z_]\w*)\}")
_OPENCODE_FILE: Final = re.compile(r"(?<!\$)\{file:([^}]*)\}")
_SECRET: Final = re.compile(r"\$\{\{\s*(?:secrets|inputs)\.([\w.-]+)\s*\}\}")
_INPUT: Final = re.compile(r"\$\{input:([^}]+)\}")
_SEPARATOR: Final = re.compile(r"\$\{(?:pathSeparator|/)\}")
_EDITOR: Final = re.compile(
    r"\$\{((?:workspaceFolder|workspaceRoot|fileWorkspaceFolder|fileDirname|file|relativeFile|cwd|selectedText"
    r"|lineNumber|execPath|extensionInstallFolder)\w*(?::\w[^}]*)?|(?:command|config):[^}]+)\}"
)


class Variables:
    """Rewrites the strings of one entry. `needs` gathers what the person must do before the server works."""

    def __init__(self, client: Client, inputs: Mapping[str, Mapping[str, Any]]) -> None:
        self.needs: list[str] = []
        self._inputs = inputs
        self._rules: list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = [
            (_ENV, lambda found: f"${{{found[1]}"),
            (_INPUT, self._input),
            (_SEPARATOR, lambda _: "/"),
            (_EDITOR, self._editor),
        ]
        if client.dollar:
            self._rules.append((_DOLLAR, lambda found: f"${{{found[1]}}}"))
        if client.form == "opencode":
            self._rules += [(_OPENCODE, lambda found: f"${{{found[1]}}}"), (_OPENCODE_FILE, self._file)]
        if client.form == "continue":
            self._rules.insert(0, (_SECRET, self._secret))

    def __call__(self, written: str) -> str:
        """The string with its variables as MCPX writes them."""
        if "$" not in written and "{" not in written:
            return written
        for pattern, replacement in self._rules:
            written = pattern.sub(replacement, written)
        return written

    def reference(self, name: str, asked: str) -> str:
        """The reference to a variable that the client gets elsewhere; `asked` says where."""
        self._need(
            f"{asked}: set {name} in your environment, or keep it with `mcpx secret set {name}` and write"
            f" ${{keychain:{name}}}"
        )
        return f"${{{name}}}"

    def _input(self, found: re.Match[str]) -> str:
        name = variable_name(found[1])
        asked = self._inputs.get(found[1], {})
        default = asked.get("default")
        if isinstance(default, str) and default and not asked.get("password") and not {*"${}"} & {*default}:
            return f"${{{name}:-{default}}}"
        return self.reference(name, f"the editor asks for {quote(found[1])}")

    def _secret(self, found: re.Match[str]) -> str:
        return self.reference(variable_name(found[1]), f"the client keeps {quote(found[1])}")

    def _editor(self, found: re.Match[str]) -> str:
        self._need(f"{quote(found[0])} is known to the editor only: write a value in its place")
        return found[0]

    def _file(self, found: re.Match[str]) -> str:
        name = variable_name(found[1])
        return self.reference(name, f"the client reads {quote(found[1])}")

    def _need(self, what: str) -> None:
        if what not in self.needs:
            self.needs.append(what)


def variable_name(name: str) -> str:
    """The name of an environment variable for something with any name: `api-key` is `API_KEY`."""
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").upper() or "VALUE"
    return f"_{word}" if word[0].isdigit() else word

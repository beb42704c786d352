"""A daemon to look at: `open_house` gives its configuration, with the server `shown` (see `shown_server.py`).

Everything that it reads and writes is in a folder of its own, HOME too. It ends with the file of tests that
shares it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.mcpx.core.daemon.daemons import House

SHOWN = str(Path(__file__).with_name("shown_server.py"))


class PageHouse(House):
    """A configuration whose server `shown` has one of everything; `say` puts words into its mouth."""

    def say(self, **words: str) -> None:
        """From its next start on."""
        self.speaking("words", **words)

    @property
    def shown(self) -> dict[str, Any]:
        """The entry of the server."""
        return self._entry("words")

    def speaking(self, name: str, **words: str) -> dict[str, Any]:
        """The entry of another such server, with these words in its mouth."""
        (self.folder / f"{name}.json").write_text(json.dumps(words), "utf-8")
        return self._entry(name)

    def _entry(self, name: str) -> dict[str, Any]:
        return {"command": sys.executable, "args": ["-S", "-E", SHOWN, str(self.folder / f"{name}.json")]}

    def begin(self, servers: dict[str, Any] | None = None, **settings: Any) -> None:
        """Write the configuration, and start the daemon; one that runs has it in force when this returns."""
        self.write({"shown": self.shown} if servers is None else servers, **settings)
        was_running = self.pid is not None
        for command in (("daemon", "start"), ("reload",))[: 1 + was_running]:
            done = self.run(*command)
            assert done.returncode == 0, done.stderr

    def server(self, name: str = "shown") -> dict[str, Any]:
        """What the daemon says of a server."""
        return next(dict(each) for each in self.status()["servers"] if each["name"] == name)


@contextmanager
def open_house() -> Iterator[PageHouse]:
    """A configuration to begin with."""
    with PageHouse.opened(of_user=True) as made:
        made.say()
        yield made

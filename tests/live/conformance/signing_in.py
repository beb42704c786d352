"""What the suite starts as the client under test where a server wants a sign-in: MCPX at a terminal.

Run as `python -m tests.live.conformance.signing_in URL` with the suite's environment. Calls the server's
tools with `mcpx exec`, and signs in with `mcpx login` where the error says so, as somebody there would.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

JSON = dict[str, Any]

SERVER: Final = "suite"
PERSON: Final = Path(__file__).parent / "person.py"
SIGN_INS: Final = 2
"""Then whoever sits there gives up."""
WITHIN_S: Final = 30.0
DOCUMENT: Final = "https://conformance-test.local/client-metadata.json"
"""The client that the suite knows by its metadata document."""
KNOWN_BY_DOCUMENT: Final = "auth/basic-cimd"


def auth(scenario: str, context: JSON) -> JSON:
    """The setting `auth` of the server, of what the suite has registered."""
    found = {key: context[key] for key in ("client_id", "client_secret", "issuer") if key in context}
    if "private_key_pem" in context:
        found |= {"private_key": context["private_key_pem"], "algorithm": context["signing_algorithm"]}
    if "client-credentials" in scenario:
        found["grant"] = "client_credentials"
    if scenario == KNOWN_BY_DOCUMENT:
        found["client_metadata_url"] = DOCUMENT
    return found


class Terminal:
    """Runs the commands of MCPX with one configuration."""

    def __init__(self, folder: Path, entry: JSON) -> None:
        self._config = folder / "mcpx.json"
        self._config.write_text(json.dumps({"mcpServers": {SERVER: entry}, "login_shell": False}))
        state, browser = folder / "state", f"{sys.executable} {PERSON} %s"
        self._environment = {**os.environ, "MCPX_STATE_DIR": str(state), "BROWSER": browser, "DISPLAY": ":0"}

    def run(self, *words: str) -> tuple[int, str]:
        """The exit code of a command, and all that it printed."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "mcpx", *words, "--config", str(self._config)],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        sys.stderr.write(f"$ mcpx {' '.join(words)}\n{done.stdout}{done.stderr}")
        return done.returncode, done.stdout + done.stderr


def use(terminal: Terminal) -> None:
    """Call every tool of the server, signing in where that is asked for."""
    signed_in = 0
    while True:
        problem = ""
        status, shown = terminal.run("inspect", SERVER, "--json")
        shown_tools = json.loads(shown)["structuredContent"]["tools"] if status == 0 else []
        names = [tool["name"] for tool in shown_tools]
        if not names:
            problem = shown
        for name in names:
            status, printed = terminal.run("exec", SERVER, name)
            problem = problem or (printed if status else "")
        if "mcpx login" not in problem or signed_in == SIGN_INS:
            return
        signed_in += 1
        terminal.run("login", SERVER)


def main(url: str) -> None:
    context: JSON = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", str(context.get("name", "")))
    entry: JSON = {"type": "http", "url": url}
    if settings := auth(scenario, context):
        entry["auth"] = settings
    with tempfile.TemporaryDirectory(prefix="conformance-sign-in-") as folder:
        terminal = Terminal(Path(folder), entry)
        terminal.run("daemon", "start")
        try:
            use(terminal)
        finally:
            terminal.run("daemon", "stop")


if __name__ == "__main__":
    main(sys.argv[1])

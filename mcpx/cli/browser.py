"""Opening an address in the person's browser, where there is one on this screen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping


def has_browser(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> bool:
    """Whether a browser would open where the person sees it: `BROWSER` says so, or there is a screen."""
    if environ.get("BROWSER"):
        return True
    if platform == "darwin":
        return not environ.get("SSH_CONNECTION")  # else it opens on the other computer's screen
    if not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return False
    import webbrowser

    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def open_browser(url: str) -> None:
    """Have the browser open an address, without waiting for it: a program of `BROWSER` may run for long.

    It neither prints into what this command prints, nor ends with it.
    """
    command = [sys.executable, "-I", "-m", "webbrowser", url]
    nothing = subprocess.DEVNULL
    subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)

"""URLs as a configuration has them: what is wrong with one, and which hosts are this machine alone. Pure.

`PORT` stands in a URL, and in the arguments and variables of the program behind it, for a free port that MCPX
chooses when it starts that program.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

PORT: Final = "${port}"


def with_port(text: str, port: int) -> str:
    """The text with that port in place of each reference."""
    return text.replace(PORT, str(port))


def split_url(url: str) -> SplitResult | None:
    """The parts of a URL; None where its host or its port cannot be read."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises what it cannot read
    except ValueError:
        return None
    return parts if parts.hostname else None


def bad_url(url: str) -> str | None:
    """Return the problem with a URL, without showing it: it may hold a password."""
    if not re.match("https?://", url, re.IGNORECASE):
        return "expected a URL that starts with http:// or https://"
    if re.search(r"[\s\x00-\x1f\x7f]", url):
        return "the URL holds a space or a control character"
    return None if split_url(url) else "the host or the port of the URL cannot be read"


def bad_credential_url(url: str) -> str | None:
    """Return the problem with a URL that credentials are sent to: https, or http on this machine."""
    parts = None if bad_url(url) else split_url(url)
    if parts is None or "@" in parts.netloc or not is_confidential(url):
        return "expected a URL that starts with https://"
    return None


def is_confidential(url: str) -> bool:
    """Return True if nobody on the way can read what is sent there: by https, or to this machine."""
    parts = split_url(url)
    return url[:5].lower() != "http:" or (parts is not None and is_loopback(parts.hostname or ""))


def is_loopback(host: str) -> bool:
    """Return True if a host is this machine alone; asks no name server."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback

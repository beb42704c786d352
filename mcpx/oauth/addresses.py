"""Which addresses a sign-in may reach: no server leads into a network that it is not in itself. Pure.

A server says where its authorization server is, and may lie: a public one could have MCPX send requests
to services of the private network or of this machine (server-side request forgery).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import httpx2

    from mcpx.core.servers.transport.http_pool import Url

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


class Reach(IntEnum):
    """The nearness of an address; a server may lead to what is no nearer than itself."""

    PUBLIC = 0
    PRIVATE = 1
    LOOPBACK = 2
    NOWHERE = 3
    """Link-local (cloud metadata services), multicast, unspecified: no server may lead there."""


def reach_of(address: str) -> Reach:
    """The reach of an IP address; one that is none at all is `NOWHERE`."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return Reach.NOWHERE
    ip = _embedded(ip)
    if ip.is_link_local or ip.is_multicast or ip.is_unspecified:
        return Reach.NOWHERE
    if ip.is_loopback:
        return Reach.LOOPBACK
    return Reach.PUBLIC if ip.is_global else Reach.PRIVATE


def _embedded(ip: IPAddress) -> IPAddress:
    """The IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or ip


def reach_of_server(addresses: Iterable[str]) -> Reach:
    """The reach of a server with these addresses: the farthest, so that it wins nothing by a nearer one."""
    return min(
        (reach for each in addresses if (reach := reach_of(each)) < Reach.NOWHERE), default=Reach.PUBLIC
    )


def may_lead(server: Reach, target: Reach) -> bool:
    """Return True if a server of one reach may lead to an address of another."""
    return target < Reach.NOWHERE and target <= server


def is_ip(host: str) -> bool:
    """Return True if a host is an IP address, and no name."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Return True if a URL's host is this machine by definition (RFC 6761, RFC 8252 7.3)."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return is_ip(name) and reach_of(name) is Reach.LOOPBACK


def origin(url: httpx2.URL | Url) -> tuple[str, str, int | None]:
    """A URL's scheme, host and port, to be compared."""
    scheme, host = url.scheme.lower(), url.host.lower()
    if not host.isascii():
        host = host.encode("idna").decode()
    return scheme, host, url.port or {"http": 80, "https": 443}.get(scheme)


def shown_origin(url: httpx2.URL) -> str:
    """A URL's scheme, host and port, for a message."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"

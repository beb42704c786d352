"""The AI clients of this user: where each keeps its servers, in which form, and what they are in MCPX's form.

`find` and `find_all` look for the files, `write_entry` makes MCPX's own entry for one.
"""

from mcpx.clients.entries import starts_mcpx, write_entry
from mcpx.clients.finding import (
    ClientFile,
    UnknownClientError,
    candidates,
    client_named,
    find,
    find_all,
    this_system,
)
from mcpx.clients.rows import CLIENTS, Client, ClientCommand, Form, System

__all__ = [
    "CLIENTS",
    "Client",
    "ClientCommand",
    "ClientFile",
    "Form",
    "System",
    "UnknownClientError",
    "candidates",
    "client_named",
    "find",
    "find_all",
    "starts_mcpx",
    "this_system",
    "write_entry",
]

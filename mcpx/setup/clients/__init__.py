"""The AI clients of this user: where each keeps its servers, in which form, and what they are in MCPX's form.

`find` and `find_all` look for the files, `read_client_file` reads the servers of one, `plan_import` brings
them into MCPX's configuration; `write_entry` makes MCPX's own entry for a client.
"""

from mcpx.setup.clients.forms import write_entry
from mcpx.setup.clients.launching import windows_clients
from mcpx.setup.clients.planning import ImportPlan, Planned, plan_import
from mcpx.setup.clients.reading import (
    ClientFile,
    ClientServers,
    LeftOut,
    candidates,
    client_named,
    clients_named,
    find,
    find_all,
    in_folders,
    read_client_file,
    read_servers,
    this_system,
)
from mcpx.setup.clients.rows import CLIENTS, Form, System
from mcpx.setup.clients.translating import Server

__all__ = [
    "CLIENTS",
    "ClientFile",
    "ClientServers",
    "Form",
    "ImportPlan",
    "LeftOut",
    "Planned",
    "Server",
    "System",
    "candidates",
    "client_named",
    "clients_named",
    "find",
    "find_all",
    "in_folders",
    "plan_import",
    "read_client_file",
    "read_servers",
    "this_system",
    "windows_clients",
    "write_entry",
]

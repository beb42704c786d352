"""The environment of the person whom MCPX serves, not of the program that happened to start it.

`person` gives the variables that a configuration can name, and the PATH that commands are found on: those of
the login shell, which is asked once, then those of this process. Beside them stand the two other sources of
values: `env_file` (files in the form of `.env`) and `secrets` (`${keychain:NAME}`, `${cmd:...}`).

Servers are started in the environment that their hub has `InForce`. Nothing here is imported by
`mcpx attach`; importing it starts nothing.
"""

from mcpx.core.running.person import (
    ClientVariables,
    Environment,
    InForce,
    Inherited,
    begin,
    in_force,
    own,
    person,
    put_in_force,
    with_clients,
)

__all__ = [
    "ClientVariables",
    "Environment",
    "InForce",
    "Inherited",
    "begin",
    "in_force",
    "own",
    "person",
    "put_in_force",
    "with_clients",
]

"""`python -m mcpx.oauth.keychain_program`: one change or look-up in the keychain, for `KeychainStore` alone.

It reads `{"do": "get" | "put" | "remove", "key", "value"?}` from standard input, and prints
`{"problem", "value"}`: a secret is in no command line and no variable, which other processes can see.
"""

from __future__ import annotations

import json
import sys
from typing import Final

from mcpx.core.running import keychain

SERVICE: Final = "mcpx sign-ins"
"""Another service than that of `${keychain:NAME}`, so that no configuration can name a token."""


def _main() -> None:
    asked, problem, value = json.load(sys.stdin), "", None
    try:
        match asked["do"]:
            case "get":
                value = keychain.get(asked["key"], SERVICE)
            case "put":
                keychain.put(asked["key"], asked["value"], SERVICE)
            case _:
                keychain.remove(asked["key"], SERVICE)
    except keychain.KeychainError as error:
        problem = str(error)
    sys.stdout.write(json.dumps({"problem": problem, "value": value}))


if __name__ == "__main__":
    _main()

"""A message that is nested too deeply to be read, without its depths: pure, and linear in its length.

JSON that is deeper than Python's stack allows can be neither read nor skipped. For whoever must say so to its
sender, the values below `DEPTH` are taken out, so that the rest can be read: the id, the method, the names.
"""

from __future__ import annotations

import re
from typing import Final

DEPTH: Final = 8  # levels that are kept: a request's names are on the third
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)


def shallow(line: bytes) -> bytes | None:
    """The message with null in the place of every value below `DEPTH`; None where brackets do not match."""
    kept: list[bytes] = []
    depth = begun = 0
    for token in _TOKEN.finditer(line):
        match token[0]:
            case b"[" | b"{":
                depth += 1
                if depth == DEPTH + 1:
                    kept += (line[begun : token.start()], b"null")
            case b"]" | b"}":
                depth -= 1
                if depth < 0:
                    return None
                if depth == DEPTH:
                    begun = token.end()
            case _:
                pass
    return None if depth else b"".join((*kept, line[begun:]))

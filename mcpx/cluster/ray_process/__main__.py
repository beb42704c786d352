"""`python -P -m mcpx.cluster.ray_process ADDRESS [--allow-open]`: the Ray process of a gateway."""

from __future__ import annotations

import sys

from mcpx.cluster.ray_process.protocol import ALLOW_OPEN
from mcpx.cluster.ray_process.serving import serve

if __name__ == "__main__":
    serve(sys.argv[1] if len(sys.argv) > 1 else "auto", allow_open=ALLOW_OPEN in sys.argv[2:])

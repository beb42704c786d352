"""`python -P -m mcpx.cluster.ray_process ADDRESS`: the Ray process. Only the gateway starts it."""

from __future__ import annotations

import sys

from mcpx.cluster.ray_process.serving import serve

if __name__ == "__main__":
    serve(sys.argv[1] if len(sys.argv) > 1 else "auto")

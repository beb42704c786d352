"""A wrapper around a stdio server that writes down every line it is sent.

Run as `python recorder.py RECORDING COMMAND ARGUMENTS...`. A line is in the file before the server gets it,
so that what is not in the file was not sent.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    recording, command = Path(sys.argv[1]), sys.argv[2:]
    server = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert server.stdin is not None
    with recording.open("ab", buffering=0) as file:
        for line in sys.stdin.buffer:
            file.write(line)
            server.stdin.write(line)
            server.stdin.flush()
    server.stdin.close()
    return server.wait()


if __name__ == "__main__":
    sys.exit(main())

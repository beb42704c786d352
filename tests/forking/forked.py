"""Run as `python -S -E -P forked.py SOCKET ARGUMENTS`: `python ARGUMENTS`, forked off the server at SOCKET.

For whoever can only start a command, as MCPX starts its servers. This process stays as the one that was
started: it ends as the forked one ends, which is killed when this one dies. It starts in 10 ms.
"""

from __future__ import annotations

import _socket
import marshal
import posix
import sys

RIGHTS = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (0, 1, 2))


def main() -> None:
    arguments, environ = sys.argv[2:], {**posix.environ}
    request = marshal.dumps((arguments, posix.getcwd(), environ, False, True, ()))
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        server.connect(sys.argv[1])
    except OSError:  # the tests are over: what sweeps up behind them is started for real
        posix.execv(sys.executable, [sys.executable, *arguments])
    ancillary = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, RIGHTS)]
    server.sendmsg([len(request).to_bytes(4, "big")], ancillary)
    server.sendall(request)
    posix.closerange(0, 3)  # the streams are the forked one's alone
    said = b""
    while len(said) < 8:
        if not (chunk := server.recv(8)):
            posix._exit(70)  # the server is gone
        said += chunk
    if (code := int.from_bytes(said[4:8], "big", signed=True)) < 0:
        posix.kill(posix.getpid(), -code)
    posix._exit(code)


main()

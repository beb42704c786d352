"""`mcpx daemon run CONFIG`, with little patience for its event loop, which SIGUSR1 makes stand for good."""

from __future__ import annotations

import signal
import sys
import time
from functools import partial

import anyio

from mcpx.app import serve_daemon
from mcpx.core.config import load
from mcpx.core.store.listening import listening
from mcpx.core.store.paths import acquire_lock, daemon_paths
from mcpx.core.system.watchdog import Patience
from mcpx.core.telemetry.log import configure

if __name__ == "__main__":
    configure()
    place = daemon_paths(sys.argv[1])
    lock = acquire_lock(place)
    signal.signal(signal.SIGUSR1, lambda *_: time.sleep(1000))
    with listening(place) as listener:
        run = partial(serve_daemon, load(place.config), place, listener, patience=Patience(0.3, 1.0, 0.1))
        sys.exit(anyio.run(run))

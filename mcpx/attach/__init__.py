"""`mcpx attach`: a desktop client's standard streams, connected to the daemon's socket.

A process of its own for each client, so it must be small and quick: standard library and msgspec only, no
event loop, no SDK. `session` follows the session and is pure; `refusals` words the failures; `shim` does the
input and output, with `outbox`; `command` is the command line.
"""

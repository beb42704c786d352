"""`mcpx attach`: a desktop client's standard streams, connected to the daemon's socket.

A process of its own for each client, so it must be small and quick: standard library and msgspec only, no
event loop, no SDK. `session` follows the session and is pure; `without_daemon` answers while there is no
daemon, so that a client's session opens whatever is wrong; `connecting` says when a daemon is looked for;
`shim` does the input and output; `command` is the command line.
"""

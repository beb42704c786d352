"""Servers of other MCPX, offered here as if they were configured here.

An entry with `"mcpx": true` is a *peer*: another MCPX, over HTTP or as a command. Its servers are listed, and
listed again when they change, and each becomes a server of this configuration, under its own name or one with
a prefix, with a session of its own at the peer's endpoint for it. From there on it is an upstream like any
other: supervised, queued, listed, remembered. A server that would come back to this MCPX is left out.
"""

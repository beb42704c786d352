"""Sessions that carry one client's messages to a server and back as they are.

A `DirectSession` is a connection to a server that MCPX supervises and says next to nothing on: the first
message is the client's own `initialize`, and requests, results, errors and notifications pass in both
directions as the bytes that came, whatever their methods and members; ids and progress tokens, too, unless
those of two clients clash. The `DirectClient` behind it outlives the connection: when the server was
restarted, the session repeats what the client had put in force, so that the client need not know.

A server of 2026-07-28 is without state between requests, so all clients of that revision share one session
with it. A client of an older one has a session of its own, as it would have without MCPX.
"""

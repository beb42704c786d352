"""Streamable HTTP, the server side: the SDK's protocol and sessions, within bounds of our own.

A request passes through these, from the outside in; each is an ASGI application around the next, or a class
of uvicorn's that is given bounds:

1. `server`: accepts connections up to a number, and makes room by closing the one that was idle longest.
2. `connection`: a head and a body must come in time; all bodies together are bounded. Nothing waits for a
   client to read: what it leaves unread is counted, lossy messages are dropped first, then the client is.
3. `server.Draining`: notes each open request, so that none is left unanswered when MCPX ends.
4. `frontend`: sends `/ui` to the page. All else goes to `access`: CORS, then the bearer token, to which each
   open request is bound, so that it ends with the token; or to `monitoring`, for machines.
5. A `Forwarder` (a port), where this is one of several replicas: takes a request to the replica that has what
   the request brings with it.
6. `endpoints`: decodes the URL to an `Endpoint`, and finds its sessions. `EncodedResults` around it puts in
   the JSON that handlers have enclosed: the SDK never parses what a server wrote.
7. `sessions`: the SDK's manager of sessions. Each session keeps its `events` for a while, so that a client
   whose stream broke gets its answer; a batch (`batches`, one revision only) is posted to it message by
   message.

What the SDK's transport then calls is the same server that serves clients on streams. Its sessions are of the
handshake era; requests of 2026-07-28 have none, and each is a client of its own. `supervision` runs all of it
as a child of the daemon: a port that is taken, or lost later, is tried again, and costs the others nothing.
"""

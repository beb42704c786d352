"""Streamable HTTP, the server side, within bounds of MCPX's own; no ASGI but for the page.

A request passes through these, from the outside in:

1. `server`: accepts connections up to a number, and makes room by closing the one that was idle longest. At
   the end it leaves no request without an answer.
2. `connection`: serves the requests of one connection in their order; a head and a body must come in time.
   Nothing waits for a client to read: what it leaves unread is counted, lossy messages are dropped first,
   then the client is. `requests` reads them with httptools; all bodies together are bounded.
3. `frontend`: looks at the head of each, by the plain functions of `access`: Host and Origin, CORS, the
   bearer token, to which an open request is bound, so that it ends with the token. It sends `/ui` to the page
   (by `asgi`), and what machines ask for to `monitoring`.
4. A `Forwarder` (a port), where this is one of several replicas: takes a request to the replica that has what
   the request brings with it.
5. `endpoints`: decodes the URL to an `Endpoint`, and finds its sessions. It is given an `http_exchange`: the
   request, whole, and plain calls for the response, which goes out in one write if it is plain. `exchange`
   says what heads mean, and frames events.
6. `sessions`: the sessions of the handshake era, and the requests of 2026-07-28, which have none; `bodies`
   decodes them, `posted` is one until it is answered, and `in_session` one of a session, whose `events` are
   kept for a while, so that a client whose stream broke gets its answer.

What is behind is the same server that serves clients on streams, by the same fast path. `supervision` runs
all of it as a child of the daemon: a port that is taken, or lost later, is tried again, and costs the others
nothing.
"""

"""Endpoints for another MCPX: the list of servers, and each server for it to offer as one of its own.

A peer asks at any endpoint that shows it servers which ones there are (`mcpx/servers`), and opens a session
at the endpoint of each: `Endpoint(peer=NAME)`, `/mcp/peers/NAME` over HTTP, `mcpx attach --peer NAME`. What
it gets there is the server under its own names, over the session that all clients share: instructions,
capabilities and lists as the server gave them, results as the bytes that came, and failures with their code
and outcome, so that its client is told what a client here would be told. Rules, pins, limits and the audit
log hold as at every endpoint.
"""

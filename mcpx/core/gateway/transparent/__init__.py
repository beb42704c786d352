"""The transparent endpoint: one server, to its client exactly as it is.

What a client sees through it equals what it sees directly, field by field, in both eras: the answers to
`initialize` and `server/discover` with the server's own name, instructions, capabilities and revision; its
names, pages and cursors; results, errors and notifications with all their members, also unknown ones;
requests of the server to the client; unknown methods in both directions. Nothing is rendered, cut, checked,
metered or added. What an era or a method means is between client and server: one of an era that the server
does not speak gets the server's own refusal.

MCPX adds supervision. The server's session is a `mcpx.core.servers.passthrough` session: requests wait while
the server starts, a server that dies is started again and gets what its client had put in force, and its
client is notified of what has changed only. A request that is lost gets a JSON-RPC error of MCPX's
(`requests`), with code and outcome in its `data`; that is the one thing that a client would not get directly.

Rules are the exception to all this, and only where a person has set some: what the policy of the server, or
the profile of a token, does not admit is not there (`rules` for requests, `answers` for what comes back), a
person may be asked before a call (`questions`), and what is pinned holds (`answers`). Under rules a request
goes on with each member of its params once. Each request that asks for something is written to the audit log
(`requests`). `sessions` has these steps in their order.

`clients` serves those on streams, bytes in and bytes out, and those of `/mcp/servers/NAME`, over the SDK's
transport.
"""

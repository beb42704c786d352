"""MCPX as one of several replicas behind a load balancer (`http.replica`); imported only where that is set.

What a client is given and brings back (the state of a call that waits for answers, the id of a task, the
address of a kept result) is kept by the replica that gave it. So each is *sealed* on its way out: signed with
the secret that all replicas share, with the URL of its holder in it (`seals`). A request of 2026-07-28 that
brings one to another replica is passed on to the holder, whole, and its answer comes back as it is
(`routing`, `forwarding`). Sessions of older revisions are the load balancer's: by `Mcp-Session-Id` all of a
session's requests come here.
"""

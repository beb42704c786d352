"""Servers on the nodes of a Ray cluster: where each runs, and what happens when a node goes.

The gateway is the daemon that clients attach to. On each node of the cluster a Ray actor keeps a *node*
running: a process with a whole hub, which listens for gateways over TLS (`node/`). A server that is placed
has a transport that asks `placement` for a node at each connection, and from there on it is an upstream like
any other: when its node dies the session is lost, calls in flight end as `unknown`, and the next connection
goes to another node. Ray is never in the way of a call. It runs in a process of its own beside the gateway
(`ray_process/`), which can fail and be started again; nothing else here imports it.
"""

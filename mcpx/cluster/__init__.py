"""Servers elsewhere: at other MCPX (`federation/`), on the nodes of a Ray cluster, and behind `replicas/`.

The core asks through its ports `Peers`, `Cluster`, `Placement` and `Forwarder`. The rest is the cluster.

The gateway is the daemon that clients attach to. On each node of the cluster a Ray actor keeps a *node*
running: a process with a whole hub, which listens for gateways over TLS (`node/`). A server that is placed
asks for a connection to a node, and from there on it is an upstream like any other: when its node dies the
session is lost, calls in flight end as `unknown`, and the next connection goes to another node. Ray is never
in the way of a call. It runs in a process of its own beside the gateway (`ray_process/`), which can fail and
be started again; nothing else here imports it.

To read it: `membership` is what a hub joins, and `cluster` holds the parts together. `node_table` has what is
known of the nodes, `node_watch` hears of each, `node_link` carries MCP to it. `placement` decides where a
session goes (pure), `assigning` carries that out with what Ray has reserved, `draining` moves sessions off.
`ray_client` is the gateway's side of the Ray process. What several gateways share is in `gateways/`.
"""

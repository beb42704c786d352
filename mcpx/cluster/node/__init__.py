"""A node of the cluster: a process with a whole hub that runs servers for gateways on other machines.

`protocol` is what gateway and node say to each other; `python -P -m mcpx cluster node` is the process. It
knows nothing of Ray, and nothing of the person's configuration: what it runs, gateways tell it.
"""

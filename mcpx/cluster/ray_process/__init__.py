"""The process beside the gateway that speaks to Ray, and the actor that keeps a node running.

The gateway starts it (`mcpx.cluster.ray_client`), speaks to it in lines of JSON (`protocol`), and starts it
again when it ends. `python -P -m mcpx.cluster.ray_process ADDRESS` is the whole of it. Only `session` and
what it imports need Ray; `protocol` is as light for the gateway as any other struct.
"""

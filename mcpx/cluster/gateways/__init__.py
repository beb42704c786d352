"""Several gateways on one cluster: what they share, and how they know of each other.

Each gateway is an ingress of its own, with its own clients, state folder and audit log. They share, by the
cluster's store (`table`): what was approved of servers (`pins`), who they are, and that all are to read their
configurations again (`sharing`, which keeps all of it up). The store is a help and not the truth: each
gateway serves by its own files while it is away. Sign-ins, tokens of clients and the secret of replicas are
not shared. Imported where there is a cluster alone.
"""

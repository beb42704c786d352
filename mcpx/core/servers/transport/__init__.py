"""The road to one server: its process or HTTP connection, and the ledger of processes."""

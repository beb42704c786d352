"""Running operations: the daemon, what it does, and serve."""

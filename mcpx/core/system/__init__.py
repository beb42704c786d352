"""The operating system's own: what differs between systems, or is there on some of them alone."""

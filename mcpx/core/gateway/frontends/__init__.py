"""Ways in for clients and the command line: stdio, the Unix socket, HTTP, and control requests."""

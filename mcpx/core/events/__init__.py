"""One record of what happened to each call and server, and what is counted and kept of it."""

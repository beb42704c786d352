"""The doors: how AI clients reach MCPX, over stdio and over HTTP, with the same three tools behind both."""

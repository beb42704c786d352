"""`mcpx top`: the daemon and its servers, live, on the whole terminal."""

"""The core of MCPX: it imports nothing of its neighbours but errors, paths and version."""

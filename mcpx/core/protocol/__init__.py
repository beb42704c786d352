"""MCP as plain values: requests, their context, and addresses of results."""

"""MCPX: three tools instead of hundreds, over supervised MCP servers."""

__version__ = "0.1.0"

"""The version of MCPX, where even the lowest layer may read it."""

__version__ = "0.1.0"

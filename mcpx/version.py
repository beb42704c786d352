"""The version of MCPX and the name of its distribution, where even the lowest layer may read them."""

__version__ = "0.1.0"
DISTRIBUTION = "mcpx-gateway"

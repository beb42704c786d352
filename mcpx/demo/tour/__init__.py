"""`mcpx demo`: `runner` runs the `steps`, `report` holds and prints what they found.

The bundled servers that it connects to are in `mcpx.demo`.
"""

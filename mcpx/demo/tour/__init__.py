"""What `mcpx demo` shows: `runner` runs the `steps`, `report` is what they found, `terminal` prints it.

The bundled servers that it connects to are in `mcpx.demo`.
"""

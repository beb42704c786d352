"""What `mcpx demo` shows.

`scene` has the shapes, `stage` what the scenes play on; `offering` and `living` are the scenes themselves,
`performance` plays them over a hub of its own and sees every process off, `terminal` shows them to people.
The bundled servers are `mcpx.demo`.
"""

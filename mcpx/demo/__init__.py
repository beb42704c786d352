"""The demo servers: real MCP servers that need no network, no account and no set-up.

Each is a program of its own over stdio, built on the SDK and knowing nothing of MCPX:

* `python -P -m mcpx.demo.tools`: orders, units, a chart, a sound, progress, a failure.
* `python -P -m mcpx.demo.knowledge`: a folder of text documents as `file://` resources.
* `python -P -m mcpx.demo.changing`: tools and documents that come and go while it runs.

`mcpx demo` connects to all three; the tests use them as honest upstream servers.
"""

"""Files that people and other programs write: JSON with comments, TOML and YAML, read and edited in place.

`jsonc` reads JSON with comments and trailing commas and says where each value stands; `editing` changes one
value of a file in any of the three syntaxes and leaves every other byte alone. Pure: bytes or text in, bytes
or values out. Knows nothing of MCP, of clients, or of where files are.
"""

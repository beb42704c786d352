"""Streamable HTTP: the server side."""

"""From server to client: requests, log messages, and calls that are suspended for an answer."""

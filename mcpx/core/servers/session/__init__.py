"""The SDK's client session with one server, and what goes out on it."""

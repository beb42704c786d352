"""What a server sends of its own accord, on its way to clients: requests, log messages, suspended calls."""

"""What a server sends of its own accord, and to whom it goes: questions, log messages."""

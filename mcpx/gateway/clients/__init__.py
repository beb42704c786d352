"""Who is connected: what each client is and can do, and what waits to be sent to it."""

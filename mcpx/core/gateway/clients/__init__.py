"""The connected clients: what each is and can do, and the notifications that wait to be sent to it."""

"""The daemon from outside: where it is, and how to find, start, ask and install it."""

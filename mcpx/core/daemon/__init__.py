"""The daemon from outside: its files, and how to find, start, query and install it."""

"""Differences between operating systems, and the files and sockets of this machine."""

"""Private files."""

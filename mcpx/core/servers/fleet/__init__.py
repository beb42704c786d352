"""All servers together: which there are, and how they start, change and end."""

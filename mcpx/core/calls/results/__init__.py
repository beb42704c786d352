"""Results on their way to a model: shaped, kept for further pages, and selected from."""

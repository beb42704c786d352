"""The three tools as clients see them: their definitions, and their results on the wire."""

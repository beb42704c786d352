"""The one pipeline of calls, and around it: inspection, the registry, questions, and kept results."""

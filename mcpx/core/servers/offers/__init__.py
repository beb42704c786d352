"""What one server offers: listing it, describing it, and following its changes."""

"""Offers of one server: listing, describing and remembering them, and following their changes."""

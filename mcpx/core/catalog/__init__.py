"""Offers of the servers: the model, differences, names and URIs."""

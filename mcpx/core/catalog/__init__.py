"""What the upstream servers offer: the model, differences, names and URIs."""

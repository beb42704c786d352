"""What the upstream servers offer: the model, its description for a model's context, and differences."""

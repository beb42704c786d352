"""What the model reads: results, TOON, schemas as TypeScript types, generated descriptions."""

"""Text for the model: results, TOON, schemas as TypeScript types, generated descriptions."""

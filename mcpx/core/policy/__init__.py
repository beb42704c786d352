"""Trust: what of each server may be seen and run, and who has agreed to it."""

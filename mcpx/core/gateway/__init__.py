"""Downstream: everything that a client sees, over whichever frontend it comes."""

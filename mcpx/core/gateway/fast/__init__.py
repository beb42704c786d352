"""Calls from line to line: what the SDK need not see, with params decoded no further than names."""

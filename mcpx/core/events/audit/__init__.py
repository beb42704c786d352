"""The audit log: what was run, by whom, and with what outcome."""

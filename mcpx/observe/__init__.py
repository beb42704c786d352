"""What MCPX tells the people who run it: logs and counters."""

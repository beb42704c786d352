"""What servers offer, and calls of it: inspect, exec, resources and prompts."""

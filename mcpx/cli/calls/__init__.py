"""Offers of servers, and calls: inspect, exec, resources and prompts."""

"""What stands behind every frontend: the servers, the registry, the router and the calls through it."""

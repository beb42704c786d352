"""What stands behind every frontend: the servers, the registry, the router and the executor of calls."""

"""One upstream server each: its process or connection, its session, its queue and its caches."""

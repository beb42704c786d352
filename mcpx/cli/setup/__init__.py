"""Getting in and out: import, install, the servers of the configuration, undo, doctor and check."""

"""Getting in and out: import, install, undo and the doctor."""

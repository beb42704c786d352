"""Private files, and the files and folders of a daemon."""
